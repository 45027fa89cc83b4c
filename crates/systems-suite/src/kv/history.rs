//! Checks whether one operation after another explains the observations of a store's clients.

use doorbell_verbs::Time;
use std::collections::HashSet;
use std::fmt;

/// An operation on one key, with its outcome. Values are numbers, and each is written once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KvOp {
    Get(Option<u64>),
    Put(u64),
    /// The value, and whether the operation did anything.
    Insert(u64, bool),
    Update(u64, bool),
    Delete(bool),
}

/// An operation as a client saw it. One that never ended has `Time::NEVER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KvEvent {
    pub(crate) key: u64,
    pub(crate) op: KvOp,
    pub(crate) began: Time,
    pub(crate) ended: Time,
}

impl fmt::Display for KvEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} to {:?}: key {} {:x?}", self.began, self.ended, self.key, self.op)
    }
}

impl KvEvent {
    pub(crate) fn to_words(self) -> [u64; 5] {
        let (kind, value) = match self.op {
            KvOp::Get(None) => (0, 0),
            KvOp::Get(Some(value)) => (1, value),
            KvOp::Put(value) => (2, value),
            KvOp::Insert(value, done) => (4 + u64::from(done), value),
            KvOp::Update(value, done) => (6 + u64::from(done), value),
            KvOp::Delete(done) => (8 + u64::from(done), 0),
        };
        [self.key, kind, value, self.began.as_ps(), self.ended.as_ps()]
    }

    pub(crate) fn from_words(words: &[u64; 5]) -> Option<KvEvent> {
        let &[key, kind, value, began, ended] = words;
        let op = match kind {
            0 => KvOp::Get(None),
            1 => KvOp::Get(Some(value)),
            2 => KvOp::Put(value),
            4 | 5 => KvOp::Insert(value, kind == 5),
            6 | 7 => KvOp::Update(value, kind == 7),
            8 | 9 => KvOp::Delete(kind == 9),
            _ => return None,
        };
        Some(KvEvent { key, op, began: Time::from_ps(began), ended: Time::from_ps(ended) })
    }
}

/// The key's state after `op`, if `op` can be next.
fn next(state: Option<u64>, op: KvOp) -> Option<Option<u64>> {
    match op {
        KvOp::Get(seen) => (seen == state).then_some(state),
        KvOp::Put(value) => Some(Some(value)),
        KvOp::Insert(value, done) => {
            (done == state.is_none()).then_some(if done { Some(value) } else { state })
        }
        KvOp::Update(value, done) => {
            (done == state.is_some()).then_some(if done { Some(value) } else { state })
        }
        KvOp::Delete(done) => (done == state.is_some()).then_some(None),
    }
}

/// The events of a key that are not in order yet, and the key's state.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Left {
    /// Bits of the events that are in order.
    done: Vec<u64>,
    count: usize,
    state: Option<u64>,
}

impl Left {
    fn has(&self, i: usize) -> bool {
        self.done[i / 64] & 1 << (i % 64) == 0
    }

    /// The state after event `i` was put next.
    fn after(&self, i: usize, state: Option<u64>) -> Left {
        let mut left = Left { state, count: self.count + 1, done: self.done.clone() };
        left.done[i / 64] |= 1 << (i % 64);
        left
    }
}

/// Searches an order for the events of one key, as Wing and Gong do. Events are sorted by their begin.
/// `first` is the key's state at first.
fn explain(events: &[KvEvent], first: Option<u64>) -> bool {
    let n = events.len();
    let mut seen: HashSet<Left> = HashSet::new();
    let mut stack = vec![Left { done: vec![0; n.div_ceil(64)], count: 0, state: first }];
    while let Some(left) = stack.pop() {
        if left.count == n {
            return true;
        }
        let rest = || (0..n).filter(|&i| left.has(i));
        // An operation that ended before another began comes before it.
        let bound = rest().map(|i| events[i].ended).min().unwrap_or(Time::NEVER);
        let possible = rest().take_while(|&i| events[i].began <= bound);
        let mut possible: Vec<(usize, Option<u64>)> =
            possible.filter_map(|i| Some((i, next(left.state, events[i].op)?))).collect();
        // An operation that changes nothing may always be next.
        if let Some(&(i, state)) = possible.iter().find(|(_, state)| *state == left.state) {
            stack.push(left.after(i, state));
            continue;
        }
        // A replaced value does not come back, because each value is written once.
        if let Some(value) = left.state
            && rest().any(|i| events[i].op == KvOp::Get(Some(value)))
        {
            continue;
        }
        // The operation that ended first is likely to be next, so it is tried first.
        possible.sort_by_key(|&(i, _)| std::cmp::Reverse(events[i].ended));
        for (i, state) in possible {
            let next = left.after(i, state);
            if seen.insert(next.clone()) {
                stack.push(next);
            }
        }
    }
    false
}

