//! Models of copies, and of a process that revokes their rights. After the process has waited, no copy uses
//! the memory.

use crate::memory::copies::{CopyFence, running, take};
use crate::memory::segment::Segment;
use crate::run::{ModelBounds, check};
use crate::sync::atomics::{LockedCell, Ordering::*, yield_now};
use crate::sync::platform::global_fence;
use loom::thread;
use std::rc::Rc;

/// Holders of copy records.
const ONE: u32 = 1;
const OTHER: u32 = 2;

/// A region, and the bytes in it. loom fails if a copy uses the bytes while, or after, the program reuses
/// them.
struct Memory {
    segment: Segment,
    bytes: LockedCell<u64>,
}

impl Memory {
    fn new() -> Rc<Memory> {
        Rc::new(Memory { segment: Segment::default(), bytes: LockedCell::new(0) })
    }

    /// The record of a new copier.
    fn requester(&self, holder: u32) -> usize {
        take(&self.segment, holder, |_| false).expect("there are two records")
    }

    /// Copies, if the region is unchanged since the beginning.
    fn copy(&self, index: usize, fence: CopyFence) {
        let record = self.segment.copy(index).expect("it was taken");
        record.begin(fence);
        // Acquire, like the load in `VerifiedRegion::holds`.
        if self.segment.mr().sequence.load(Acquire) == 0 {
            // SAFETY: loom checks that no other thread uses the bytes.
            unsafe { *self.bytes.get_mut() += 1 };
        }
        record.end();
    }

    /// Revokes the rights to the region as `Regions::deregister` and `Process::wait_for_copies` do, and
    /// reuses the memory.
    fn revoke(&self) {
        self.segment.mr().change(|record| record.key.store(0, Relaxed));
        global_fence();
        for copy in running(&self.segment) {
            while copy.runs(&self.segment) {
                yield_now();
            }
        }
        // SAFETY: loom checks that no other thread uses the bytes.
        unsafe { *self.bytes.get_mut() = 0 };
    }
}

/// Runs `run` in another thread.
fn with(memory: &Rc<Memory>, run: impl FnOnce(&Memory) + 'static) -> thread::JoinHandle<()> {
    let memory = memory.clone();
    thread::spawn(move || run(&memory))
}

fn join(thread: thread::JoinHandle<()>) {
    thread.join().expect("a thread of a model does not panic");
}

/// A copier copies twice while the rights are revoked.
pub fn revoked() -> u64 {
    check("copies revoked", ModelBounds { preemptions: None }, || {
        let memory = Memory::new();
        let index = memory.requester(ONE);
        let requester = with(&memory, move |memory| {
            memory.copy(index, CopyFence::Light);
            memory.copy(index, CopyFence::Light);
        });
        memory.revoke();
        join(requester);
    })
}

/// A copier takes its record while the rights are revoked, and passes a full fence.
pub fn revoked_at_first() -> u64 {
    check("copies revoked at first", ModelBounds { preemptions: None }, || {
        let memory = Memory::new();
        let requester = with(&memory, |memory| memory.copy(memory.requester(ONE), CopyFence::Full));
        memory.revoke();
        join(requester);
    })
}

/// Two copiers take records at the same time, and get different records.
pub fn two_requesters() -> u64 {
    check("copies of two requesters", ModelBounds { preemptions: None }, || {
        let memory = Memory::new();
        let (one, other) = (Rc::new(LockedCell::new(0)), memory.clone());
        let taken = one.clone();
        let requester = thread::spawn(move || {
            // SAFETY: the other thread reads the value after this thread has ended.
            unsafe { *taken.get_mut() = other.requester(ONE) };
        });
        let index = memory.requester(OTHER);
        join(requester);
        // SAFETY: as above.
        assert_ne!(index, unsafe { *one.get() });
    })
}
