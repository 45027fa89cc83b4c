//! Strategies for the pieces of a vector I/O call.

use crate::config::Clients;
use crate::names::named;

named! {
    /// How the pieces of a call get into WRITEs.
    Strategy {
        /// A core copies the pieces into a buffer, and one WRITE sends the buffer (the paper's SP, for
        /// software protocol).
        Sp = "sp",
        /// Each piece is a WRITE. All WRITEs are posted with one doorbell.
        Doorbell = "doorbell",
        /// Each piece is an SGE, and the NIC gathers the pieces. There is one WRITE, or as few as the limit
        /// of SGEs allows.
        Sgl = "sgl",
    }

    /// The strategy that a parameter asks for.
    Chosen {
        /// The strategy that is fastest by the costs of the profile.
        Auto = "auto",
        /// A core copies the pieces: [`Strategy::Sp`].
        Sp = "sp",
        /// A list of WRITEs: [`Strategy::Doorbell`].
        Doorbell = "doorbell",
        /// The NIC gathers the pieces: [`Strategy::Sgl`].
        Sgl = "sgl",
    }
}

impl Chosen {
    /// The strategy; `None` for [`Chosen::Auto`].
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

/// Vector I/O calls for which a strategy has to be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorCalls {
    /// The clients. Their outstanding operations are calls.
    pub clients: Clients,
    /// Pieces of a call.
    pub iovcnt: u32,
    /// Bytes of a piece.
    pub piece: u32,
    /// Bytes up to which a WRITE is inline, if its pieces are copied or it has one piece.
    pub inline_bytes: u32,
}
