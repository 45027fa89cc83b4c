//! What threads of this process need of each other.

pub(crate) mod atomics;
pub(crate) mod biased;
pub(crate) mod platform;

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

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

/// Counts the forks that this process has come out of.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Added to the count while one thread begins anew.
const BEGINNING: u32 = 1 << 31;

/// What a process has one of, under a lock. In the child of a fork(2) it begins anew: the thread that had the
/// lock may not be there to let go of it, and what it holds is the parent's.
pub(crate) struct Anew<T> {
    /// The fork that it is of.
    of: AtomicU32,
    mutex: UnsafeCell<Mutex<T>>,
}

// SAFETY: as a mutex; it is only written to by who has set `of`, before others go on.
unsafe impl<T: Send> Sync for Anew<T> {}

impl<T: Default> Anew<T> {
    pub(crate) const fn new(value: T) -> Anew<T> {
        Anew { of: AtomicU32::new(0), mutex: UnsafeCell::new(Mutex::new(value)) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: a function of this library, which is never unloaded.
            unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
        });
        // Relaxed: only the first thread of a process changes it, before it makes the others.
        let now = FORKS.load(Relaxed);
        // Acquire: the thread that begins anew publishes the mutex by its Release store.
        while self.of.load(Acquire) != now {
            self.begin(now);
        }
        // SAFETY: nobody writes to it in this process any more.
        lock(unsafe { &*self.mutex.get() })
    }

    #[cold]
    fn begin(&self, now: u32) {
        // Relaxed: only says whether there is something to do; `lock` loads it again.
        let before = self.of.load(Relaxed);
        let is_begun = before == now | BEGINNING;
        // Relaxed: chooses the thread that writes, and that thread reads nothing that another one has
        // written.
        if before == now
            || is_begun
            || self.of.compare_exchange(before, now | BEGINNING, Relaxed, Relaxed).is_err()
        {
            return std::thread::yield_now();
        }
        // SAFETY: no thread of this process has passed `lock` yet; what it held before is not dropped, as it
        // may be half changed.
        unsafe { self.mutex.get().write(Mutex::new(T::default())) };
        // Release: publishes the mutex to the threads that load this.
        self.of.store(now, Release);
    }
}

extern "C" fn count_fork() {
    // Relaxed: the child has one thread yet.
    FORKS.fetch_add(1, Relaxed);
}
