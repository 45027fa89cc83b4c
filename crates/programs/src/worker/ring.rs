//! A ring of outstanding operations.

use super::slots::wrap;
use doorbell_verbs::Time;

#[derive(Clone, Copy)]
struct Slot {
    posted: Time,
    /// Index of the operation kind.
    kind: u16,
    /// Index of the lane to which the operation was posted.
    lane: u32,
    done: bool,
}

/// A window of operations in posting order. An operation leaves when it and all older ones are complete.
pub(super) struct Ring {
    slots: Box<[Slot]>,
    /// Operations posted so far.
    posted: u64,
    /// Number of operations that have left.
    retired: u64,
    /// `completed_at`: time of the last completion. `before`: time of the last completion before
    /// `completed_at`.
    completed_at: Time,
    before: Time,
}

impl Ring {
    pub(super) fn new(window: u32) -> Ring {
        let slots = vec![Slot { posted: Time::START, kind: 0, lane: 0, done: false }; window as usize].into();
        Ring { slots, posted: 0, retired: 0, completed_at: Time::START, before: Time::START }
    }

    fn slot(&self, number: u64) -> usize {
        let len = self.slots.len() as u64;
        // Most windows are powers of two, for which this avoids a division. The division would dominate the
        // cost of this function.
        (if len.is_power_of_two() { number & (len - 1) } else { number % len }) as usize
    }

    /// Operations posted so far.
    pub(super) fn posted(&self) -> u64 {
        self.posted
    }

    /// Whether `n` more operations fit.
    pub(super) fn has_room(&self, n: u32) -> bool {
        self.posted - self.retired + u64::from(n) <= self.slots.len() as u64
    }

    /// Whether the ring has no operation.
    pub(super) fn is_empty(&self) -> bool {
        self.posted == self.retired
    }

    /// Number of operations that are not complete.
    pub(super) fn outstanding(&self) -> u64 {
        self.under_way().count() as u64
    }

    /// Numbers and posting times of the operations that are not complete.
    pub(super) fn under_way(&self) -> impl Iterator<Item = (u64, Time)> {
        let slots = (self.retired..self.posted).map(|number| (number, self.slots[self.slot(number)]));
        slots.filter(|(_, slot)| !slot.done).map(|(number, slot)| (number, slot.posted))
    }

    /// Lane of the oldest operation in the ring.
    pub(super) fn oldest(&self) -> Option<usize> {
        (!self.is_empty()).then(|| self.slots[self.slot(self.retired)].lane as usize)
    }

    /// Adds an operation of this kind, posted to this lane. Returns its slot.
    pub(super) fn push(&mut self, now: Time, kind: usize, lane: usize) -> usize {
        debug_assert!(self.has_room(1));
        let slot = self.slot(self.posted);
        self.slots[slot] = Slot { posted: now, kind: kind as u16, lane: lane as u32, done: false };
        self.posted += 1;
        slot
    }

    /// Posting time of the operation in `slot`.
    pub(super) fn posted_at(&self, slot: usize) -> Time {
        self.slots[slot].posted
    }

    /// Operation kind in `slot`.
    pub(super) fn kind_of(&self, slot: usize) -> usize {
        self.slots[slot].kind.into()
    }

    /// Slots from the oldest operation in the ring to the operation in `slot`, in order.
    pub(super) fn through(&self, slot: usize) -> impl Iterator<Item = usize> + use<> {
        let (len, first) = (self.slots.len(), self.slot(self.retired));
        let ahead = wrap(slot + len - first, len);
        (0..=ahead).map(move |place| wrap(first + place, len))
    }

    /// Notes a completion at `now`. Returns the time of the last completion before `now`.
    pub(super) fn completed_at(&mut self, now: Time) -> Time {
        if now != self.completed_at {
            self.before = std::mem::replace(&mut self.completed_at, now);
        }
        self.before
    }

    /// Completes the operation in `slot`.
    pub(super) fn complete(&mut self, slot: usize) {
        self.slots[slot].done = true;
        while self.retired < self.posted && self.slots[self.slot(self.retired)].done {
            self.retired += 1;
        }
    }

    /// Completes the operation in `slot` and all older ones. Returns how many operations this completes. Only
    /// for a ring of one QP, because completions of one QP arrive in order.
    pub(super) fn complete_through(&mut self, slot: usize) -> u64 {
        let len = self.slots.len();
        let ahead = wrap(slot + len - self.slot(self.retired), len);
        let new = ahead as u64 + 1;
        self.retired += new;
        debug_assert!(self.retired <= self.posted);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_is_awaited_first() {
        let mut ring = Ring::new(3);
        let slots: Vec<usize> = (0..3).map(|_| ring.push(Time::START, 0, 0)).collect();
        assert!(!ring.has_room(1));
        ring.complete(slots[2]);
        ring.complete(slots[1]);
        assert!(!ring.has_room(1), "the oldest is still under way");
        ring.complete(slots[0]);
        assert!(ring.has_room(3));
    }

    #[test]
    fn the_oldest_is_of_the_lane_that_took_it() {
        let mut ring = Ring::new(3);
        assert_eq!(ring.oldest(), None);
        let slots: Vec<usize> = [7, 5, 9].map(|lane| ring.push(Time::START, 0, lane)).into();
        assert_eq!(ring.oldest(), Some(7));
        ring.complete(slots[1]);
        assert_eq!(ring.oldest(), Some(7));
        ring.complete(slots[0]);
        assert_eq!(ring.oldest(), Some(9));
    }

    #[test]
    fn a_signalled_one_brings_the_unsignalled_before_it() {
        let mut ring = Ring::new(8);
        let mut slots: Vec<usize> = (0..8).map(|_| ring.push(Time::START, 0, 0)).collect();
        assert_eq!(ring.complete_through(slots[3]), 4);
        assert!(ring.has_room(4) && !ring.has_room(5));
        slots.extend((0..4).map(|_| ring.push(Time::START, 0, 0)));
        assert_eq!(ring.complete_through(slots[7]), 4);
        assert_eq!(ring.complete_through(slots[11]), 4);
        assert!(ring.has_room(8));
    }
}
