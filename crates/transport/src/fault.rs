//! Requests that a responder refuses, and the consequences (IB specification vol. 1, 9.7.5.2 and 9.9.3).

use crate::NakCode;
use doorbell_verbs::{AccessFlags, QpType, WcStatus};

/// The reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No RECV is posted.
    NoRecv,
    /// The message is longer than its RECV.
    RecvTooSmall,
    /// An lkey of the RECV is not valid for the access.
    RecvProtection,
    /// The rkey is not valid for the access.
    Access,
    /// The rkey of a WRITE with immediate is not valid for the access. The refused packet carries the
    /// immediate.
    AccessWithImm,
    /// Malformed, out of sequence within its message, or not enabled on this QP.
    Invalid,
}

impl Fault {
    /// The fault of a refused packet. `has_imm` turns [`Fault::Access`] into [`Fault::AccessWithImm`].
    #[must_use]
    pub const fn of_message(self, has_imm: bool) -> Fault {
        match self {
            Fault::Access if has_imm => Fault::AccessWithImm,
            fault => fault,
        }
    }

    /// The NAK that an RC responder sends; `None` if the responder sends an RNR NAK.
    pub const fn nak(self) -> Option<NakCode> {
        match self {
            Fault::NoRecv => None,
            Fault::RecvTooSmall | Fault::Invalid => Some(NakCode::InvalidRequest),
            Fault::RecvProtection => Some(NakCode::RemoteOperation),
            Fault::Access | Fault::AccessWithImm => Some(NakCode::RemoteAccess),
        }
    }

    /// The status with which the message's RECV completes; `None` if the RECV stays posted.
    ///
    /// On UC and UD, the message may be too long for its RECV. A RECV of the QP's own queue then stays posted
    /// for the next message (class D). But a RECV of an SRQ completes (class E).
    pub const fn recv_status(self, qp_type: QpType, uses_srq: bool) -> Option<WcStatus> {
        match (self, qp_type) {
            (Fault::RecvProtection, _) => Some(WcStatus::LocProtErr),
            (Fault::RecvTooSmall, QpType::Rc) => Some(WcStatus::LocLenErr),
            // "Local Access Error" (11.6.2).
            (Fault::AccessWithImm, QpType::Rc) => Some(WcStatus::LocAccessErr),
            (Fault::RecvTooSmall, QpType::Uc | QpType::Ud) if uses_srq => Some(WcStatus::LocLenErr),
            _ => None,
        }
    }

    /// Whether the responder's QP enters Err. On RC, it does so with every NAK (table 63). On UC and UD, it
    /// does so only if an lkey of the RECV is at fault.
    pub const fn is_fatal(self, qp_type: QpType) -> bool {
        match qp_type {
            QpType::Rc => self.nak().is_some(),
            QpType::Uc | QpType::Ud => matches!(self, Fault::RecvProtection),
        }
    }
}

/// Checks whether a QP with these attributes accepts a one-sided request to memory from `va` on. `need` is
/// the remote right that the request needs. The caller checks the rkey next, unless no byte is accessed
/// (9.7.5.2.4).
pub fn check_enabled(
    need: AccessFlags,
    va: u64,
    access: AccessFlags,
    max_dest_rd_atomic: u8,
) -> Result<(), Fault> {
    let atomic = need == AccessFlags::REMOTE_ATOMIC;
    let returns_data = atomic || need == AccessFlags::REMOTE_READ;
    let refused =
        !access.contains(need) || returns_data && max_dest_rd_atomic == 0 || atomic && !va.is_multiple_of(8);
    if refused { Err(Fault::Invalid) } else { Ok(()) }
}
