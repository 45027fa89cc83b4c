//! Requests that a responder does not carry out, and what follows (IB specification vol. 1, 9.7.5.2
//! and 9.9.3).

use crate::NakCode;
use doorbell_verbs::{AccessFlags, QpType, WcStatus};

/// Why a request is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No RECV is posted.
    NoRecv,
    /// The message is longer than its RECV.
    RecvTooSmall,
    /// An lkey of the RECV does not hold.
    RecvProtection,
    /// The rkey does not hold.
    Access,
    /// The rkey of a WRITE with immediate does not hold, where the packet that says so has the immediate.
    AccessWithImm,
    /// Malformed, out of sequence within its message, or not enabled on this QP.
    Invalid,
}

impl Fault {
    /// The same of a message with an immediate, or without.
    #[must_use]
    pub const fn of_message(self, has_imm: bool) -> Fault {
        match self {
            Fault::Access if has_imm => Fault::AccessWithImm,
            fault => fault,
        }
    }

    /// The NAK that RC answers with; `None` where it asks the requester to wait instead.
    pub const fn nak(self) -> Option<NakCode> {
        match self {
            Fault::NoRecv => None,
            Fault::RecvTooSmall | Fault::Invalid => Some(NakCode::InvalidRequest),
            Fault::RecvProtection => Some(NakCode::RemoteOperation),
            Fault::Access | Fault::AccessWithImm => Some(NakCode::RemoteAccess),
        }
    }

    /// The status that the message's RECV completes with; `None` where it stays as it is. Too short
    /// for a message of UC or UD, one of the QP's own waits for the next (class D), while one of an
    /// SRQ completes (class E).
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

    /// Whether the responder enters Err: on RC with every NAK (table 63), on UC and UD where it is at
    /// fault itself.
    pub const fn is_fatal(self, qp_type: QpType) -> bool {
        match qp_type {
            QpType::Rc => self.nak().is_some(),
            QpType::Uc | QpType::Ud => matches!(self, Fault::RecvProtection),
        }
    }
}

/// Whether a QP with these attributes takes a one-sided request that needs the right `need`, of the
/// remote ones, to memory from `va` on. Its rkey is looked at next, unless no byte is accessed
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
