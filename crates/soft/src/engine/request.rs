//! A send work request between the program and the responder.

use crate::wr_opcode::WrOpcode;
use doorbell_abi::{CEnum, IBV_WC_WITH_IMM, IBV_WC_WITH_INV};
use doorbell_verbs::{Opcode, RemoteAddr, SendFlags, SendOp, SendWr, Sge, UdDest, WcOpcode};

/// `IBV_WC_ATOMIC_WRITE`.
const WC_ATOMIC_WRITE: u32 = 9;
/// Bytes of an ATOMIC WRITE, and the alignment of its target.
pub(crate) const ATOMIC_WRITE_BYTES: u32 = 8;

/// The operation of a send work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOp {
    /// An operation of `doorbell_verbs`.
    Verb(SendOp),
    /// SEND with invalidate. The value is the rkey to invalidate.
    SendWithInvalidate(u32),
    /// ATOMIC WRITE: a WRITE of a whole word.
    AtomicWrite(RemoteAddr),
}

impl RequestOp {
    /// The opcode that decides about rights and statistics. A SEND with invalidate travels as a SEND with
    /// immediate, and counts as one. An ATOMIC WRITE counts as a WRITE.
    #[inline]
    pub(crate) const fn opcode(&self) -> Opcode {
        match self {
            RequestOp::Verb(op) => op.opcode(),
            RequestOp::SendWithInvalidate(_) => Opcode::SendWithImm,
            RequestOp::AtomicWrite(_) => Opcode::Write,
        }
    }

    /// The opcode that decides which initiator resources (`max_rd_atomic`) the operation needs. An ATOMIC
    /// WRITE is answered as an atomic.
    #[inline]
    pub(crate) const fn answered_as(&self) -> Opcode {
        match self {
            RequestOp::AtomicWrite(_) => Opcode::FetchAdd,
            _ => self.opcode(),
        }
    }

    /// The `enum ibv_wc_opcode` of the operation's completion.
    pub(crate) fn wc_opcode(&self) -> u32 {
        match self {
            RequestOp::AtomicWrite(_) => WC_ATOMIC_WRITE,
            _ => WcOpcode::from(self.opcode()).to_c(),
        }
    }

    /// `imm_data` of the receiver's completion in network byte order, and the bit of `wc_flags` that tells
    /// its meaning.
    #[inline]
    pub(crate) fn imm_data(&self) -> Option<(u32, u8)> {
        match self {
            RequestOp::Verb(op) => op.imm().map(|imm| (imm.to_be(), IBV_WC_WITH_IMM as u8)),
            RequestOp::SendWithInvalidate(rkey) => Some((*rkey, IBV_WC_WITH_INV as u8)),
            RequestOp::AtomicWrite(_) => None,
        }
    }

    /// The rkey of the memory window to invalidate; `None` if the operation invalidates none.
    #[inline]
    pub(crate) fn invalidated_key(&self) -> Option<u32> {
        match self {
            RequestOp::Verb(_) | RequestOp::AtomicWrite(_) => None,
            RequestOp::SendWithInvalidate(rkey) => Some(*rkey),
        }
    }

    /// The responder's memory that the request names; `None` if it names no memory.
    pub(crate) fn remote(&self) -> Option<RemoteAddr> {
        match self {
            RequestOp::Verb(op) => op.remote(),
            RequestOp::SendWithInvalidate(_) => None,
            RequestOp::AtomicWrite(remote) => Some(*remote),
        }
    }

    /// The operation's opcode in verbs.h.
    pub(crate) fn wr_opcode(&self) -> WrOpcode {
        match self {
            RequestOp::Verb(op) => WrOpcode::Verb(op.opcode()),
            RequestOp::SendWithInvalidate(_) => WrOpcode::SendWithInvalidate,
            RequestOp::AtomicWrite(_) => WrOpcode::AtomicWrite,
        }
    }

    /// The operation's name in verbs.h.
    pub(crate) fn name(&self) -> &'static str {
        self.wr_opcode().name()
    }
}

/// A send work request that was checked when it was posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) wr_id: u64,
    pub(crate) op: RequestOp,
    pub(crate) sg_list: &'a [Sge],
    pub(crate) flags: SendFlags,
    /// Destination of a datagram (UD).
    pub(crate) dest: Option<UdDest>,
    /// Bytes of the message.
    pub(crate) len: u32,
    /// The payload, if it was copied already.
    pub(crate) inline: Option<&'a [u8]>,
    /// Number of the work request in its QP, from 1.
    pub(crate) number: u64,
    /// Number of the SRQ that the message is for (XRC).
    pub(crate) srqn: u32,
}

impl<'a> Request<'a> {
    /// Converts a program's work request; `len` is the length of its message.
    #[inline(always)]
    pub(crate) fn of(wr: &SendWr<'a>, len: u32, number: u64) -> Request<'a> {
        let SendWr { wr_id, op, sg_list, flags, dest } = *wr;
        let op = RequestOp::Verb(op);
        Request { wr_id, op, sg_list, flags, dest, len, inline: None, number, srqn: 0 }
    }

    /// Converts to a work request of `doorbell_verbs`. A SEND with invalidate becomes the SEND with immediate
    /// that travels.
    pub(crate) fn as_wr(&self) -> SendWr<'a> {
        let Request { wr_id, op, sg_list, flags, dest, .. } = *self;
        let op = match op {
            RequestOp::Verb(op) => op,
            RequestOp::SendWithInvalidate(rkey) => SendOp::SendWithImm(u32::from_be(rkey)),
            RequestOp::AtomicWrite(remote) => SendOp::Write(remote),
        };
        SendWr { wr_id, op, sg_list, flags, dest }
    }
}
