//! Whether what clients of a store saw can be explained by one operation after another.

use doorbell_verbs::Time;
use std::collections::HashSet;
use std::fmt;

/// An operation on one key, with its outcome. Values are numbers; each is written once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Get(Option<u64>),
    Put(u64),
    /// And whether it did anything.
    Insert(u64, bool),
    Update(u64, bool),
    Delete(bool),
}

/// An operation as a client saw it. One that never ended has `Time::NEVER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) key: u64,
    pub(crate) op: Op,
    pub(crate) began: Time,
    pub(crate) ended: Time,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} to {:?}: key {} {:x?}", self.began, self.ended, self.key, self.op)
    }
}

impl Event {
    pub(crate) fn to_words(self) -> [u64; 5] {
        let (kind, value) = match self.op {
            Op::Get(None) => (0, 0),
            Op::Get(Some(value)) => (1, value),
            Op::Put(value) => (2, value),
            Op::Insert(value, done) => (4 + u64::from(done), value),
            Op::Update(value, done) => (6 + u64::from(done), value),
            Op::Delete(done) => (8 + u64::from(done), 0),
        };
        [self.key, kind, value, self.began.as_ps(), self.ended.as_ps()]
    }

    pub(crate) fn from_words(words: &[u64; 5]) -> Option<Event> {
        let &[key, kind, value, began, ended] = words;
        let op = match kind {
            0 => Op::Get(None),
            1 => Op::Get(Some(value)),
            2 => Op::Put(value),
            4 | 5 => Op::Insert(value, kind == 5),
            6 | 7 => Op::Update(value, kind == 7),
            8 | 9 => Op::Delete(kind == 9),
            _ => return None,
        };
        Some(Event { key, op, began: Time::from_ps(began), ended: Time::from_ps(ended) })
    }
}

/// What the key holds after `op`, if it can be next.
fn next(state: Option<u64>, op: Op) -> Option<Option<u64>> {
    match op {
        Op::Get(seen) => (seen == state).then_some(state),
        Op::Put(value) => Some(Some(value)),
        Op::Insert(value, done) => {
            (done == state.is_none()).then_some(if done { Some(value) } else { state })
        }
        Op::Update(value, done) => {
            (done == state.is_some()).then_some(if done { Some(value) } else { state })
        }
        Op::Delete(done) => (done == state.is_some()).then_some(None),
    }
}

/// Searches an order, as Wing and Gong do, for one key. `first` is what it holds at first.
fn explain(events: &[Event], first: Option<u64>) -> bool {
    let n = events.len();
    let mut seen: HashSet<(Vec<u64>, Option<u64>)> = HashSet::new();
    let mut stack = vec![(vec![0u64; n.div_ceil(64)], 0, first)];
    while let Some((done, count, state)) = stack.pop() {
        if count == n {
            return true;
        }
        let left = || (0..n).filter(|i| done[i / 64] & 1 << (i % 64) == 0);
        // Whoever ended before another began comes before it.
        let bound = left().map(|i| events[i].ended).min().unwrap_or(Time::NEVER);
        for i in left().filter(|&i| events[i].began <= bound) {
            if let Some(state) = next(state, events[i].op) {
                let mut done = done.clone();
                done[i / 64] |= 1 << (i % 64);
                if seen.insert((done.clone(), state)) {
                    stack.push((done, count + 1, state));
                }
            }
        }
    }
    false
}

/// The first key whose events no order explains. `first` tells what each key holds at first.
pub(crate) fn unexplained(events: &[Event], first: impl Fn(u64) -> Option<u64>) -> Option<Vec<Event>> {
    let mut keys: Vec<u64> = events.iter().map(|e| e.key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().find_map(|key| {
        let mut of_key: Vec<Event> = events.iter().filter(|e| e.key == key).copied().collect();
        of_key.sort_by_key(|e| e.began);
        (!explain(&of_key, first(key))).then_some(of_key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checker_tells_good_from_bad() {
        let event =
            |op, began, ended| Event { key: 1, op, began: Time::from_ps(began), ended: Time::from_ps(ended) };
        let none = |_| None;
        // Overlapping: either order. One after the other: only one.
        let good = [event(Op::Put(1), 0, 10), event(Op::Get(None), 5, 6), event(Op::Get(Some(1)), 7, 8)];
        assert!(unexplained(&good, none).is_none());
        let lost = [event(Op::Put(1), 0, 10), event(Op::Get(None), 11, 12)];
        assert!(unexplained(&lost, none).is_some());
        let back = [event(Op::Put(1), 0, 30), event(Op::Get(Some(1)), 5, 6), event(Op::Get(None), 7, 8)];
        assert!(unexplained(&back, none).is_some());
        let twice = [
            event(Op::Put(1), 0, 40),
            event(Op::Put(2), 5, 10),
            event(Op::Get(Some(1)), 1, 2),
            event(Op::Get(Some(2)), 11, 12),
            event(Op::Get(Some(1)), 13, 14),
        ];
        assert!(unexplained(&twice, none).is_some(), "the first PUT was applied twice");
        let unseen = [event(Op::Insert(1, true), 0, 1), event(Op::Insert(2, true), 2, 3)];
        assert!(unexplained(&unseen, none).is_some());
    }

    #[test]
    fn events_survive_as_words() {
        let ops = [
            Op::Get(None),
            Op::Get(Some(7)),
            Op::Put(7),
            Op::Insert(7, false),
            Op::Insert(7, true),
            Op::Update(7, false),
            Op::Update(7, true),
            Op::Delete(false),
            Op::Delete(true),
        ];
        for op in ops {
            let event = Event { key: 3, op, began: Time::from_ps(1), ended: Time::from_ps(2) };
            assert_eq!(Event::from_words(&event.to_words()), Some(event));
        }
        assert_eq!(Event::from_words(&[1, 3, 0, 0, 0]), None);
    }
}
