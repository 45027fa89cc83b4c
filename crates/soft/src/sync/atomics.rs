//! The atomics, locks and cells of the code that the models check (`crates/soft-models`).
//!
//! The models compile that code with another module in place of this one, which has loom's types.

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use std::sync::{Mutex, MutexGuard, TryLockError};
pub(crate) use std::thread::yield_now;

use std::cell::UnsafeCell;

/// A value that only the holder of a lock uses. The models detect two threads that use the value at a time.
#[derive(Debug)]
pub(crate) struct LockedCell<T>(UnsafeCell<T>);

impl<T> LockedCell<T> {
    pub(crate) fn new(value: T) -> LockedCell<T> {
        LockedCell(UnsafeCell::new(value))
    }

    /// Borrows the value to read it.
    ///
    /// # Safety
    /// No thread changes the value as long as the reference lives.
    #[inline(always)]
    pub(crate) unsafe fn get(&self) -> &T {
        // SAFETY: the caller guarantees it.
        unsafe { &*self.0.get() }
    }

    /// Borrows the value to change it.
    ///
    /// # Safety
    /// No other reference to the value is used as long as the reference lives.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the lock sees to it that there is one reference")]
    pub(crate) unsafe fn get_mut(&self) -> &mut T {
        // SAFETY: the caller guarantees it.
        unsafe { &mut *self.0.get() }
    }
}
