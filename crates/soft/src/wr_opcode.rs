//! Opcodes of work requests, as verbs.h numbers and names them (`enum ibv_wr_opcode`).

use doorbell_abi::{CEnum, opcode_name};
use doorbell_verbs::Opcode;

/// `IBV_WR_SEND_WITH_INV` and `IBV_WR_ATOMIC_WRITE`.
pub(crate) const SEND_WITH_INV: u32 = 9;
pub(crate) const ATOMIC_WRITE: u32 = 15;

/// The opcode of a send work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrOpcode {
    /// An operation of the verbs interface.
    Verb(Opcode),
    SendWithInvalidate,
    AtomicWrite,
}

impl WrOpcode {
    /// The opcode's number in verbs.h.
    pub(crate) fn to_c(self) -> u32 {
        match self {
            WrOpcode::Verb(opcode) => opcode.to_c(),
            WrOpcode::SendWithInvalidate => SEND_WITH_INV,
            WrOpcode::AtomicWrite => ATOMIC_WRITE,
        }
    }

    /// The opcode with this number; `None` if the number is unknown.
    pub(crate) fn from_c(number: u32) -> Option<WrOpcode> {
        match number {
            SEND_WITH_INV => Some(WrOpcode::SendWithInvalidate),
            ATOMIC_WRITE => Some(WrOpcode::AtomicWrite),
            other => Opcode::from_c(other).map(WrOpcode::Verb),
        }
    }

    /// The opcode's name in verbs.h, without the prefix `IBV_WR_`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            WrOpcode::Verb(opcode) => opcode_name(opcode),
            WrOpcode::SendWithInvalidate => "SEND_WITH_INV",
            WrOpcode::AtomicWrite => "ATOMIC_WRITE",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opcode_survives_its_number() {
        let verbs = Opcode::ALL.map(WrOpcode::Verb);
        for opcode in verbs.into_iter().chain([WrOpcode::SendWithInvalidate, WrOpcode::AtomicWrite]) {
            assert_eq!(WrOpcode::from_c(opcode.to_c()), Some(opcode));
        }
    }
}
