//! Completions that threads of a shared CQ find for each other.

use doorbell_verbs::{Mem, Provider};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes from the counter of a thread to that of the next: each is in a cache line of its own.
const LINE: u64 = 64;

/// A mailbox for each thread of a machine. A thread that polls a completion of another thread's operation
/// puts it there, and increments the other thread's counter by an atomic. The owner loads its own counter.
/// Clones share their data.
#[derive(Clone, Debug)]
pub struct Mailboxes {
    counters: Mem,
    /// Slots of the completed operations of each thread.
    slots: Arc<[Mutex<VecDeque<usize>>]>,
}

impl Mailboxes {
    /// Bytes of memory for the counters of this many threads.
    pub fn bytes(threads: u32) -> u64 {
        u64::from(threads) * LINE
    }

    /// Empty mailboxes. Each thread has at most `window` operations outstanding.
    pub fn new(counters: Mem, threads: u32, window: u32) -> Mailboxes {
        let empty = || Mutex::new(VecDeque::with_capacity(window as usize));
        Mailboxes { counters, slots: (0..threads).map(|_| empty()).collect() }
    }

    fn of(&self, thread: u32) -> MutexGuard<'_, VecDeque<usize>> {
        self.slots[thread as usize].lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Gives `thread` the completion of its operation in `slot`.
    pub(super) fn give<P: Provider>(&self, p: &P, thread: u32, slot: usize) {
        self.of(thread).push_back(slot);
        p.fetch_add_u64(self.counters, u64::from(thread) * LINE, 1);
    }

    /// Number of all completions that were given to `thread`, which is the calling thread.
    pub(super) fn given<P: Provider>(&self, p: &P, thread: u32) -> u64 {
        p.load_u64(self.counters, u64::from(thread) * LINE)
    }

    /// Takes the next completed operation of `thread`. Its counter has counted the operation.
    pub(super) fn take(&self, thread: u32) -> usize {
        self.of(thread).pop_front().expect("each counted completion lies in its mailbox")
    }
}
