//! The domains of memory windows, which determine the QPs that may use a window. `windows.rs` binds windows
//! to regions.

use super::segment::Segment;
use doorbell_transport::{Keys, Region};
use doorbell_verbs::AccessFlags;
use std::sync::atomic::Ordering::*;

/// Bits of a domain. `WINDOW`: the domain belongs to a memory window. `OF_QP`: only one QP may use the
/// window, and the other bits are the QP's number.
const WINDOW: u32 = 1 << 31;
const OF_QP: u32 = 1 << 30;
/// The domain of a window that is not bound.
const NOBODYS: u32 = u32::MAX;
/// All numbers of protection domains are below this.
pub(crate) const PD_END: u32 = OF_QP;

/// The domain of a type 1 window, which all QPs of a protection domain may use.
pub(super) const fn of_pd(pd: u32) -> u32 {
    WINDOW | pd
}

/// The domain of a type 2B window, which only one QP may use.
pub(super) const fn of_qp(qpn: u32) -> u32 {
    WINDOW | OF_QP | qpn
}

/// The domain under which a QP accesses a window with `domain`. The access is allowed if both domains are
/// equal. `None` if `domain` does not belong to a window.
pub(crate) fn domain_like(domain: u32, pd: u32, qpn: u32) -> Option<u32> {
    match domain & (WINDOW | OF_QP) {
        WINDOW => Some(of_pd(pd)),
        0 | OF_QP => None,
        _ => Some(of_qp(qpn)),
    }
}

/// Describes a window's domain in a message. `None` if the domain does not belong to a window.
pub(crate) fn domain_text(domain: u64) -> Option<String> {
    let domain = u32::try_from(domain).ok()?;
    match domain & (WINDOW | OF_QP) {
        _ if domain == NOBODYS => Some("that is not bound".into()),
        0 | OF_QP => None,
        WINDOW => Some(format!("for QPs of protection domain {}", domain & !WINDOW)),
        _ => Some(format!("for QP {:#x} only", domain & !(WINDOW | OF_QP))),
    }
}

/// The region of a window that is not bound.
pub(super) const NOTHING: Region = Region { pd: NOBODYS, addr: 0, len: 0, access: AccessFlags::empty() };

/// `enum ibv_mw_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowKind {
    /// Type 1: bound by ibv_bind_mw(3), for all QPs of the protection domain.
    One,
    /// Type 2B: bound by a work request, for its QP alone.
    Two,
}

/// A window of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) kind: WindowKind,
    pub(super) pd: u32,
    /// The window's current rkey, or its last rkey if the window is not bound.
    pub(super) key: u32,
    /// The lkey of the region that the window is bound to, and the number of the QP that bound the window.
    pub(super) bound: Option<(u32, u32)>,
}

impl Window {
    /// Whether the window is bound: this process has bound the window, and no peer has invalidated it since.
    pub(super) fn is_bound(&self, segment: &Segment) -> bool {
        let record = Keys::slot_of(self.key).and_then(|slot| segment.mr(slot));
        // Acquire, for the Release in `MrRecord::invalidate`.
        self.bound.is_some() && record.is_some_and(|record| record.key.load(Acquire) == self.key)
    }
}
