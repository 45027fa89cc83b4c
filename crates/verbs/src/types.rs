//! The enumerations and flag sets of libibverbs, in Rust.

use bitflags::bitflags;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Transport service of a queue pair (`enum ibv_qp_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QpType {
    /// Reliable connection (`IBV_QPT_RC`).
    Rc,
    /// Unreliable connection (`IBV_QPT_UC`).
    Uc,
    /// Unreliable datagram (`IBV_QPT_UD`).
    Ud,
}

impl fmt::Display for QpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QpType::Rc => "RC",
            QpType::Uc => "UC",
            QpType::Ud => "UD",
        })
    }
}

/// State of a queue pair (`enum ibv_qp_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum QpState {
    /// Reset: just created.
    #[default]
    Reset,
    /// Initialised: RECVs may be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Send queue drained.
    Sqd,
    /// Send queue error (UC and UD only).
    Sqe,
    /// Error: all posted work requests are flushed.
    Err,
}

/// The verb of a send work request, without its operands (`enum ibv_wr_opcode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opcode {
    /// `IBV_WR_SEND`.
    Send,
    /// `IBV_WR_SEND_WITH_IMM`.
    SendWithImm,
    /// `IBV_WR_RDMA_WRITE`.
    Write,
    /// `IBV_WR_RDMA_WRITE_WITH_IMM`.
    WriteWithImm,
    /// `IBV_WR_RDMA_READ`.
    Read,
    /// `IBV_WR_ATOMIC_CMP_AND_SWP`.
    CompareSwap,
    /// `IBV_WR_ATOMIC_FETCH_AND_ADD`.
    FetchAdd,
}

impl Opcode {
    /// All opcodes, in the order of their declaration.
    pub const ALL: [Opcode; 7] = [
        Opcode::Send,
        Opcode::SendWithImm,
        Opcode::Write,
        Opcode::WriteWithImm,
        Opcode::Read,
        Opcode::CompareSwap,
        Opcode::FetchAdd,
    ];

    /// Whether the transport offers this verb (IB specification vol. 1, 9.2 and table 38;
    /// Table 1 of ATC'16).
    pub const fn is_offered_by(self, transport: QpType) -> bool {
        match transport {
            QpType::Rc => true,
            QpType::Uc => !matches!(self, Opcode::Read | Opcode::CompareSwap | Opcode::FetchAdd),
            QpType::Ud => matches!(self, Opcode::Send | Opcode::SendWithImm),
        }
    }

    /// Whether iWARP offers this verb by RFC 5040, section 1.1. The immediates and atomics of RFC 7306 are
    /// left out.
    pub const fn is_of_iwarp(self) -> bool {
        matches!(self, Opcode::Send | Opcode::Write | Opcode::Read)
    }

    /// Whether this is compare-and-swap or fetch-and-add.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Opcode::CompareSwap | Opcode::FetchAdd)
    }

    /// Whether the responder's answer carries data back to the requester.
    pub const fn returns_data(self) -> bool {
        matches!(self, Opcode::Read) || self.is_atomic()
    }

    /// Whether the message consumes a RECV at the responder.
    pub const fn consumes_recv(self) -> bool {
        matches!(self, Opcode::Send | Opcode::SendWithImm | Opcode::WriteWithImm)
    }
}

/// Kind of a completed work request (`enum ibv_wc_opcode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WcOpcode {
    /// `IBV_WC_SEND`.
    Send,
    /// `IBV_WC_RDMA_WRITE`.
    Write,
    /// `IBV_WC_RDMA_READ`.
    Read,
    /// `IBV_WC_COMP_SWAP`.
    CompareSwap,
    /// `IBV_WC_FETCH_ADD`.
    FetchAdd,
    /// `IBV_WC_RECV`.
    Recv,
    /// `IBV_WC_RECV_RDMA_WITH_IMM`.
    RecvWriteWithImm,
}

