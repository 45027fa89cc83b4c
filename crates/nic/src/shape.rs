//! The properties of posted work requests that determine their cost.

use crate::generation::{Announcement, Generation, Method, PostingRule, wqe_units};
use crate::wqe;
use doorbell_verbs::{Opcode, QpType};
use serde::Serialize;

/// Bytes of the word that an atomic reads and writes.
pub const ATOMIC_WORD_BYTES: u32 = 8;

/// A post of one or several like work requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PostShape {
    /// Verb.
    pub opcode: Opcode,
    /// Transport.
    pub qp_type: QpType,
    /// Payload bytes of each work request: for a READ the requested bytes, for an atomic 8.
    pub payload: u32,
    /// SGEs of each work request. The number does not matter if the payload is inline.
    pub sges: u32,
    /// Whether the payload is in the WQE.
    pub inline: bool,
    /// Whether each work request asks for a completion.
    pub signaled: bool,
    /// How the WQEs reach the NIC.
    pub method: Method,
}

impl PostShape {
    /// How the WQE gives its payload.
    pub const fn wqe_payload(&self) -> wqe::Payload {
        if self.inline && !self.opcode.returns_data() && self.payload > 0 {
            wqe::Payload::Inline(self.payload)
        } else if self.sges == 0 || (self.payload == 0 && !self.opcode.is_atomic()) {
            wqe::Payload::None
        } else {
            wqe::Payload::Sges(self.sges)
        }
    }

    /// This shape in calls that post `wqes` such work requests. `blueflame` says whether the QP's doorbell
    /// register has BlueFlame.
    pub const fn announced(self, rule: &PostingRule, wqes: u32, blueflame: bool) -> PostShape {
        let units = wqe_units(self.opcode, self.qp_type, self.wqe_payload());
        let announcement = Announcement { wqes, units, inline: self.inlined() > 0, blueflame };
        PostShape { method: rule.method(announcement), ..self }
    }

    /// Bytes of each WQE, without padding.
    pub const fn wqe_bytes(&self, generation: Generation) -> u32 {
        generation.wqe().send_bytes(self.opcode, self.qp_type, self.wqe_payload())
    }

    /// Cache lines of each WQE.
    pub const fn wqe_lines(&self, generation: Generation) -> u32 {
        wqe::lines(self.wqe_bytes(generation))
    }

    /// Bytes of payload that the CPU copies into each WQE.
    pub const fn inlined(&self) -> u32 {
        match self.wqe_payload() {
            wqe::Payload::Inline(bytes) => bytes,
            wqe::Payload::None | wqe::Payload::Sges(_) => 0,
        }
    }

    /// Lengths of the payload's buffers. The payload is spread evenly over the SGEs.
    pub fn buffers(&self) -> impl Iterator<Item = u32> + use<> {
        let (bytes, sges) = (self.payload, self.sges.max(1));
        (0..sges).map(move |i| bytes / sges + u32::from(i < bytes % sges))
    }

    /// Bytes that the NIC reads from the payload's buffers for each work request.
    pub const fn payload_read(&self) -> u32 {
        match self.wqe_payload() {
            wqe::Payload::Sges(_) if !self.opcode.returns_data() => self.payload,
            _ => 0,
        }
    }
}

/// The properties of the RECVs that a message consumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RecvShape {
    /// Whether inline-receive is on.
    pub inline: bool,
}
