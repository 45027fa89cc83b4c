//! A lock for what one thread uses nearly always.
//!
//! A lock costs an atomic operation when it is taken and another when it is let go, which is much of what a post or a poll
//! takes. Mostly the same thread posts to a queue, or polls it, again and again. It becomes the lock's favourite: it takes
//! the lock by plain stores. Another thread takes that right away first, which costs it a system call (membarrier(2)), and
//! from then on the lock is an ordinary one, until one thread has taken it many times in a row.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*, compiler_fence};
use std::sync::{Mutex, MutexGuard};

/// So many times in a row a thread takes the lock to become its favourite, and twice as many after each time that the
/// right was taken away.
const STREAK: u32 = 64;
const MOST_DOUBLED: u32 = 16;

/// No thread.
const NOBODY: usize = 0;

/// So many threads can become favourites of a lock, one after another; those that come later always use the gate.
///
/// What tells a thread leaves room for the number of its place: see [`this_thread`].
const PLACES: usize = 16;

/// A value that one thread at a time has.
pub(crate) struct Biased<T> {
    /// The thread that need not go through the gate, with the number of its place in the lowest bits.
    favourite: AtomicUsize,
    /// Whether the favourite of that place has the lock.
    ///
    /// Each has its own. One that was stopped just before it says that it is inside may go on when another is the
    /// favourite since long, and takes back what it said: that must not be what the other says.
    inside: [AtomicBool; PLACES],
    /// The place of the last favourite. Written while there is none, by who has the gate.
    place: UnsafeCell<usize>,
    /// All others have the lock as long as they have this.
    gate: Mutex<Gate>,
    /// Of who has the lock, if that one came through the gate. Kept here, so that a [`Guard`] is a word.
    open: UnsafeCell<Option<MutexGuard<'static, Gate>>>,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time has the value.
unsafe impl<T: Send> Send for Biased<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Biased<T> {}

/// Who came through the gate.
#[derive(Debug, Default)]
struct Gate {
    last: usize,
    /// How often it did in a row.
    streak: u32,
    /// How often the right was taken away.
    lost: u32,
    /// What `favourite` becomes when the lock is let go.
    then: usize,
    /// Of each place the thread that it is of.
    places: [usize; PLACES],
}

impl Gate {
    /// What says that `thread` is the favourite, if there is a place for it.
    fn favour(&mut self, thread: usize) -> Option<usize> {
        let place = self.places.iter().position(|&of| of == thread || of == NOBODY)?;
        self.places[place] = thread;
        Some(thread | place)
    }
}

/// The lock, until it is dropped.
pub(crate) struct Guard<'a, T> {
    lock: &'a Biased<T>,
    /// Let go by the thread that took it.
    _not_send: PhantomData<MutexGuard<'a, Gate>>,
}

impl<T> Biased<T> {
    pub(crate) fn new(value: T) -> Biased<T> {
        Biased {
            favourite: AtomicUsize::new(NOBODY),
            inside: [const { AtomicBool::new(false) }; PLACES],
            place: UnsafeCell::new(0),
            gate: Mutex::default(),
            open: UnsafeCell::new(None),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let me = this_thread();
        let favourite = self.favourite.load(Relaxed);
        // A favourite that has it already, as a signal handler of its, waits at the gate.
        if thread_of(favourite) == me
            && !self.inside_of(favourite).load(Relaxed)
            && let Some(guard) = self.lock_as(favourite)
        {
            return guard;
        }
        self.lock_by_gate(me)
    }

    /// Takes the lock if this thread, which was the favourite a moment ago, is it still.
    #[inline(always)]
    fn lock_as(&self, favourite: usize) -> Option<Guard<'_, T>> {
        let inside = self.inside_of(favourite);
        inside.store(true, Relaxed);
        // Who takes the right away has all threads order this before what follows.
        compiler_fence(SeqCst);
        if self.favourite.load(Acquire) == favourite {
            return Some(self.guard());
        }
        inside.store(false, Release);
        None
    }

    /// Whether that favourite has the lock.
    #[inline(always)]
    fn inside_of(&self, favourite: usize) -> &AtomicBool {
        &self.inside[favourite % PLACES]
    }

