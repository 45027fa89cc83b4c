//! The content of work requests for memory windows.

use crate::memory::windows::Bind;
use doorbell_verbs::{SendFlags, WcStatus};

/// `IBV_WC_BIND_MW` and `IBV_WC_LOCAL_INV` of verbs.h.
const WC_BIND_MW: u32 = 5;
const WC_LOCAL_INV: u32 = 6;

/// The operation on a memory window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowOp {
    /// IBV_WR_BIND_MW, and ibv_bind_mw(3).
    Bind(Bind),
    /// IBV_WR_LOCAL_INV of the window with this rkey.
    Invalidate(u32),
}

impl WindowOp {
    /// The operation's name in verbs.h, without the prefix `IBV_WR_`.
    pub(super) fn name(&self) -> &'static str {
        match self {
            WindowOp::Bind(_) => "BIND_MW",
            WindowOp::Invalidate(_) => "LOCAL_INV",
        }
    }

    pub(super) fn wc_opcode(&self) -> u32 {
        match self {
            WindowOp::Bind(_) => WC_BIND_MW,
            WindowOp::Invalidate(_) => WC_LOCAL_INV,
        }
    }

    /// The completion status if the operation fails (IB specification vol. 1, 11.6.2). verbs.h has no status
    /// for memory management errors.
    pub(super) fn failure(&self) -> WcStatus {
        match self {
            WindowOp::Bind(_) => WcStatus::MwBindErr,
            WindowOp::Invalidate(_) => WcStatus::LocQpOpErr,
        }
    }
}

/// A work request for a memory window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowWr {
    pub(crate) wr_id: u64,
    pub(crate) flags: SendFlags,
    pub(crate) op: WindowOp,
}
