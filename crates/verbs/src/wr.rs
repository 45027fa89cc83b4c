//! Work requests and work completions.

use crate::{AhHandle, Opcode, SendFlags, WcOpcode, WcStatus};

/// A scatter/gather element, laid out as `struct ibv_sge`, except that it needs no alignment. libiscsi embeds
/// `struct ibv_sge` in a packed struct, and x86 processors accept that.
#[repr(C, packed)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sge {
    /// Virtual address.
    pub addr: u64,
    /// Length in bytes.
    pub length: u32,
    /// Key of the memory region; ignored with `SendFlags::INLINE`.
    pub lkey: u32,
}

/// Memory of the responder that a one-sided verb accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct RemoteAddr {
    /// Virtual address at the responder.
    pub addr: u64,
    /// Key of the responder's memory region.
    pub rkey: u32,
}

impl RemoteAddr {
    /// The address `offset` bytes further on.
    pub const fn at(self, offset: u64) -> RemoteAddr {
        RemoteAddr { addr: self.addr.wrapping_add(offset), rkey: self.rkey }
    }
}

/// The verb of a send work request with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// SEND.
    Send,
    /// SEND with immediate (host byte order).
    SendWithImm(u32),
    /// WRITE.
    Write(RemoteAddr),
    /// WRITE with immediate (host byte order).
    WriteWithImm(RemoteAddr, u32),
    /// READ.
    Read(RemoteAddr),
    /// Compare-and-swap on an 8-byte aligned word.
    CompareSwap {
        /// The word.
        remote: RemoteAddr,
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Fetch-and-add on an 8-byte aligned word.
    FetchAdd {
        /// The word.
        remote: RemoteAddr,
        /// The addend; the sum wraps.
        add: u64,
    },
}

impl SendOp {
    /// The opcode.
    pub const fn opcode(&self) -> Opcode {
        match self {
            SendOp::Send => Opcode::Send,
            SendOp::SendWithImm(_) => Opcode::SendWithImm,
            SendOp::Write(_) => Opcode::Write,
            SendOp::WriteWithImm(..) => Opcode::WriteWithImm,
            SendOp::Read(_) => Opcode::Read,
            SendOp::CompareSwap { .. } => Opcode::CompareSwap,
            SendOp::FetchAdd { .. } => Opcode::FetchAdd,
        }
    }

    /// The remote memory of the operation, if any.
    pub const fn remote(&self) -> Option<RemoteAddr> {
        match *self {
            SendOp::Send | SendOp::SendWithImm(_) => None,
            SendOp::Write(remote)
            | SendOp::WriteWithImm(remote, _)
            | SendOp::Read(remote)
            | SendOp::CompareSwap { remote, .. }
            | SendOp::FetchAdd { remote, .. } => Some(remote),
        }
    }

    /// The immediate of the operation, if any.
    pub const fn imm(&self) -> Option<u32> {
        match *self {
            SendOp::SendWithImm(imm) | SendOp::WriteWithImm(_, imm) => Some(imm),
            _ => None,
        }
    }
}

/// The destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdDest {
    /// Address handle, from [`crate::Ah::dest`].
    pub ah: AhHandle,
    /// QP number at the destination.
    pub qpn: u32,
    /// Q_Key of the destination QP.
    pub qkey: u32,
}

/// A send work request (`struct ibv_send_wr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWr<'a> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// The verb.
    pub op: SendOp,
    /// Local data: source of SEND and WRITE, destination of READ and atomics.
    pub sg_list: &'a [Sge],
    /// Flags.
    pub flags: SendFlags,
    /// Destination; UD only.
    pub dest: Option<UdDest>,
}

impl<'a> SendWr<'a> {
    /// A work request without flags on a connected QP.
    pub const fn new(wr_id: u64, op: SendOp, sg_list: &'a [Sge]) -> SendWr<'a> {
        SendWr { wr_id, op, sg_list, flags: SendFlags::empty(), dest: None }
    }

    /// Adds these flags.
    pub const fn flags(mut self, flags: SendFlags) -> SendWr<'a> {
        self.flags = self.flags.union(flags);
        self
    }

    /// Sets the destination.
    pub const fn to(mut self, dest: UdDest) -> SendWr<'a> {
        self.dest = Some(dest);
        self
    }

    /// Sum of the SGE lengths in bytes.
    #[inline]
    pub fn length(&self) -> u64 {
        self.sg_list.iter().map(|s| u64::from(s.length)).sum()
    }
}

/// A receive work request (`struct ibv_recv_wr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvWr<'a> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// Buffers of the message. On UD the first [`GRH_BYTES`] bytes are for the global route header.
    pub sg_list: &'a [Sge],
}

/// Bytes before the payload in a UD RECV buffer (ibv_post_recv(3)).
pub const GRH_BYTES: u32 = 40;

/// A work completion (`struct ibv_wc`). If `status` is not `Success`, only `wr_id`, `status` and `qp_num` are
/// valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wc {
    /// `wr_id` of the work request.
    pub wr_id: u64,
    /// Outcome.
    pub status: WcStatus,
    /// Kind of the completed work request.
    pub opcode: WcOpcode,
    /// Bytes received (on UD including the 40 bytes of the GRH), read or swapped.
    pub byte_len: u32,
    /// The immediate (host byte order), if the message had one.
    pub imm: Option<u32>,
    /// Local QP.
    pub qp_num: u32,
    /// QP that sent the message; UD RECVs only.
    pub src_qp: u32,
    /// LID of the port that sent the message; UD RECVs on InfiniBand only, otherwise 0. On Ethernet the
    /// global route header holds the sender's address.
    pub slid: u16,
}

impl Default for Wc {
    fn default() -> Wc {
        Wc {
            wr_id: 0,
            status: WcStatus::Success,
            opcode: WcOpcode::Send,
            byte_len: 0,
            imm: None,
            qp_num: 0,
            src_qp: 0,
            slid: 0,
        }
    }
}