    #[inline(never)]
    fn lock_by_gate(&self, me: usize) -> Guard<'_, T> {
        let mut gate = super::lock(&self.gate);
        let favourite = self.favourite.load(Relaxed);
        if favourite != NOBODY {
            self.favourite.store(NOBODY, Relaxed);
            order_all_threads();
            while self.inside_of(favourite).load(Acquire) {
                std::thread::yield_now();
            }
            gate.lost = (gate.lost + 1).min(MOST_DOUBLED);
            gate.streak = 0;
        }
        gate.streak = if gate.last == me { gate.streak + 1 } else { 1 };
        gate.last = me;
        let earned = gate.streak >= STREAK << gate.lost && can_order_all_threads();
        gate.then = if earned { gate.favour(me).unwrap_or(NOBODY) } else { NOBODY };
        self.keep(gate)
    }

    /// For who has the lock.
    #[inline(always)]
    fn guard(&self) -> Guard<'_, T> {
        Guard { lock: self, _not_send: PhantomData }
    }

    /// For who has the lock by the gate.
    fn keep<'a>(&'a self, gate: MutexGuard<'a, Gate>) -> Guard<'a, T> {
        // SAFETY: this thread has the lock. What is kept is taken out when the guard is dropped, which `self` outlives; of a guard
        // that is never dropped, `self` is never dropped either, as it would still be borrowed, or it is dropped with the gate shut.
        unsafe {
            *self.open.get() =
                Some(std::mem::transmute::<MutexGuard<'a, Gate>, MutexGuard<'static, Gate>>(gate))
        };
        self.guard()
    }

    /// Takes the lock if nobody has it. Its favourite stays that.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        let favourite = self.favourite.load(Relaxed);
        if thread_of(favourite) == this_thread() {
            return (!self.inside_of(favourite).load(Relaxed)).then(|| self.lock());
        }
        let mut gate = match self.gate.try_lock() {
            Ok(gate) => gate,
            Err(std::sync::TryLockError::Poisoned(gate)) => gate.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return None,
        };
        let favourite = self.favourite.load(Relaxed);
        if favourite != NOBODY {
            self.favourite.store(NOBODY, Relaxed);
            order_all_threads();
            if self.inside_of(favourite).load(Acquire) {
                self.favourite.store(favourite, Release);
                return None;
            }
        }
        gate.then = favourite;
        Some(self.keep(gate))
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: this thread has the lock still.
        match unsafe { (*self.lock.open.get()).take() } {
            // SAFETY: written before this thread became the favourite, and not as long as it is inside.
            None => self.lock.inside_of(unsafe { *self.lock.place.get() }).store(false, Release),
            Some(gate) => self.lock.shut(gate),
        }
    }
}

impl<T> Biased<T> {
    #[inline(never)]
    fn shut(&self, gate: MutexGuard<'static, Gate>) {
        if gate.then != NOBODY {
            // SAFETY: this thread has the gate, and there is no favourite, whose it would be.
            unsafe { *self.place.get() = gate.then % PLACES };
            // Before the gate opens for others: whoever comes through next takes it away.
            self.favourite.store(gate.then, Release);
        }
    }
}

impl<T> fmt::Debug for Biased<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Biased").field("favourite", &self.favourite).finish_non_exhaustive()
    }
}

/// The thread of what `favourite` says.
#[inline(always)]
fn thread_of(favourite: usize) -> usize {
    favourite & !(PLACES - 1)
}

