//! The biased lock of `doorbell-soft`, and stand-ins for the modules that it uses.

pub(crate) mod atomics;
#[path = "../../../soft/src/sync/biased.rs"]
pub(crate) mod biased;
pub(crate) mod platform;

use atomics::{Mutex, MutexGuard};
use std::sync::PoisonError;

/// Acquires a mutex.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
