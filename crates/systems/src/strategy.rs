//! How the pieces of a call of vector I/O come together.

use crate::config::Clients;
use crate::names::named;

named! {
    /// How the pieces of a call come together.
    Strategy {
        /// A core copies them into a buffer, from which one WRITE goes (the paper's SP, for software protocol).
        Sp = "sp",
        /// Each is a WRITE; all are posted with one doorbell.
        Doorbell = "doorbell",
        /// Each is an SGE of one WRITE, or of as few as an SGE limit allows; the NIC gathers them.
        Sgl = "sgl",
    }

    /// Who says how they do.
    Chosen {
        /// The profile that it runs on: what is fastest by its costs.
        Auto = "auto",
        /// Copied.
        Sp = "sp",
        /// A list of WRITEs.
        Doorbell = "doorbell",
        /// Gathered.
        Sgl = "sgl",
    }
}

impl Chosen {
    /// The strategy, where that is said.
    pub const fn strategy(self) -> Option<Strategy> {
        match self {
            Chosen::Auto => None,
            Chosen::Sp => Some(Strategy::Sp),
            Chosen::Doorbell => Some(Strategy::Doorbell),
            Chosen::Sgl => Some(Strategy::Sgl),
        }
    }
}

impl From<Strategy> for Chosen {
    fn from(strategy: Strategy) -> Chosen {
        match strategy {
            Strategy::Sp => Chosen::Sp,
            Strategy::Doorbell => Chosen::Doorbell,
            Strategy::Sgl => Chosen::Sgl,
        }
    }
}

/// Calls of vector I/O whose strategy is to be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorCalls {
    /// Clients; what they have outstanding are calls.
    pub clients: Clients,
    /// Pieces of a call.
    pub iovcnt: u32,
    /// Bytes of a piece.
    pub piece: u32,
    /// Bytes up to which a WRITE is inline, where its pieces are copied or single.
    pub inline_bytes: u32,
}
