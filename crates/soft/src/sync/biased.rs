//! A lock for a value that one thread uses nearly always.
//!
//! An ordinary lock costs two atomic operations: one to acquire it, and one to release it. These are a large
//! part of the cost of a post or a poll. Usually one thread posts to a queue, or polls it, again and again.
//! This thread becomes the lock's *favourite*, and acquires the lock by plain stores. Any other thread first
//! revokes this right, by a system call (membarrier(2)). From then on the lock is an ordinary lock, until one
//! thread has acquired it many times in a row.
//!
//! The *gate* is a mutex. All threads but the favourite acquire the lock through the gate. Only a thread that
//! holds the gate stores to `favourite`.
//!
//! The favourite acquires the lock in three steps:
//! 1. It stores to `inside` that it has the lock.
//! 2. It passes a fence.
//! 3. It checks whether it is still the favourite.
//!
//! A thread that holds the gate revokes the favourite's right in three steps:
//! 1. It clears `favourite`.
//! 2. It passes a fence.
//! 3. It waits while `inside` shows that the favourite has the lock.
//!
//! At least one of the two threads sees the other thread's store (`platform`).

use super::atomics::{
    AtomicBool, AtomicUsize, LockedCell, Mutex, MutexGuard, Ordering::*, TryLockError, yield_now,
};
use super::platform::{THREAD_UNIT, has_heavy_fence, heavy_fence, light_fence, this_thread};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A thread that acquires the lock this many times in a row becomes the favourite. The number doubles each
/// time that a favourite loses its right, at most `MOST_DOUBLED` times.
const STREAK: u32 = 64;
const MOST_DOUBLED: u32 = 16;

/// The thread number that stands for no thread.
const NOBODY: usize = 0;

/// This many threads can become favourites of a lock, one after another. Later threads always use the gate.
const PLACES: usize = 16;

// A thread's number leaves room for the number of its place.
const _: () = assert!(THREAD_UNIT.is_multiple_of(PLACES));

/// A value that one thread at a time can use.
pub(crate) struct Biased<T> {
    /// The thread that need not go through the gate, with the number of its place in the lowest bits.
    favourite: AtomicUsize,
    /// Whether the favourite of each place has the lock.
    ///
    /// Each favourite has its own word. A thread may be stopped just before it sets its word, and go on long
    /// after another thread has become the favourite. The stopped thread then clears its word. This must not
    /// change the word of the other thread.
    inside: [AtomicBool; PLACES],
    /// The place of the last favourite. A thread behind the gate writes it while the lock has no favourite.
    place: LockedCell<usize>,
    /// Any thread but the favourite holds the lock as long as it holds this mutex.
    gate: Mutex<BiasedGate>,
    /// The gate's guard, if the holder of the lock came through the gate. The guard is kept here, so that a
    /// [`BiasedGuard`] is one word.
    open: LockedCell<Option<MutexGuard<'static, BiasedGate>>>,
    value: LockedCell<T>,
}

// SAFETY: only one thread at a time uses the value.
unsafe impl<T: Send> Send for Biased<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Biased<T> {}

/// Counts the threads that come through the gate, to choose the next favourite.
#[derive(Debug)]
struct BiasedGate {
    last: usize,
    /// How many times in a row the thread `last` came.
    streak: u32,
    /// How many times in a row a thread has to come to become the favourite, and the maximum of this number.
    needed: u32,
    most_needed: u32,
    /// The value that `favourite` gets when the lock is released.
    then: usize,
    /// The thread of each place.
    places: [usize; PLACES],
}

impl BiasedGate {
    fn new(streak: u32) -> BiasedGate {
        let (needed, most_needed) = (streak, streak << MOST_DOUBLED);
        BiasedGate { last: NOBODY, streak: 0, needed, most_needed, then: NOBODY, places: [NOBODY; PLACES] }
    }

    /// The value of `favourite` for `thread`; `None` if the lock has no place for another thread.
    fn favour(&mut self, thread: usize) -> Option<usize> {
        let place = self.places.iter().position(|&of| of == thread || of == NOBODY)?;
        self.places[place] = thread;
        Some(thread | place)
    }

