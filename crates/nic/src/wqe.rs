//! Sizes of work queue elements (WQEs) on Mellanox NICs.
//!
//! Headers are those of ATC'16, Table 1; slots are padded to cache lines (2.2.2).

use doorbell_verbs::{Opcode, QpType};

/// Bytes of a slot's unit, and of a write-combined MMIO.
pub const LINE: u32 = 64;

/// Bytes of a send WQE before its payload (Table 1).
pub const fn header_bytes(transport: QpType) -> u32 {
    match transport {
        QpType::Rc | QpType::Uc => 36,
        QpType::Ud => 68,
    }
}

/// Bytes of a RECV WQE with one SGE (Table 1).
pub const RECV_BYTES: u32 = 16;

/// Bytes of a pointer to payload: address, length, lkey.
pub const SGE_BYTES: u32 = 16;

/// Bytes of the operands of an atomic.
pub const ATOMIC_BYTES: u32 = 16;

/// How the payload of a send WQE is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// None: the message is header-only.
    None,
    /// In the WQE, this many bytes.
    Inline(u32),
    /// By this many SGEs.
    Sges(u32),
}

/// Bytes of a send WQE, without padding. A header-only UD SEND fits one line, as it can do
/// without the part of the header that a payload needs (Figure 5).
pub const fn send_bytes(opcode: Opcode, transport: QpType, payload: Payload) -> u32 {
    let header = header_bytes(transport);
    let operands = if opcode.is_atomic() { ATOMIC_BYTES } else { 0 };
    match payload {
        Payload::None if header > LINE => LINE,
        Payload::None => header + operands,
        Payload::Inline(bytes) => (header + operands).saturating_add(bytes),
        Payload::Sges(sges) => (header + operands).saturating_add(sges.saturating_mul(SGE_BYTES)),
    }
}

/// Bytes of a RECV WQE and of its slot: 16 per SGE, at least one, rounded up to a power of two,
/// which is the stride of a receive queue.
pub const fn recv_bytes(sges: u32) -> u32 {
    let sges = if sges == 0 { 1 } else { sges };
    (sges * RECV_BYTES).next_power_of_two()
}

/// Cache lines that `bytes` of a WQE take.
pub const fn lines(bytes: u32) -> u32 {
    bytes.div_ceil(LINE)
}

/// Bytes of the slot of a WQE (x' in the paper, 2.2.3).
pub const fn pad(bytes: u32) -> u32 {
    lines(bytes) * LINE
}

/// Largest inline payload of a WQE that takes `lines` cache lines, if any fits.
pub const fn max_inline_in(lines: u32, transport: QpType) -> Option<u32> {
    (lines * LINE).checked_sub(header_bytes(transport))
}
