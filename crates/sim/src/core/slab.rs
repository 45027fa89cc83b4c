//! Reusable slots, which keep the inner loop from allocating.

use crate::core::index::{Id, IdVec};
use std::ops::{Index, IndexMut};

/// Bits of an id that hold its slot in a debug build. The bits above hold the slot's generation.
const SLOT_BITS: u32 = 24;

/// Values by id. A freed id is used again.
///
/// In debug builds an id also carries the generation of its slot: how often the slot had been freed when the
/// id was given out. Using or freeing an id that was freed before panics in debug builds. In release builds
/// an id is just its slot.
pub(crate) struct Slab<I, T> {
    slots: IdVec<I, T>,
    free: Vec<I>,
    /// The generation of each slot; empty in release builds.
    generations: Vec<u8>,
    /// Initial value of a new slot. The value proper is then written in place, without a copy elsewhere.
    blank: T,
}

impl<I: Id, T> Slab<I, T> {
    /// The slot of an id. In debug builds it panics if the id is stale.
    #[inline]
    fn slot(&self, id: I) -> I {
        if !cfg!(debug_assertions) {
            return id;
        }
        let slot = id.index() & ((1 << SLOT_BITS) - 1);
        let (given, now) = ((id.index() >> SLOT_BITS) as u8, self.generations[slot]);
        assert!(
            given == now,
            "a stale {}: slot {slot} was freed after the id was created (generation {given}, now {now})",
            std::any::type_name::<I>()
        );
        I::from_index(slot)
    }

    /// The id of a slot, valid until the slot is freed.
    #[inline]
    fn number(&self, slot: I) -> I {
        if !cfg!(debug_assertions) {
            return slot;
        }
        I::from_index(slot.index() | usize::from(self.generations[slot.index()]) << SLOT_BITS)
    }
}

impl<I: Id, T: Copy> Slab<I, T> {
    pub(crate) const fn new(blank: T) -> Slab<I, T> {
        Slab { slots: IdVec::new(), free: Vec::new(), generations: Vec::new(), blank }
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> I {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.grow(),
        };
        self.slots[slot] = value;
        self.number(slot)
    }

    /// Adds a slot.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> I {
        // Reserve space to free every slot without allocating later.
        let slots = self.slots.len() + 1;
        if self.free.capacity() < slots {
            self.free.reserve(slots.next_power_of_two());
        }
        if cfg!(debug_assertions) {
            // The last slot would equal `Maybe::NONE` in its last generation.
            assert!(slots < 1 << SLOT_BITS, "a slab of a debug build has fewer than 2^{SLOT_BITS} slots");
            self.generations.push(0);
        }
        self.slots.push(self.blank)
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Frees an id, which may then be given out again.
    pub(crate) fn free(&mut self, id: I) {
        let slot = self.slot(id);
        if cfg!(debug_assertions) {
            let generation = &mut self.generations[slot.index()];
            *generation = generation.wrapping_add(1);
        }
        self.free.push(slot);
    }
}

impl<I: Id, T> Index<I> for Slab<I, T> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        &self.slots[self.slot(id)]
    }
}

impl<I: Id, T> IndexMut<I> for Slab<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        let slot = self.slot(id);
        &mut self.slots[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::index::FlightId;

    #[test]
    fn a_freed_slot_is_used_again() {
        let mut slab = Slab::<FlightId, u32>::new(0);
        let ids = [1, 2, 3].map(|value| slab.insert(value));
        slab.free(ids[1]);
        let again = slab.insert(4);
        assert_eq!([ids[0], again, ids[2]].map(|id| slab[id]), [1, 4, 3]);
        assert_eq!((slab.len(), slab.slots.len()), (3, 3));
    }

    /// A slab whose only slot held a freed value and now holds another, and the stale id of the first.
    #[cfg(debug_assertions)]
    fn with_stale() -> (Slab<FlightId, u32>, FlightId) {
        let mut slab = Slab::new(0);
        let stale = slab.insert(1);
        slab.free(stale);
        slab.insert(2);
        (slab, stale)
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "a stale doorbell_sim::core::index::FlightId: slot 0 was freed")]
    fn a_stale_number_panics() {
        let (slab, stale) = with_stale();
        let _ = slab[stale];
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "a stale doorbell_sim::core::index::FlightId: slot 0 was freed")]
    fn a_number_is_freed_once() {
        let (mut slab, stale) = with_stale();
        slab.free(stale);
    }
}
