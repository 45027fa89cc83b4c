//! Models of the biased lock. One thread at a time has the value, and sees all earlier changes of the value.

use crate::run::{ModelBounds, check};
use crate::sync::biased::Biased;
use loom::thread;
use std::rc::Rc;

/// An `Rc` suffices, because loom runs all threads of a model in one thread of the system.
type Lock = Rc<Biased<u64>>;

/// A lock with this thread as its favourite. The thread has acquired it once.
fn favoured() -> Lock {
    let lock = Rc::new(Biased::with_streak(0, 1));
    add(&lock);
    lock
}

fn add(lock: &Biased<u64>) {
    *lock.lock() += 1;
}

fn try_to_add(lock: &Biased<u64>) -> u64 {
    lock.try_lock().map_or(0, |mut value| {
        *value += 1;
        1
    })
}

/// Starts a thread that runs `run` with the lock.
fn with<T: 'static>(lock: &Lock, run: impl FnOnce(&Biased<u64>) -> T + 'static) -> thread::JoinHandle<T> {
    let lock = lock.clone();
    thread::spawn(move || run(&lock))
}

fn join<T>(thread: thread::JoinHandle<T>) -> T {
    thread.join().expect("a thread of a model does not panic")
}

/// The favourite acquires the lock twice while another thread revokes its right.
pub fn favourite_and_other() -> u64 {
    check("favourite and other", ModelBounds { preemptions: None }, || {
        let lock = favoured();
        let other = with(&lock, add);
        add(&lock);
        add(&lock);
        join(other);
        assert_eq!(*lock.lock(), 4);
    })
}

/// The right passes from one thread to another. The new favourite uses the right while the first favourite
/// may still be about to use it.
pub fn two_favourites() -> u64 {
    check("two favourites", ModelBounds { preemptions: None }, || {
        let lock = favoured();
        let other = with(&lock, |lock| (0..3).for_each(|_| add(lock)));
        add(&lock);
        add(&lock);
        join(other);
        assert_eq!(*lock.lock(), 6);
    })
}

/// Two threads try to acquire the lock, and then return the right to the favourite.
pub fn favourite_and_triers() -> u64 {
    check("favourite and triers", ModelBounds { preemptions: Some(3) }, || {
        let lock = favoured();
        let others = [with(&lock, try_to_add), with(&lock, try_to_add)];
        add(&lock);
        add(&lock);
        let tried: u64 = others.into_iter().map(join).sum();
        assert_eq!(*lock.lock(), 3 + tried);
    })
}
