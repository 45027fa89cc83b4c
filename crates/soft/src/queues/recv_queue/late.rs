//! RECVs that were passed over, as their senders do not go on.

use crate::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// The slots of a queue's RECVs that were passed over. How many there are is seen without a lock.
#[derive(Debug, Default)]
pub(super) struct LateRecvs {
    slots: Mutex<Vec<u32>>,
    count: AtomicU32,
}

impl LateRecvs {
    /// Whether there are any. Relaxed, as it is asked by the thread that has the lock of the queue, or by one that looks again.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Changes the list, and with it the count.
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

    /// Removes the first slot of which this holds, and returns it.
    pub(super) fn take(&self, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.change(|slots| {
            let at = slots.iter().position(|slot| is_it(*slot))?;
            Some(slots.swap_remove(at))
        })
    }

    pub(super) fn clear(&self) {
        self.change(Vec::clear);
    }
}