    /// Counts that the favourite has lost its right.
    fn count_loss(&mut self) {
        self.needed = (2 * self.needed).min(self.most_needed);
        self.streak = 0;
    }

    /// Counts an acquisition by `thread`; returns whether it is now to be the favourite.
    fn count(&mut self, thread: usize) -> bool {
        self.streak = if self.last == thread { self.streak + 1 } else { 1 };
        self.last = thread;
        self.streak >= self.needed
    }
}

/// The guard of the lock, which is held until the guard is dropped.
pub(crate) struct BiasedGuard<'a, T> {
    lock: &'a Biased<T>,
    /// The thread that acquires the lock also releases it.
    _not_send: PhantomData<MutexGuard<'a, BiasedGate>>,
}

impl<T> Biased<T> {
    pub(crate) fn new(value: T) -> Biased<T> {
        Biased::with_streak(value, STREAK)
    }

    /// A lock whose first favourite has to acquire it `streak` times in a row.
    pub(crate) fn with_streak(value: T, streak: u32) -> Biased<T> {
        Biased {
            favourite: AtomicUsize::new(NOBODY),
            inside: std::array::from_fn(|_| AtomicBool::new(false)),
            place: LockedCell::new(0),
            gate: Mutex::new(BiasedGate::new(streak)),
            open: LockedCell::new(None),
            value: LockedCell::new(value),
        }
    }

    /// Acquires the lock.
    #[inline(always)]
    pub(crate) fn lock(&self) -> BiasedGuard<'_, T> {
        let me = this_thread();
        // Relaxed: `lock_as` loads it again, after the fence.
        let favourite = self.favourite.load(Relaxed);
        // A signal handler of the favourite, which already holds the lock, waits at the gate.
        if thread_of(favourite) == me
            // Relaxed: only this thread stores to its word.
            && !self.inside_of(favourite).load(Relaxed)
            && let Some(guard) = self.lock_as(favourite)
        {
            return guard;
        }
        self.lock_by_gate(me)
    }

    /// Acquires the lock if this thread, which was the favourite a moment ago, is still the favourite.
    #[inline(always)]
    fn lock_as(&self, favourite: usize) -> Option<BiasedGuard<'_, T>> {
        let inside = self.inside_of(favourite);
        // Relaxed: the store publishes nothing. The fence below and the fence in `end_favourite` keep it
        // before the load.
        inside.store(true, Relaxed);
        light_fence();
        // Acquire: the last thread behind the gate published the value by the Release store of this word.
        if self.favourite.load(Acquire) == favourite {
            return Some(self.guard());
        }
        // Release: a thread that loads this value may not have loaded the earlier store by which this thread
        // left the lock.
        inside.store(false, Release);
        None
    }

    /// The word that says whether this favourite has the lock.
    #[inline(always)]
    fn inside_of(&self, favourite: usize) -> &AtomicBool {
        &self.inside[favourite % PLACES]
    }

    #[inline(never)]
    fn lock_by_gate(&self, me: usize) -> BiasedGuard<'_, T> {
        let mut gate = super::lock(&self.gate);
        if let Some(favourite) = self.end_favourite() {
            // Acquire: the favourite published the value by its Release store when it left.
            while self.inside_of(favourite).load(Acquire) {
                yield_now();
            }
            gate.count_loss();
        }
        let is_earned = gate.count(me) && has_heavy_fence();
        gate.then = if is_earned { gate.favour(me).unwrap_or(NOBODY) } else { NOBODY };
        self.keep(gate)
    }

    /// Takes the right away from the favourite, which may still be inside, and returns the favourite. Called
    /// by the thread behind the gate.
    fn end_favourite(&self) -> Option<usize> {
        // Relaxed: only threads behind the gate store to `favourite`, and the gate's mutex orders these
        // threads.
        let favourite = self.favourite.load(Relaxed);
        if favourite == NOBODY {
            return None;
        }
        // Relaxed: the store publishes nothing. The fence keeps it before the caller's load of `inside`.
        self.favourite.store(NOBODY, Relaxed);
        heavy_fence();
        Some(favourite)
    }

    /// Makes the guard. The caller holds the lock.
    #[inline(always)]
    fn guard(&self) -> BiasedGuard<'_, T> {
        BiasedGuard { lock: self, _not_send: PhantomData }
    }

    /// Makes the guard for a caller that holds the lock and came through the gate.
    fn keep<'a>(&'a self, gate: MutexGuard<'a, BiasedGate>) -> BiasedGuard<'a, T> {
        // SAFETY: this thread has the lock. The stored guard is taken out when the lock's guard is dropped,
        // which `self` outlives. If the lock's guard is never dropped, either `self` is never dropped,
        // because it would still be borrowed, or it is dropped with the gate shut.
        unsafe {
            *self.open.get_mut() =
                Some(std::mem::transmute::<MutexGuard<'a, BiasedGate>, MutexGuard<'static, BiasedGate>>(gate))
        };
        self.guard()
    }

    /// Acquires the lock if it is free. The lock's favourite stays the favourite.
    pub(crate) fn try_lock(&self) -> Option<BiasedGuard<'_, T>> {
        // Relaxed: meanwhile this thread can lose the right but cannot gain it, and `lock` loads the word
        // again.
        let favourite = self.favourite.load(Relaxed);
        if thread_of(favourite) == this_thread() {
            // Relaxed: only this thread stores to its word.
            return (!self.inside_of(favourite).load(Relaxed)).then(|| self.lock());
        }
        let mut gate = match self.gate.try_lock() {
            Ok(gate) => gate,
            Err(TryLockError::Poisoned(gate)) => gate.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let favourite = self.end_favourite();
        if let Some(favourite) = favourite
            // Acquire: as in `lock_by_gate`.
            && self.inside_of(favourite).load(Acquire)
        {
            // Release: the favourite may load this store's value, and not the store by which the last thread
            // behind the gate published the value.
            self.favourite.store(favourite, Release);
            return None;
        }
        gate.then = favourite.unwrap_or(NOBODY);
        Some(self.keep(gate))
    }
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { self.lock.value.get() }
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock.
        unsafe { self.lock.value.get_mut() }
    }
}