/// What tells this thread from all others that run; not 0, and a multiple of [`PLACES`].
#[inline(always)]
fn this_thread() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let pointer: usize;
        // SAFETY: where the thread's own storage begins, as the x86-64 ABI has it: the word there is its address, which
        // glibc aligns to 64 bytes.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, pure, readonly));
        }
        pointer
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        super::thread_id() as usize * PLACES
    }
}

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED`, `MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED`.
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: takes numbers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Whether this system can do what favourites need; asked for once.
///
/// To ask is cheap as long as the process has one thread. With several the kernel waits until all processors have been
/// through its scheduler, milliseconds, so it is asked when the device is first used and not amid a program's messages.
pub(crate) fn can_order_all_threads() -> bool {
    static CAN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *CAN.get_or_init(|| membarrier(REGISTER_PRIVATE_EXPEDITED))
}

/// Has every thread of this process pass a memory barrier.
fn order_all_threads() {
    // A child of fork(2) may have to say again that it wants this.
    let ordered = membarrier(PRIVATE_EXPEDITED)
        || membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED);
    assert!(ordered, "membarrier(2) was there when it was first asked for");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU32;

    fn take(lock: &Biased<u64>, times: u64) {
        for _ in 0..times {
            *lock.lock() += 1;
        }
    }

    #[test]
    fn who_takes_it_often_is_favoured() {
        let lock = Biased::new(0);
        take(&lock, u64::from(STREAK) - 1);
        assert_eq!(lock.favourite.load(Relaxed), NOBODY);
        take(&lock, 1);
        assert_eq!(thread_of(lock.favourite.load(Relaxed)), this_thread());
        take(&lock, 10);
        std::thread::scope(|scope| {
            scope.spawn(|| take(&lock, 1));
        });
        assert_eq!(lock.favourite.load(Relaxed), NOBODY);
        assert_eq!(*lock.lock(), u64::from(STREAK) + 11);
    }

    #[test]
    fn who_only_tries_leaves_the_favourite() {
        let lock = Biased::new(0);
        take(&lock, u64::from(STREAK));
        let me = this_thread();
        let tried = || lock.try_lock().map(|mut value| *value += 1).is_some();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert_ne!(this_thread(), me);
                tried()
            });
            assert!(other.join().expect("it does not panic"));
            assert_eq!(thread_of(lock.favourite.load(Relaxed)), me);
            let _mine = lock.lock();
            let other = scope.spawn(tried);
            assert!(!other.join().expect("it does not panic"), "somebody has it");
        });
        assert_eq!(*lock.lock(), u64::from(STREAK) + 1);
    }

    /// It was stopped after it had seen that it is the favourite; meanwhile another has become that.
    #[test]
    fn a_favourite_of_old_lets_the_new_one_be() {
        let lock = Biased::new(0);
        take(&lock, u64::from(STREAK));
        let seen = lock.favourite.load(Relaxed);
        let (inside, over) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                take(&lock, 2 * u64::from(STREAK));
                assert_eq!(thread_of(lock.favourite.load(Relaxed)), this_thread());
                let _its = lock.lock();
                inside.wait();
                over.wait();
            });
            inside.wait();
            let (late, third) = (lock.lock_as(seen).is_some(), lock.try_lock().is_some());
            over.wait();
            assert!(!late && !third, "another has the lock");
        });
        assert_eq!(*lock.lock(), 3 * u64::from(STREAK));
    }

    #[test]
    fn a_lock_has_so_many_favourites() {
        let mut gate = Gate::default();
        let thread = |number: usize| (number + 1) * PLACES;
        let favoured: Vec<_> = (0..PLACES).map(|number| gate.favour(thread(number))).collect();
        assert!((0..PLACES).all(|number| favoured[number] == Some(thread(number) | number)));
        assert_eq!(gate.favour(thread(PLACES)), None);
        assert_eq!(gate.favour(thread(3)), favoured[3], "it has its place");
    }

    /// Counted in two steps, between which another would be lost; with threads that are favoured, lose that and only try.
    #[test]
    fn one_at_a_time() {
        let (lock, tried) = (Biased::new(0u64), AtomicU32::new(0));
        let add = |value: &mut u64| {
            let before = std::hint::black_box(*value);
            *value = before + 1;
        };
        const ROUNDS: u64 = 300;
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (lock, tried) = (&lock, &tried);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let times = if (round + thread) % 3 == 0 { 2000 } else { 1 };
                        (0..times).for_each(|_| add(&mut lock.lock()));
                        if let Some(mut value) = lock.try_lock() {
                            add(&mut value);
                            tried.fetch_add(1, Relaxed);
                        }
                    }
                });
            }
        });
        let taken = (0..3).map(|thread| {
            (0..ROUNDS).map(|round| if (round + thread) % 3 == 0 { 2000 } else { 1 }).sum::<u64>()
        });
        assert_eq!(*lock.lock(), taken.sum::<u64>() + u64::from(tried.into_inner()));
    }

    /// The same of a favourite that hardly ever pauses, and one that tries again and again.
    #[test]
    fn a_favourite_and_one_that_tries() {
        let (lock, over) = (Biased::new(0u64), AtomicBool::new(false));
        const TIMES: u64 = 5_000_000;
        let tried = std::thread::scope(|scope| {
            let trier = scope.spawn(|| {
                let mut tried = 0;
                while !over.load(Relaxed) {
                    if let Some(mut value) = lock.try_lock() {
                        *value += 1;
                        tried += 1;
                    }
                }
                tried
            });
            take(&lock, TIMES);
            over.store(true, Relaxed);
            trier.join().expect("it does not panic")
        });
        assert_eq!(*lock.lock(), TIMES + tried);
    }
}
