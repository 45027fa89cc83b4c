//! Stands in for the atomics, locks and cells of `doorbell-soft`: the types of loom.
//!
//! loom treats a `SeqCst` access as an `AcqRel` access. loom models the total order only for `SeqCst` fences.
//! Here, an access with `SeqCst` therefore becomes an access with `AcqRel`. If the thread has made a `SeqCst`
//! access before, a `SeqCst` fence precedes the access. This gives the order that the software NIC needs from
//! such accesses: if two threads each store to one word and load the other thread's word, at least one load
//! sees the other thread's store. If one of the four accesses is weaker, there is no fence between the two
//! accesses of its thread, and the model fails. The fence is stronger than the accesses in one respect: it
//! also orders the relaxed accesses between them.
//!
//! loom tries another order of two accesses to a word if one of them is a store. But loom keeps only the last
//! access to each word. So loom forgets a thread's load if another thread loads the word and then stores to
//! it. Here, a store to a separate word therefore precedes each load that is not `Relaxed`. loom cannot
//! forget this store, which orders nothing itself.

pub(crate) use loom::sync::atomic::fence;
pub(crate) use loom::sync::{Mutex, MutexGuard};
pub(crate) use loom::thread::yield_now;
pub(crate) use std::sync::TryLockError;
pub(crate) use std::sync::atomic::Ordering;

use Ordering::*;
use loom::cell::UnsafeCell;
use std::cell::Cell;

loom::thread_local! {
    /// Whether this thread has made a `SeqCst` access.
    static WAS_ORDERED: Cell<bool> = Cell::new(false);
}

/// The order that loom gives an access. For `SeqCst` this order is `instead`, and a fence precedes the access
/// if needed.
#[track_caller]
fn given(order: Ordering, instead: Ordering) -> Ordering {
    if order != SeqCst {
        return order;
    }
    if WAS_ORDERED.with(|was| was.replace(true)) {
        fence(SeqCst);
    }
    instead
}

/// The order that loom gives the load of a compare-and-swap that fails.
fn of_failure(order: Ordering) -> Ordering {
    if order == SeqCst { Acquire } else { order }
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        /// An atomic of loom.
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            word: loom::sync::atomic::$name,
            loads: loom::sync::atomic::AtomicBool,
        }

        impl $name {
            #[track_caller]
            pub(crate) fn new(value: $value) -> $name {
                $name { word: loom::sync::atomic::$name::new(value), loads: Default::default() }
            }

            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                if order != Relaxed {
                    self.loads.store(true, Relaxed);
                }
                self.word.load(given(order, Acquire))
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.word.store(value, given(order, Release));
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                self.word.swap(value, given(order, AcqRel))
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                from: $value,
                to: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.word.compare_exchange(from, to, given(success, AcqRel), of_failure(failure))
            }

            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut before = self.load(failure);
                while let Some(after) = change(before) {
                    match self.compare_exchange(before, after, success, failure) {
                        Ok(before) => return Ok(before),
                        Err(other) => before = other,
                    }
                }
                Err(before)
            }
        }
    };
}

atomic!(AtomicBool, bool);
atomic!(AtomicU8, u8);
atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
atomic!(AtomicUsize, usize);

impl AtomicU32 {
    #[track_caller]
    pub(crate) fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.word.fetch_add(value, given(order, AcqRel))
    }
}

/// A value that only the holder of a lock uses. loom fails if two threads use the value without an order
/// between them.
#[derive(Debug)]
pub(crate) struct LockedCell<T>(UnsafeCell<T>);

impl<T> LockedCell<T> {
    #[track_caller]
    pub(crate) fn new(value: T) -> LockedCell<T> {
        LockedCell(UnsafeCell::new(value))
    }

    /// Borrows the value to read it.
    ///
    /// # Safety
    /// No thread changes the value as long as the reference lives.
    #[track_caller]
    pub(crate) unsafe fn get(&self) -> &T {
        // SAFETY: the caller guarantees it, and loom checks it.
        self.0.with(|value| unsafe { &*value })
    }

    /// Borrows the value to change it.
    ///
    /// # Safety
    /// No other reference to the value is used as long as the reference lives.
    #[track_caller]
    #[expect(clippy::mut_from_ref, reason = "the lock guarantees that there is one reference")]
    pub(crate) unsafe fn get_mut(&self) -> &mut T {
        // SAFETY: the caller guarantees it, and loom checks it.
        self.0.with_mut(|value| unsafe { &mut *value })
    }
}