impl<T> Drop for BiasedGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: this thread still has the lock.
        match unsafe { self.lock.open.get_mut().take() } {
            None => {
                // SAFETY: the place was written before this thread became the favourite, and is not written
                // while this thread is inside.
                let place = unsafe { *self.lock.place.get() };
                // Release: publishes the value to the thread behind the gate that waits for this.
                self.lock.inside_of(place).store(false, Release);
            }
            Some(gate) => self.lock.shut(gate),
        }
    }
}

impl<T> Biased<T> {
    #[inline(never)]
    fn shut(&self, gate: MutexGuard<'static, BiasedGate>) {
        if gate.then != NOBODY {
            // SAFETY: this thread holds the gate. The lock has no favourite, and only a favourite reads the
            // place.
            unsafe { *self.place.get_mut() = gate.then % PLACES };
            // Release: publishes the value to the favourite. The store comes before the gate opens for other
            // threads, because the next thread that comes through takes the right away.
            self.favourite.store(gate.then, Release);
        }
    }
}

impl<T> fmt::Debug for Biased<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Biased").field("favourite", &self.favourite).finish_non_exhaustive()
    }
}

/// The thread that a `favourite` stands for.
#[inline(always)]
fn thread_of(favourite: usize) -> usize {
    favourite & !(PLACES - 1)
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

    /// The old favourite stopped after it had seen that it is the favourite. Meanwhile another thread becomes
    /// the favourite.
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
        let mut gate = BiasedGate::new(STREAK);
        let thread = |number: usize| (number + 1) * PLACES;
        let favoured: Vec<_> = (0..PLACES).map(|number| gate.favour(thread(number))).collect();
        assert!((0..PLACES).all(|number| favoured[number] == Some(thread(number) | number)));
        assert_eq!(gate.favour(thread(PLACES)), None);
        assert_eq!(gate.favour(thread(3)), favoured[3], "it has its place");
    }

    /// Counts in two steps, so that an increment by another thread in between would be lost. The threads
    /// become favourites, lose the right, and also try to acquire the lock.
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

    /// Counts with a favourite that hardly ever pauses, and a thread that tries again and again.
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
