//! Parameters of the system that uses a machine's own memory.

use crate::config::{OneByOne, Timing};
use crate::names::named;
use doorbell_schema::{Field, schema};

/// Maximum bytes of a piece, and of a client's memory.
const LARGEST: u32 = 1 << 20;
const LARGEST_REGION: u64 = 4 << 30;

named! {
    /// The access that an operation makes to its piece.
    Op {
        /// Loads the piece.
        Read = "read",
        /// Stores the piece.
        Write = "write",
    }

    /// The order in which operations access pieces.
    Addresses {
        /// Each piece follows the previous one in memory. The first piece follows the last one.
        Sequential = "sequential",
        /// Each piece is drawn.
        Random = "random",
        /// Each piece begins at a drawn byte.
        AnyByte = "any-byte",
    }
}

schema! {
    /// Loads and stores of a machine's own memory.
    pub struct LocalMemory {
        groups {
            /// Clients.
            clients: OneByOne<true>,
            /// When the run measures.
            timing: Timing,
        }
        /// Whether an operation reads its payload from memory or writes it there.
        op: Op = Field::name(Op::NAMES),
        /// Payload in bytes.
        size: u32 = Field::bytes(0, u32::MAX as u64),
        /// Addresses of operations in a region: its buffers one after the other, random buffers, or a random
        /// byte for each operation.
        addresses: Addresses = Field::name(Addresses::NAMES),
        /// Bytes of each client's memory, over which its operations go.
        region: u64 = Field::bytes(1, LARGEST_REGION),
        /// A core of the socket that has the client's buffers.
        memory_core: u32 = Field::count(0, 255),
    }
}

impl LocalMemory {
    /// Returns one sentence if parameters do not go together.
    pub(super) fn refuse(&self) -> Result<(), String> {
        let LocalMemory { size, region, .. } = *self;
        if !(1..=LARGEST).contains(&size) {
            return Err(format!("size is {size}, but an operation of local-memory has 1 to {LARGEST} bytes"));
        }
        if region < size.into() {
            return Err(format!("region is {region}, but one buffer takes {size} bytes"));
        }
        self.clients.refuse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::System;

    #[test]
    fn what_cannot_be_is_refused_in_one_sentence() {
        let usual = LocalMemory::usual();
        for (size, region, said) in [
            (0, 64, "size is 0, but an operation of local-memory has 1 to 1048576 bytes"),
            (65, 64, "region is 64, but one buffer takes 65 bytes"),
        ] {
            assert_eq!(LocalMemory { size, region, ..usual.clone() }.refuse().unwrap_err(), said);
        }
        assert!(LocalMemory { size: 64, region: 64, ..usual }.refuse().is_ok());
    }
}
