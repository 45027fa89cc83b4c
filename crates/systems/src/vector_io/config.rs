//! Parameters of vector I/O.

use crate::config::{Clients, Timing, named};
use doorbell_schema::{Field, schema};

/// Pieces of a call at most.
const MOST_PIECES: u64 = 4096;
/// Bytes of a call at most.
const LARGEST: u64 = 1 << 20;

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
}

schema! {
    /// Writes of many small pieces.
    pub struct VectorIo {
        groups {
            /// Clients, each a thread with a QP; what they have outstanding are calls.
            clients: Clients,
            /// What is measured.
            timing: Timing,
        }
        /// How the pieces of a call come together.
        strategy: Strategy = Field::name(Strategy::NAMES),
        /// Pieces of a call, as iovcnt of writev(2).
        iovcnt: u32 = Field::count(1, MOST_PIECES),
        /// Bytes of a piece.
        piece: u32 = Field::bytes(1, LARGEST),
        /// Bytes up to which a WRITE is inline, where its pieces are copied or single.
        inline_bytes: u32 = Field::bytes(0, 1024),
    }
}

impl VectorIo {
    /// Bytes of a call.
    pub fn bytes(&self) -> u64 {
        u64::from(self.iovcnt) * u64::from(self.piece)
    }

    /// What does not go together: one sentence.
    pub(super) fn refuse(&self) -> Result<(), String> {
        if self.bytes() > LARGEST {
            let VectorIo { iovcnt, piece, .. } = self;
            return Err(format!(
                "{iovcnt} pieces of {piece} bytes are {} bytes, but a call of vector-io has at most {LARGEST}",
                self.bytes()
            ));
        }
        Ok(())
    }
}
