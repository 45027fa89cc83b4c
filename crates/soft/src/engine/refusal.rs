//! The reasons why a responder does not carry out a message, and their encoding between processes.

use crate::memory::transfer::Unreachable;
use doorbell_launch::counts::drops::DropCause;
use doorbell_transport::Fault;

/// Why a message is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A fault for which any responder refuses.
    Fault(Fault),
    /// The responder's CQ is full.
    CqFull,
    /// The process has exited, or its records are invalid.
    Silence,
    /// The receiver is copying the payload of an earlier message, which the request must not overtake.
    Taking,
    /// The requester's own memory is not mapped. The responder takes no part in this.
    Local,
}

impl Refusal {
    /// The refusal, adapted to a message with an immediate.
    pub(super) fn with_imm(self) -> Refusal {
        match self {
            Refusal::Fault(fault) => Refusal::Fault(fault.of_message(true)),
            refusal => refusal,
        }
    }

    /// The cause to report if the message is lost.
    pub(super) fn drop_cause(self) -> DropCause {
        match self {
            Refusal::Silence | Refusal::Taking | Refusal::Local => DropCause::OutOfReach,
            Refusal::CqFull => DropCause::CqFull,
            Refusal::Fault(Fault::NoRecv) => DropCause::NoRecv,
            Refusal::Fault(Fault::RecvTooSmall) => DropCause::RecvTooSmall,
            Refusal::Fault(Fault::RecvProtection) => DropCause::RecvMemory,
            Refusal::Fault(Fault::Access | Fault::AccessWithImm | Fault::Invalid) => DropCause::RemoteMemory,
        }
    }

    /// The word that encodes a refusal between processes. Words keep their meaning forever, because processes
    /// may have different builds of the library.
    pub(super) fn to_word(self) -> u64 {
        match self {
            // A process that receives a message for a requester has the whole message in its own memory, so
            // neither `Taking` nor `Local` occurs there.
            Refusal::Silence | Refusal::Taking | Refusal::Local => 0,
            Refusal::CqFull => 1,
            Refusal::Fault(Fault::NoRecv) => 2,
            Refusal::Fault(Fault::RecvTooSmall) => 3,
            Refusal::Fault(Fault::RecvProtection) => 4,
            Refusal::Fault(Fault::Access) => 5,
            Refusal::Fault(Fault::AccessWithImm) => 6,
            Refusal::Fault(Fault::Invalid) => 7,
        }
    }

    /// The refusal with this word. An unknown word counts as no answer.
    pub(super) fn from_word(word: u64) -> Refusal {
        match word {
            1 => Refusal::CqFull,
            2 => Refusal::Fault(Fault::NoRecv),
            3 => Refusal::Fault(Fault::RecvTooSmall),
            4 => Refusal::Fault(Fault::RecvProtection),
            5 => Refusal::Fault(Fault::Access),
            6 => Refusal::Fault(Fault::AccessWithImm),
            7 => Refusal::Fault(Fault::Invalid),
            _ => Refusal::Silence,
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal::Fault(fault)
    }
}

impl From<Unreachable> for Refusal {
    fn from(cause: Unreachable) -> Refusal {
        match cause {
            Unreachable::Gone => Refusal::Silence,
            Unreachable::Memory => Fault::Access.into(),
            Unreachable::Local => Refusal::Local,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_survives_its_word() {
        for word in 0..8 {
            assert_eq!(Refusal::from_word(word).to_word(), word);
        }
        assert_eq!(Refusal::from_word(8), Refusal::Silence);
    }
}
