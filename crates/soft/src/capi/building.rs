//! Send work requests between `ibv_wr_start` and `ibv_wr_complete`.

use crate::errno::Errno;
use doorbell_verbs::{SendFlags, SendOp, SendWr, Sge, UdDest};
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// Work requests being made. One thread at a time has it, from start to complete or abort.
#[derive(Default)]
pub(crate) struct Builder {
    taken: AtomicBool,
    list: UnsafeCell<List>,
}

impl Builder {
    /// Begins an empty list, once no other thread makes one.
    pub(super) fn take(&self) {
        while self.taken.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            std::thread::yield_now();
        }
        // SAFETY: taken by this thread.
        unsafe { self.list() }.clear();
    }

    /// The list is posted or given up.
    pub(super) fn give_back(&self) {
        self.taken.store(false, Release);
    }

    /// The list being made.
    ///
    /// # Safety
    /// This thread has taken it, and has no other reference to the list.
    #[allow(clippy::mut_from_ref, reason = "the flag `taken` makes it the only reference")]
    pub(super) unsafe fn list(&self) -> &mut List {
        // SAFETY: vouched for by the caller.
        unsafe { &mut *self.list.get() }
    }
}

#[derive(Default)]
pub(super) struct List {
    pub(super) wrs: Vec<Building>,
    pub(super) sges: Vec<Sge>,
    pub(super) inline: Vec<u8>,
    pub(super) error: Option<Errno>,
}

pub(super) struct Building {
    pub(super) wr_id: u64,
    pub(super) op: SendOp,
    pub(super) flags: SendFlags,
    pub(super) dest: Option<UdDest>,
    pub(super) sges: Range<usize>,
    pub(super) inline: Option<Range<usize>>,
}

impl Building {
    pub(super) fn wr<'l>(&self, list: &'l List) -> (SendWr<'l>, Option<&'l [u8]>) {
        let wr = SendWr {
            wr_id: self.wr_id,
            op: self.op,
            sg_list: &list.sges[self.sges.clone()],
            flags: self.flags,
            dest: self.dest,
        };
        (wr, self.inline.clone().map(|range| &list.inline[range]))
    }
}

impl List {
    fn clear(&mut self) {
        self.wrs.clear();
        self.sges.clear();
        self.inline.clear();
        self.error = None;
    }
}
