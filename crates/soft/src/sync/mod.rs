//! What threads of this process need of each other.

pub(crate) mod biased;

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a thread that panicked while holding the lock left nothing half done that matters more
/// than going on.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// 0 until it is asked for.
    static ID: Cell<u32> = const { Cell::new(0) };
}

/// This thread's number in the system; not 0.
pub(crate) fn thread_id() -> u32 {
    ID.with(|id| {
        if id.get() == 0 {
            // SAFETY: takes nothing, cannot fail.
            id.set(unsafe { libc::gettid() } as u32);
        }
        id.get()
    })
}

/// In the child of a fork(2): its thread has another number than the parent's had.
pub(crate) fn forget_thread_id() {
    ID.with(|id| id.set(0));
}
