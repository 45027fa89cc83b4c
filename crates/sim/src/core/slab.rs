//! Slots that are used again: what keeps the inner loop from allocating.

use crate::core::index::{Id, IdVec};
use std::ops::{Index, IndexMut};

/// Values by number; a freed number is used again.
pub(crate) struct Slab<I, T> {
    slots: IdVec<I, T>,
    free: Vec<I>,
    /// What a new slot holds until its value is written: right to its place, without a copy elsewhere.
    blank: T,
}

impl<I: Id, T: Copy> Slab<I, T> {
    pub(crate) const fn new(blank: T) -> Slab<I, T> {
        Slab { slots: IdVec::new(), free: Vec::new(), blank }
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> I {
        let id = match self.free.pop() {
            Some(id) => id,
            None => self.grow(),
        };
        self.slots[id] = value;
        id
    }

    /// Makes a slot more.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> I {
        // Room to free every slot without allocating then.
        let slots = self.slots.len() + 1;
        if self.free.capacity() < slots {
            self.free.reserve(slots.next_power_of_two());
        }
        self.slots.push(self.blank)
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Gives the number back; the value stays until the number is used again.
    pub(crate) fn free(&mut self, id: I) {
        self.free.push(id);
    }
}

impl<I: Id, T> Index<I> for Slab<I, T> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        &self.slots[id]
    }
}

impl<I: Id, T> IndexMut<I> for Slab<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.slots[id]
    }
}
