//! Memory of the responder, accessed directly or through the service thread of its process.

use crate::fabric::link::{Link, ServedBytes, Ticket};
use crate::memory::copy::Piece;
use crate::memory::transfer::{self, Far, Unreachable};

/// The location of a region's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum FarMemory<'a> {
    /// This process can access the bytes.
    Reached(Far),
    /// The service thread of the responder's process accesses the bytes on request.
    Served(&'a Link, ServedBytes),
}

impl FarMemory<'_> {
    /// Writes the pieces to the responder's memory, like [`transfer::write`]. The ticket names the work
    /// request.
    pub(super) fn write(self, pieces: &[Piece], ticket: impl FnOnce() -> Ticket) -> Result<(), Unreachable> {
        match self {
            FarMemory::Reached(far) => transfer::write(pieces, far),
            FarMemory::Served(link, bytes) => link.write(ticket(), pieces, bytes),
        }
    }

    /// Reads the responder's memory into the pieces, like [`transfer::read`]. The ticket names the work
    /// request.
    pub(super) fn read(self, pieces: &[Piece], ticket: impl FnOnce() -> Ticket) -> Result<(), Unreachable> {
        match self {
            FarMemory::Reached(far) => transfer::read(pieces, far),
            FarMemory::Served(link, bytes) => link.read(ticket(), pieces, bytes),
        }
    }
}
