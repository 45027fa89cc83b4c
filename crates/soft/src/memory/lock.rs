//! A lock between processes. If its holder exits or is killed, another thread takes the lock over.
//!
//! Acquire at each change that acquires the lock, for the Release in `drop`: the new holder sees the word
//! as the last holder left it. The load of the holder and failed changes are Relaxed, because nothing else
//! is read after them. A holder that died has not released the lock. The new holder learns of its exit from
//! the kernel, after all its stores.

use super::records::LockRecord;
use crate::sync::thread_id;
use doorbell_launch::process_start::thread_state;
use std::cell::Cell;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

/// Rounds of spinning before the thread yields its processor.
const SPINS: u32 = 200;
/// Time between checks whether the holder is alive.
const LOOK: Duration = Duration::from_millis(1);
/// Time after which a thread stops waiting for a living holder. A holder needs the lock for one copy at most.
/// A holder that takes longer is stopped, or will never release the lock.
const GIVE_UP: Duration = Duration::from_millis(50);
/// Time during which a thread does not wait again for a lock that it gave up.
const REMEMBERED: Duration = Duration::from_millis(500);

thread_local! {
    /// The lock that this thread last gave up, its holder, and the time. The thread does not wait for this
    /// holder again during `REMEMBERED`. Otherwise the thread would wait for `GIVE_UP` for each QP of a
    /// program that needs the lock.
    static GIVEN_UP: Cell<Option<(usize, u32, Instant)>> = const { Cell::new(None) };
}

/// The lock, held until the guard is dropped.
pub(crate) struct Guard<'a> {
    lock: &'a LockRecord,
    holder: u32,
}

impl LockRecord {
    /// Acquires the lock; `None` if a living holder does not release it in time.
    pub(crate) fn lock(&self) -> Option<Guard<'_>> {
        let me = thread_id();
        if self.holder.compare_exchange(0, me, Acquire, Relaxed).is_ok() {
            return Some(Guard { lock: self, holder: me });
        }
        self.lock_slowly(me)
    }

    #[cold]
    fn lock_slowly(&self, me: u32) -> Option<Guard<'_>> {
        for _ in 0..SPINS {
            if self.holder.compare_exchange_weak(0, me, Acquire, Relaxed).is_ok() {
                return Some(Guard { lock: self, holder: me });
            }
            std::hint::spin_loop();
        }
        let this = std::ptr::from_ref(self).addr();
        let begin = Instant::now();
        let mut looked = begin;
        loop {
            let holder = self.holder.load(Relaxed);
            let take = holder == 0 || {
                let now = Instant::now();
                let is_given_up = GIVEN_UP.get().is_some_and(|(lock, who, when)| {
                    (lock, who) == (this, holder) && now - when < REMEMBERED
                });
                if is_given_up && is_alive(holder) {
                    return None;
                }
                if now - begin > GIVE_UP {
                    GIVEN_UP.set(Some((this, holder, now)));
                    return None;
                }
                is_given_up
                    || now - looked > LOOK && {
                        looked = now;
                        !is_alive(holder)
                    }
            };
            if take && self.holder.compare_exchange(holder, me, Acquire, Relaxed).is_ok() {
                return Some(Guard { lock: self, holder: me });
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // Not a plain store: another thread may have taken the lock over because it found this thread dead.
        let _ = self.lock.holder.compare_exchange(self.holder, 0, Release, Relaxed);
    }
}

/// Whether a thread runs or may run again. A zombie, which has exited and was not yet waited for, does not.
fn is_alive(thread: u32) -> bool {
    !matches!(thread_state(thread), Some('Z' | 'X') | None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn a_dead_holder_loses_the_lock() {
        let mut child = std::process::Command::new("true").spawn().expect("true runs");
        let id = child.id();
        child.wait().expect("it ends");
        let lock = LockRecord { holder: AtomicU32::new(id) };
        assert!(lock.lock().is_some());
        assert_eq!(lock.holder.load(Relaxed), 0);
    }

    #[test]
    fn who_does_not_let_go_is_waited_for_once() {
        let holder = AtomicU32::new(std::process::id());
        let lock = LockRecord { holder };
        let given_up = |_| {
            assert!(lock.lock().is_none(), "this process lives, and lets go of nothing");
            GIVEN_UP.get().expect("it was waited for").2
        };
        let times: Vec<Instant> = (0..10).map(given_up).collect();
        // A thread that got no processor for `REMEMBERED` waits once more.
        let is_once = |two: &[Instant]| two[0] == two[1] || two[1] - two[0] > REMEMBERED;
        assert!(times.windows(2).all(is_once), "{times:?}");
        lock.holder.store(0, Relaxed);
        assert!(lock.lock().is_some());
    }

    #[test]
    fn a_zombie_is_dead() {
        let mut child = std::process::Command::new("true").spawn().expect("true runs");
        let lock = LockRecord { holder: AtomicU32::new(child.id()) };
        assert!(lock.lock().is_some());
        child.wait().expect("it ends");
    }

    #[test]
    fn one_holder_at_a_time() {
        let lock = LockRecord { holder: AtomicU32::new(0) };
        // Each count is a load and a store. A count is lost if another thread holds the lock at that time.
        let counter = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let _guard = lock.lock().expect("every holder lives");
                        counter.store(counter.load(Relaxed) + 1, Relaxed);
                    }
                });
            }
        });
        assert_eq!(counter.into_inner(), 40_000);
    }
}
