//! Synchronisation between threads of this process.

pub(crate) mod atomics;
pub(crate) mod biased;
pub(crate) mod platform;

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};

/// Locks a mutex, even if a thread has panicked while it held the lock. The values in this library's mutexes
/// are usable after such a panic.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// This thread's ID; 0 until the ID is first needed.
    static ID: Cell<u32> = const { Cell::new(0) };
}

/// This thread's ID in the system (gettid(2)); not 0.
pub(crate) fn thread_id() -> u32 {
    ID.with(|id| {
        if id.get() == 0 {
            id.set(rustix::thread::gettid().as_raw_pid() as u32);
        }
        id.get()
    })
}

/// Forgets this thread's ID. Called in the child of a fork(2), whose thread has another ID than its parent.
pub(crate) fn forget_thread_id() {
    ID.with(|id| id.set(0));
}

/// Number of fork(2) calls that this process descends from.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// A bit that is set in `Anew::of` while a thread makes a new value.
const BEGINNING: u32 = 1 << 31;

/// A value under a lock. The child of a fork(2) begins with a new value (`T::default()`) and a new lock. The
/// reason is that the thread that held the parent's lock may not exist in the child, and that the parent's
/// value belongs to the parent.
pub(crate) struct Anew<T> {
    /// The fork count that the value belongs to.
    of: AtomicU32,
    mutex: UnsafeCell<Mutex<T>>,
}

// SAFETY: `Anew` behaves like a mutex. Only the thread that has set `BEGINNING` in `of` writes to `mutex`,
// before other threads use it.
unsafe impl<T: Send> Sync for Anew<T> {}

impl<T: Default> Anew<T> {
    pub(crate) const fn new(value: T) -> Anew<T> {
        Anew { of: AtomicU32::new(0), mutex: UnsafeCell::new(Mutex::new(value)) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let now = forks();
        // Acquire: the thread that makes a new value publishes the mutex by its Release store.
        while self.of.load(Acquire) != now {
            self.begin(now);
        }
        // SAFETY: no thread of this process writes to the cell any more.
        lock(unsafe { &*self.mutex.get() })
    }

    /// Acquires the lock if it is free.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let now = forks();
        // Acquire, as in `lock`.
        if self.of.load(Acquire) != now {
            self.begin(now);
        }
        if self.of.load(Acquire) != now {
            return None;
        }
        // SAFETY: as in `lock`.
        match unsafe { &*self.mutex.get() }.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[cold]
    fn begin(&self, now: u32) {
        // Relaxed: the value only says whether this thread may have to make a new value. `lock` loads `of`
        // again.
        let before = self.of.load(Relaxed);
        let is_begun = before == now | BEGINNING;
        // Relaxed: the change only chooses the thread that writes. That thread reads nothing that another
        // thread has written.
        if before == now
            || is_begun
            || self.of.compare_exchange(before, now | BEGINNING, Relaxed, Relaxed).is_err()
        {
            return std::thread::yield_now();
        }
        // SAFETY: no thread of this process has passed `lock` yet. The old value is not dropped, because it
        // may be half changed.
        unsafe { self.mutex.get().write(Mutex::new(T::default())) };
        // Release: publishes the mutex to the threads that load `of`.
        self.of.store(now, Release);
    }
}

/// Number of fork(2) calls that this process descends from. The first call begins to count.
fn forks() -> u32 {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
    });
    // Relaxed: only the first thread of a process changes the count, before it starts other threads.
    FORKS.load(Relaxed)
}

extern "C" fn count_fork() {
    // Relaxed: the child still has only one thread.
    FORKS.fetch_add(1, Relaxed);
}
