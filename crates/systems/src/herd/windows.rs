//! A client's requests that have not ended.

use super::config::Config;
use super::immediates::{Status, from_imm, to_imm};
use doorbell_verbs::{Span, Time};

/// A request that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) worker: u32,
    pub(super) sequence: u32,
    pub(super) length: u16,
    pub(super) repetition: u16,
    pub(super) sent: Time,
    /// When the request is due to be sent again.
    again: Time,
    pub(super) tag: u64,
}

/// A client's requests to one worker.
struct Lane {
    next: u32,
    slots: Vec<Option<Pending>>,
}

/// A client's windows, one for each worker.
pub(super) struct Windows {
    lanes: Vec<Lane>,
    outstanding: u32,
    retry: Option<Span>,
}

impl Windows {
    pub(super) fn new(config: &Config) -> Windows {
        let lane = || Lane { next: 1, slots: vec![None; config.window as usize] };
        Windows { lanes: (0..config.workers).map(|_| lane()).collect(), outstanding: 0, retry: config.retry }
    }

    pub(super) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Index of the slot for a sequence number, within a window.
    fn slot(&self, sequence: u32) -> usize {
        sequence as usize % self.lanes[0].slots.len()
    }

    pub(super) fn has_room(&self, worker: u32) -> bool {
        let lane = &self.lanes[worker as usize];
        lane.slots[self.slot(lane.next)].is_none()
    }

    /// Reserves a slot for the next request to a worker. The worker's window must [have
    /// room](Windows::has_room).
    pub(super) fn take(&mut self, worker: u32, length: u16, tag: u64, now: Time) -> Pending {
        let sequence = self.lanes[worker as usize].next;
        let again = self.retry.map_or(Time::NEVER, |after| now + after);
        let pending = Pending { worker, sequence, length, repetition: 0, sent: now, again, tag };
        let slot = self.slot(sequence);
        let lane = &mut self.lanes[worker as usize];
        lane.slots[slot] = Some(pending);
        lane.next = sequence.wrapping_add(1);
        self.outstanding += 1;
        pending
    }

    /// Ends the request to which a reply with the immediate `imm` belongs; `None` if there is no such request
    /// any more.
    pub(super) fn end(&mut self, imm: u32) -> Option<(Status, Pending)> {
        let (status, worker, low) = from_imm(imm);
        let status = status?;
        // Windows are powers of two, so the low bits identify the slot.
        let at = self.slot(low);
        let slot = self.lanes.get_mut(worker as usize)?.slots.get_mut(at)?;
        let pending = slot.take_if(|p| to_imm(status, worker, p.sequence) == imm)?;
        self.outstanding -= 1;
        Some((status, pending))
    }

    /// Worker and sequence number of each request that has not ended.
    pub(super) fn under_way(&self) -> impl Iterator<Item = (u32, u32)> {
        let of = |(worker, lane): (u32, &'_ Lane)| {
            lane.slots.iter().flatten().map(move |p| (worker, p.sequence)).collect::<Vec<_>>()
        };
        (0..).zip(&self.lanes).flat_map(of)
    }

    /// When the next request is due to be sent again.
    pub(super) fn due(&self) -> Time {
        if self.retry.is_none() {
            return Time::NEVER;
        }
        let all = self.lanes.iter().flat_map(|l| &l.slots).flatten();
        all.map(|p| p.again).min().unwrap_or(Time::NEVER)
    }

    /// The requests that are due to be sent again, each with its worker. They count as sent at `now`.
    pub(super) fn repeat(&mut self, now: Time) -> Vec<(u32, Pending)> {
        let Some(after) = self.retry.filter(|_| self.due() <= now) else { return Vec::new() };
        let mut due = Vec::new();
        for (worker, lane) in (0..).zip(&mut self.lanes) {
            for p in lane.slots.iter_mut().flatten().filter(|p| p.again <= now) {
                p.repetition = p.repetition.wrapping_add(1);
                p.again = now + after;
                due.push((worker, *p));
            }
        }
        due
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]
mod tests {
    use super::super::config::tests::config;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const RETRY: Span = Span::from_us(10);

    proptest! {
        /// Compares windows with a map of the requests in flight. Replies come in any order, some twice, and
        /// some without a request.
        #[test]
        fn each_request_ends_once(
            steps in prop::collection::vec((0..3u32, 0..4u32, any::<prop::sample::Index>()), 1..300),
            first in prop_oneof![Just(1u32), Just((1 << 22) - 3), Just(u32::MAX - 5)],
        ) {
            let c = Config { retry: Some(RETRY), ..config() };
            let mut windows = Windows::new(&c);
            windows.lanes.iter_mut().for_each(|l| l.next = first);
            let mut model: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
            let mut ended: Vec<u32> = Vec::new();
            for (tag, (worker, step, pick)) in (0..).zip(steps) {
                match step {
                    0 | 1 if windows.has_room(worker) => {
                        let p = windows.take(worker, 0, tag, Time::START);
                        model.insert(tag, (worker, p.sequence));
                    }
                    2 if !model.is_empty() => {
                        let (&tag, &(worker, sequence)) = model.iter().nth(pick.index(model.len())).unwrap();
                        let imm = to_imm(Status::Ok, worker, sequence);
                        let (status, pending) = windows.end(imm).expect("it is under way");
                        prop_assert_eq!((status, pending.tag, pending.sequence), (Status::Ok, tag, sequence));
                        model.remove(&tag);
                        ended.push(imm);
                    }
                    3 if !ended.is_empty() => {
                        let again = ended[pick.index(ended.len())];
                        let under_way = |&(w, s): &(u32, u32)| to_imm(Status::Ok, w, s) == again;
                        if !model.values().any(under_way) {
                            prop_assert_eq!(windows.end(again), None);
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(windows.outstanding() as usize, model.len());
            }
            let due = windows.repeat(Time::START + RETRY);
            prop_assert_eq!(due.len(), model.len());
            prop_assert!(due.iter().all(|(worker, p)| model[&p.tag] == (*worker, p.sequence)));
            prop_assert!(windows.repeat(Time::START + RETRY).is_empty(), "they are not due any more");
        }
    }

    #[test]
    fn a_window_is_full_until_its_oldest_request_ends() {
        let mut windows = Windows::new(&config());
        let sent: Vec<Pending> = (0..8).map(|tag| windows.take(1, 4, tag, Time::START)).collect();
        assert!(!windows.has_room(1) && windows.has_room(0));
        windows.end(to_imm(Status::Ok, 1, sent[3].sequence)).expect("under way");
        assert!(!windows.has_room(1), "the next request has the slot of the oldest");
        windows.end(to_imm(Status::Malformed, 1, sent[0].sequence)).expect("under way");
        assert!(windows.has_room(1));
        assert_eq!(windows.due(), Time::NEVER);
        assert_eq!(windows.end(to_imm(Status::Ok, 9, 2)), None, "there is no such worker");
    }
}
