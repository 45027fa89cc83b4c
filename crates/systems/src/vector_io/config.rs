//! Parameters of vector I/O.

use crate::config::{Clients, Timing};
use crate::strategy::{Chosen, VectorCalls};
use doorbell_schema::{Field, schema};

/// Maximum number of pieces in a call.
const MOST_PIECES: u64 = 4096;
/// Maximum bytes of a call.
const LARGEST: u64 = 1 << 20;

schema! {
    /// Writes of many small pieces.
    pub struct VectorIo {
        groups {
            /// Clients, each a thread with a QP. Their outstanding operations are calls.
            clients: Clients,
            /// When the run measures.
            timing: Timing,
        }
        /// How the pieces of a call come together; auto is the fastest strategy by the costs of the profile.
        strategy: Chosen = Field::name(Chosen::NAMES),
        /// Pieces of a call, like iovcnt of writev(2).
        iovcnt: u32 = Field::count(1, MOST_PIECES),
        /// Bytes of a piece.
        piece: u32 = Field::bytes(1, LARGEST),
        /// Largest WRITE that is inline, in bytes, if its pieces are copied or it has one piece.
        inline_bytes: u32 = Field::bytes(0, 1024),
    }
}

impl VectorIo {
    /// The calls, without their strategy.
    pub fn calls(&self) -> VectorCalls {
        let VectorIo { iovcnt, piece, inline_bytes, .. } = *self;
        VectorCalls { clients: self.clients.clone(), iovcnt, piece, inline_bytes }
    }

    /// Bytes of a call.
    pub fn bytes(&self) -> u64 {
        u64::from(self.iovcnt) * u64::from(self.piece)
    }

    /// Returns one sentence if parameters do not go together.
    pub(super) fn refuse(&self) -> Result<(), String> {
        if self.bytes() > LARGEST {
            let VectorIo { iovcnt, piece, .. } = self;
            return Err(format!(
                "{iovcnt} pieces of {piece} bytes are {} bytes, but a call of vector-io has at most \
                 {LARGEST}",
                self.bytes()
            ));
        }
        Ok(())
    }
}
