//! RECVs that polls have passed over: a sender has claimed the RECV, but has not completed it in time.

use crate::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// The slots of a queue's passed-over RECVs. Their number can be read without the lock.
#[derive(Debug, Default)]
pub(super) struct LateRecvs {
    slots: Mutex<Vec<u32>>,
    count: AtomicU32,
}

impl LateRecvs {
    /// Whether any RECV was passed over. Relaxed: the caller holds the queue's lock, or is a thread that
    /// checks again later.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Changes the list and updates the count.
    #[cold]
    fn change<R>(&self, change: impl FnOnce(&mut Vec<u32>) -> R) -> R {
        let mut slots = lock(&self.slots);
        let result = change(&mut slots);
        self.count.store(slots.len() as u32, Relaxed);
        result
    }

    pub(super) fn add(&self, slot: u32) {
        self.change(|slots| slots.push(slot));
    }

    pub(super) fn remove(&self, slot: u32) {
        self.change(|slots| slots.retain(|late| *late != slot));
    }

    /// Removes and returns the first slot for which `is_it` holds.
    pub(super) fn take(&self, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.change(|slots| {
            let at = slots.iter().position(|slot| is_it(*slot))?;
            Some(slots.swap_remove(at))
        })
    }

    /// Whether `is_it` holds for a slot.
    pub(super) fn any(&self, is_it: impl Fn(u32) -> bool) -> bool {
        self.has_any() && lock(&self.slots).iter().any(|slot| is_it(*slot))
    }

    pub(super) fn clear(&self) {
        self.change(Vec::clear);
    }
}
