//! Lists of send work requests that a program builds between `ibv_wr_start` and `ibv_wr_complete`.

use crate::causes::SEND_WINDOW;
use crate::queues::qp::posting::Posting;
use crate::queues::qp::window_wr::{WindowOp, WindowWr};
use doorbell_transport::Refused;
use doorbell_verbs::{RemoteAddr, SendFlags, SendOp, SendWr, Sge, UdDest};
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// The list of work requests that is being built for a QP. One thread at a time owns the list, from
/// `ibv_wr_start` until `ibv_wr_complete` or `ibv_wr_abort`.
#[derive(Default)]
pub(crate) struct Builder {
    taken: AtomicBool,
    list: UnsafeCell<BuiltList>,
}

impl Builder {
    /// Waits until no other thread owns the list, then begins an empty list.
    pub(super) fn take(&self) {
        // Acquire pairs with the Release in `give_back`: this thread sees all changes that the previous owner
        // made to the list.
        while self.taken.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            std::thread::yield_now();
        }
        // SAFETY: this thread owns the list.
        unsafe { self.list() }.clear();
    }

    /// Ends this thread's ownership, after the list was posted or abandoned.
    pub(super) fn give_back(&self) {
        self.taken.store(false, Release);
    }

    /// The list, for the thread that owns it.
    ///
    /// # Safety
    /// This thread has called `take` and has no other reference to the list.
    #[allow(clippy::mut_from_ref, reason = "the flag `taken` makes it the only reference")]
    pub(super) unsafe fn list(&self) -> &mut BuiltList {
        // SAFETY: vouched for by the caller.
        unsafe { &mut *self.list.get() }
    }
}

#[derive(Default)]
pub(super) struct BuiltList {
    pub(super) wrs: Vec<BuiltWr>,
    pub(super) sges: Vec<Sge>,
    pub(super) inline: Vec<u8>,
    pub(super) error: Option<Refused>,
}

pub(super) struct BuiltWr {
    pub(super) wr_id: u64,
    pub(super) op: BuiltOp,
    pub(super) flags: SendFlags,
    pub(super) dest: Option<UdDest>,
    /// Number of the SRQ that an XRC message names.
    pub(super) srqn: u32,
    pub(super) sges: Range<usize>,
    pub(super) inline: Option<Range<usize>>,
}

/// The operation of a work request.
#[derive(Clone, Copy)]
pub(super) enum BuiltOp {
    Send(SendOp),
    /// SEND with invalidate. The value is the rkey to invalidate.
    SendInvalidating(u32),
    AtomicWrite(RemoteAddr),
    /// A bind or a local invalidation of a memory window; `None` if the program passed invalid arguments.
    Window(Option<WindowOp>),
}

impl BuiltOp {
    /// The operation's bit in `send_ops_flags` (`IBV_QP_EX_WITH_*`), and the bit's name without this
    /// prefix. `None` for a window operation without valid arguments.
    pub(super) fn send_op(self) -> Option<(u64, &'static str)> {
        let found = match self {
            BuiltOp::Send(SendOp::Write(_)) => (1, "RDMA_WRITE"),
            BuiltOp::Send(SendOp::WriteWithImm(..)) => (1 << 1, "RDMA_WRITE_WITH_IMM"),
            BuiltOp::Send(SendOp::Send) => (1 << 2, "SEND"),
            BuiltOp::Send(SendOp::SendWithImm(_)) => (1 << 3, "SEND_WITH_IMM"),
            BuiltOp::Send(SendOp::Read(_)) => (1 << 4, "RDMA_READ"),
            BuiltOp::Send(SendOp::CompareSwap { .. }) => (1 << 5, "ATOMIC_CMP_AND_SWP"),
            BuiltOp::Send(SendOp::FetchAdd { .. }) => (1 << 6, "ATOMIC_FETCH_AND_ADD"),
            BuiltOp::Window(Some(WindowOp::Invalidate(_))) => (1 << 7, "LOCAL_INV"),
            BuiltOp::Window(Some(WindowOp::Bind(_))) => (1 << 8, "BIND_MW"),
            BuiltOp::SendInvalidating(_) => (1 << 9, "SEND_WITH_INV"),
            BuiltOp::AtomicWrite(_) => (1 << 12, "ATOMIC_WRITE"),
            BuiltOp::Window(None) => return None,
        };
        Some(found)
    }
}

impl BuiltWr {
    fn wr<'l>(&self, op: SendOp, list: &'l BuiltList) -> (SendWr<'l>, Option<&'l [u8]>) {
        let wr = SendWr {
            wr_id: self.wr_id,
            op,
            sg_list: &list.sges[self.sges.clone()],
            flags: self.flags,
            dest: self.dest,
        };
        (wr, self.inline.clone().map(|range| &list.inline[range]))
    }

    /// Checks whether this work request may be posted.
    pub(super) fn check(&self, list: &BuiltList, posting: &Posting<'_>) -> Result<(), Refused> {
        match self.op {
            BuiltOp::Send(op) => {
                let (wr, inline) = self.wr(op, list);
                posting.check(&wr, inline).map(|_| ())
            }
            BuiltOp::SendInvalidating(_) => {
                let (wr, inline) = self.wr(SendOp::Send, list);
                posting.check_invalidating(&wr, inline)
            }
            BuiltOp::AtomicWrite(remote) => {
                let (wr, inline) = self.wr(SendOp::Write(remote), list);
                posting.check_atomic_write(&wr, inline)
            }
            BuiltOp::Window(op) => op.ok_or_else(|| SEND_WINDOW.bare()).and_then(|_| posting.check_window()),
        }
    }

    pub(super) fn post<'l>(&self, list: &'l BuiltList, posting: &mut Posting<'l>) -> Result<(), Refused> {
        posting.name_srq(self.srqn);
        match self.op {
            BuiltOp::Send(op) => {
                let (wr, inline) = self.wr(op, list);
                posting.post_wr(&wr, inline)
            }
            BuiltOp::SendInvalidating(rkey) => {
                let (wr, inline) = self.wr(SendOp::Send, list);
                posting.post_invalidating(&wr, rkey, inline)
            }
            BuiltOp::AtomicWrite(remote) => {
                let (wr, inline) = self.wr(SendOp::Write(remote), list);
                posting.post_atomic_write(&wr, inline)
            }
            BuiltOp::Window(op) => {
                let BuiltWr { wr_id, flags, .. } = *self;
                posting.post_window(&WindowWr { wr_id, flags, op: op.ok_or_else(|| SEND_WINDOW.bare())? })
            }
        }
    }
}

impl BuiltList {
    fn clear(&mut self) {
        self.wrs.clear();
        self.sges.clear();
        self.inline.clear();
        self.error = None;
    }
}
