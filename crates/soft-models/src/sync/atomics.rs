//! Stands in for the atomics, locks and cells: those of loom.
//!
//! loom takes an access with `SeqCst` for one with `AcqRel`, and knows of fences alone that they are in one
//! total order. An access with `SeqCst` is therefore made of two: the access with `AcqRel`, and a `SeqCst`
//! fence in front of each `SeqCst` load of a thread that has made a `SeqCst` store before. That is the order
//! which the software NIC asks of such accesses: two threads that each store one word and load the other's do
//! not both miss the other's store. A store or a load with less than `SeqCst` on either side has no fence,
//! and the model fails. The fence is stronger than the accesses in one thing: it also orders the relaxed
//! accesses between the store and the load.

pub(crate) use loom::sync::atomic::fence;
pub(crate) use loom::sync::{Mutex, MutexGuard};
pub(crate) use loom::thread::yield_now;
pub(crate) use std::sync::TryLockError;
pub(crate) use std::sync::atomic::Ordering;

use Ordering::*;
use loom::cell::UnsafeCell;
use std::cell::Cell;

loom::thread_local! {
    /// Whether this thread has made a `SeqCst` store.
    static HAS_STORED: Cell<bool> = Cell::new(false);
}

/// The order that loom gives a load, behind a fence where there has to be one.
#[track_caller]
fn of_load(order: Ordering) -> Ordering {
    if order != SeqCst {
        return order;
    }
    if HAS_STORED.with(Cell::get) {
        fence(SeqCst);
    }
    Acquire
}

/// The order that loom gives a store.
fn of_store(order: Ordering) -> Ordering {
    if order != SeqCst {
        return order;
    }
    HAS_STORED.with(|stored| stored.set(true));
    Release
}

/// The order that loom gives an access that loads and stores.
#[track_caller]
fn of_both(order: Ordering) -> Ordering {
    if order != SeqCst {
        return order;
    }
    of_load(order);
    of_store(order);
    AcqRel
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        /// An atomic of loom.
        #[derive(Debug, Default)]
        pub(crate) struct $name(loom::sync::atomic::$name);

        impl $name {
            #[track_caller]
            pub(crate) fn new(value: $value) -> $name {
                $name(loom::sync::atomic::$name::new(value))
            }

            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.0.load(of_load(order))
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, of_store(order));
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.swap(value, of_both(order))
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                from: $value,
                to: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(from, to, of_both(success), of_load(failure))
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
atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
atomic!(AtomicUsize, usize);

/// A value that only the holder of a lock uses. loom fails where two threads use it without an order between
/// them.
#[derive(Debug)]
pub(crate) struct LockedCell<T>(UnsafeCell<T>);

impl<T> LockedCell<T> {
    #[track_caller]
    pub(crate) fn new(value: T) -> LockedCell<T> {
        LockedCell(UnsafeCell::new(value))
    }

    /// The value, to read.
    ///
    /// # Safety
    /// Nobody changes the value as long as the reference lives.
    #[track_caller]
    pub(crate) unsafe fn get(&self) -> &T {
        // SAFETY: as the caller says, and loom looks.
        self.0.with(|value| unsafe { &*value })
    }

    /// The value, to change.
    ///
    /// # Safety
    /// Nobody else uses the value as long as the reference lives.
    #[track_caller]
    #[expect(clippy::mut_from_ref, reason = "the lock sees to it that there is one reference")]
    pub(crate) unsafe fn get_mut(&self) -> &mut T {
        // SAFETY: as the caller says, and loom looks.
        self.0.with_mut(|value| unsafe { &mut *value })
    }
}