/// The events of the first key that no order explains. `first` returns the state of a key at first.
pub(crate) fn unexplained(events: &[KvEvent], first: impl Fn(u64) -> Option<u64>) -> Option<Vec<KvEvent>> {
    let mut keys: Vec<u64> = events.iter().map(|e| e.key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().find_map(|key| {
        let mut of_key: Vec<KvEvent> = events.iter().filter(|e| e.key == key).copied().collect();
        of_key.sort_by_key(|e| e.began);
        (!explain(&of_key, first(key))).then_some(of_key)
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checker_tells_good_from_bad() {
        let event = |op, began, ended| KvEvent {
            key: 1,
            op,
            began: Time::from_ps(began),
            ended: Time::from_ps(ended),
        };
        let none = |_| None;
        // Overlapping operations may have either order. Operations one after the other have only one.
        let good =
            [event(KvOp::Put(1), 0, 10), event(KvOp::Get(None), 5, 6), event(KvOp::Get(Some(1)), 7, 8)];
        assert!(unexplained(&good, none).is_none());
        let lost = [event(KvOp::Put(1), 0, 10), event(KvOp::Get(None), 11, 12)];
        assert!(unexplained(&lost, none).is_some());
        let back =
            [event(KvOp::Put(1), 0, 30), event(KvOp::Get(Some(1)), 5, 6), event(KvOp::Get(None), 7, 8)];
        assert!(unexplained(&back, none).is_some());
        let twice = [
            event(KvOp::Put(1), 0, 40),
            event(KvOp::Put(2), 5, 10),
            event(KvOp::Get(Some(1)), 1, 2),
            event(KvOp::Get(Some(2)), 11, 12),
            event(KvOp::Get(Some(1)), 13, 14),
        ];
        assert!(unexplained(&twice, none).is_some(), "the first PUT was applied twice");
        let unseen = [event(KvOp::Insert(1, true), 0, 1), event(KvOp::Insert(2, true), 2, 3)];
        assert!(unexplained(&unseen, none).is_some());
    }

    #[test]
    fn events_survive_as_words() {
        let ops = [
            KvOp::Get(None),
            KvOp::Get(Some(7)),
            KvOp::Put(7),
            KvOp::Insert(7, false),
            KvOp::Insert(7, true),
            KvOp::Update(7, false),
            KvOp::Update(7, true),
            KvOp::Delete(false),
            KvOp::Delete(true),
        ];
        for op in ops {
            let event = KvEvent { key: 3, op, began: Time::from_ps(1), ended: Time::from_ps(2) };
            assert_eq!(KvEvent::from_words(&event.to_words()), Some(event));
        }
        assert_eq!(KvEvent::from_words(&[1, 3, 0, 0, 0]), None);
    }

    /// Tries all orders.
    fn explained_by_any_order(events: &[KvEvent], left: &[usize], state: Option<u64>) -> bool {
        left.is_empty()
            || left.iter().any(|&i| {
                let comes_first = left.iter().all(|&other| events[i].began <= events[other].ended);
                let rest: Vec<usize> = left.iter().copied().filter(|&other| other != i).collect();
                comes_first
                    && next(state, events[i].op)
                        .is_some_and(|state| explained_by_any_order(events, &rest, state))
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

        #[test]
        fn the_search_finds_what_trying_everything_finds(
            ops in prop::collection::vec((0..6u8, 0..7u64, any::<bool>(), 0..20u64, 0..8u64), 1..7),
        ) {
            let event = |(n, (kind, seen, done, began, span)): (u64, (u8, u64, bool, u64, u64))| {
                let op = match kind {
                    0 | 1 => KvOp::Get((seen > 0).then_some(seen)),
                    2 => KvOp::Put(n),
                    3 => KvOp::Insert(n, done),
                    4 => KvOp::Update(n, done),
                    _ => KvOp::Delete(done),
                };
                KvEvent { key: 1, op, began: Time::from_ps(began), ended: Time::from_ps(began + span) }
            };
            let events: Vec<KvEvent> = (1..).zip(ops).map(event).collect();
            let all: Vec<usize> = (0..events.len()).collect();
            let explained = unexplained(&events, |_| None).is_none();
            prop_assert_eq!(explained, explained_by_any_order(&events, &all, None));
        }
    }
}