impl From<Opcode> for WcOpcode {
    fn from(opcode: Opcode) -> WcOpcode {
        match opcode {
            Opcode::Send | Opcode::SendWithImm => WcOpcode::Send,
            Opcode::Write | Opcode::WriteWithImm => WcOpcode::Write,
            Opcode::Read => WcOpcode::Read,
            Opcode::CompareSwap => WcOpcode::CompareSwap,
            Opcode::FetchAdd => WcOpcode::FetchAdd,
        }
    }
}

/// Status of a completion (`enum ibv_wc_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum WcStatus {
    /// Done.
    #[default]
    Success,
    /// Local length error: the message does not fit the RECV, or exceeds a limit.
    LocLenErr,
    /// Local QP operation error.
    LocQpOpErr,
    /// Local protection error: an lkey is invalid, or an access exceeds the region's bounds or rights.
    LocProtErr,
    /// Flushed: the QP was in, or entered, the error state.
    WrFlushErr,
    /// Memory window bind error: the window, its key, or the memory region does not allow it.
    MwBindErr,
    /// Unexpected transport-layer opcode at the responder.
    BadRespErr,
    /// Local access error at the responder of a WRITE with immediate.
    LocAccessErr,
    /// The responder found the request invalid.
    RemInvReqErr,
    /// The responder refused the access: the rkey is invalid, or the access exceeds the region's bounds or
    /// rights.
    RemAccessErr,
    /// The responder could not complete the operation.
    RemOpErr,
    /// No answer within the retry limit.
    RetryExcErr,
    /// The responder had no RECV within the RNR retry limit.
    RnrRetryExcErr,
    /// Any other error.
    GeneralErr,
}

/// Path MTU (`enum ibv_mtu`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Mtu {
    /// 256 bytes.
    Mtu256,
    /// 512 bytes.
    Mtu512,
    /// 1024 bytes.
    Mtu1024,
    /// 2048 bytes.
    Mtu2048,
    /// 4096 bytes.
    Mtu4096,
}

impl Mtu {
    /// All MTUs, smallest first.
    pub const ALL: [Mtu; 5] = [Mtu::Mtu256, Mtu::Mtu512, Mtu::Mtu1024, Mtu::Mtu2048, Mtu::Mtu4096];

    /// Payload bytes per packet.
    pub const fn bytes(self) -> u32 {
        match self {
            Mtu::Mtu256 => 256,
            Mtu::Mtu512 => 512,
            Mtu::Mtu1024 => 1024,
            Mtu::Mtu2048 => 2048,
            Mtu::Mtu4096 => 4096,
        }
    }

    /// The MTU of exactly `bytes` payload bytes, if there is one.
    pub fn from_bytes(bytes: u32) -> Option<Mtu> {
        Mtu::ALL.into_iter().find(|m| m.bytes() == bytes)
    }
}

/// Link layer of a port (`IBV_LINK_LAYER_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkLayer {
    /// InfiniBand: addressed by LID.
    Infiniband,
    /// Ethernet (RoCE): addressed by GID.
    Ethernet,
}

/// A 128-bit global identifier, in network byte order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::net::Ipv6Addr::from(self.0).fmt(f)
    }
}

bitflags! {
    /// Rights of a memory region or a QP (`enum ibv_access_flags`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct AccessFlags: u32 {
        /// The local device may write (RECV, READ and atomic results).
        const LOCAL_WRITE = 1;
        /// Remote WRITE; needs `LOCAL_WRITE`.
        const REMOTE_WRITE = 1 << 1;
        /// Remote READ.
        const REMOTE_READ = 1 << 2;
        /// Remote atomics; needs `LOCAL_WRITE`.
        const REMOTE_ATOMIC = 1 << 3;
    }

    /// Flags of a send work request (`enum ibv_send_flags`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct SendFlags: u32 {
        /// Wait for earlier READs and atomics of this QP.
        const FENCE = 1;
        /// Ask for a completion.
        const SIGNALED = 1 << 1;
        /// Raise a solicited event at the responder.
        const SOLICITED = 1 << 2;
        /// Copy the payload into the WQE when posting; lkeys are ignored.
        const INLINE = 1 << 3;
    }
}
