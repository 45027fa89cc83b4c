//! BlueFlame: the rule by which mlx5's driver chooses between writing a WQE to the NIC and ringing a
//! doorbell.
//!
//! Source: rdma-core, providers/mlx5/qp.c (`post_send_db`, and `_mlx5_post_send` for the size of a WQE).

use super::layout::Method;
use crate::wqe::Payload;
use doorbell_verbs::{Opcode, QpType};

/// Bytes of the unit in which the driver counts the size of a WQE.
const UNIT: u32 = 16;
/// Units of each segment of a WQE: control, remote address, operands of an atomic, address of a datagram.
const CONTROL: u32 = 1;
const REMOTE: u32 = 1;
const ATOMIC: u32 = 1;
const DATAGRAM: u32 = 3;
/// Bytes of inline payload's length, before the payload.
const INLINE_HEADER: u32 = 4;

/// Units of 16 bytes of a send WQE, as mlx5's driver counts them.
pub const fn wqe_units(opcode: Opcode, qp_type: QpType, payload: Payload) -> u32 {
    let address = match qp_type {
        QpType::Ud => DATAGRAM,
        QpType::Rc | QpType::Uc => match opcode {
            Opcode::Send | Opcode::SendWithImm => 0,
            _ if opcode.is_atomic() => REMOTE + ATOMIC,
            _ => REMOTE,
        },
    };
    let payload = match payload {
        Payload::None => 0,
        Payload::Inline(bytes) => bytes.saturating_add(INLINE_HEADER).div_ceil(UNIT),
        Payload::Sges(sges) => sges,
    };
    CONTROL + address + payload
}

/// A call that posts, as the driver sees it when it announces the WQEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// WQEs of the call.
    pub wqes: u32,
    /// Size of the last WQE, in units of 16 bytes ([`wqe_units`]).
    pub units: u32,
    /// Whether the last WQE has inline payload.
    pub inline: bool,
    /// Whether the QP's doorbell register has BlueFlame. Only register 0 has none.
    pub blueflame: bool,
}

/// When the driver writes a WQE to the NIC by BlueFlame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlueFlame {
    /// Bytes of a BlueFlame buffer: of the largest WQE that the driver writes. 0 if the NIC has none.
    pub buffer: u32,
    /// Whether the driver also writes WQEs without inline payload (`MLX5_POST_SEND_PREFER_BF`).
    pub without_inline: bool,
    /// Whether BlueFlame is off (`MLX5_SHUT_UP_BF`).
    pub off: bool,
}

impl BlueFlame {
    /// How the WQEs of a call reach the NIC. A list always rings a doorbell.
    pub const fn method(&self, post: Announcement) -> Method {
        let fits = post.units > CONTROL && post.units <= self.buffer / UNIT;
        let wanted = !self.off && (post.inline || self.without_inline);
        match post.wqes {
            0 | 1 if wanted && fits && post.blueflame => Method::WqeByMmio,
            0 => Method::Doorbell { batch: 1 },
            batch => Method::Doorbell { batch },
        }
    }
}
