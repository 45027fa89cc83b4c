//! Memory of the responder, accessed directly or through the service thread of its process.

use crate::fabric::link::{Link, Ticket};
use crate::memory::transfer::{self, Far, Piece, Unreachable};

/// The location of a region's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum FarMemory<'a> {
    /// This process can access them.
    Reached(Far),
    /// The thread of their own process accesses them on request.
    Served(&'a Link, ServedBytes),
}

/// The bytes of a region from `offset` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedBytes {
    pub(super) key: u32,
    pub(super) offset: u64,
}

impl FarMemory<'_> {
    /// Like [`transfer::write`]. The ticket names the work request.
    pub(super) fn write(self, pieces: &[Piece], ticket: impl FnOnce() -> Ticket) -> Result<(), Unreachable> {
        match self {
            FarMemory::Reached(far) => transfer::write(pieces, far),
            FarMemory::Served(link, ServedBytes { key, offset }) => link.write(ticket(), pieces, key, offset),
        }
    }

    /// Like [`transfer::read`]. The ticket names the work request.
    pub(super) fn read(self, pieces: &[Piece], ticket: impl FnOnce() -> Ticket) -> Result<(), Unreachable> {
        match self {
            FarMemory::Reached(far) => transfer::read(pieces, far),
            FarMemory::Served(link, ServedBytes { key, offset }) => link.read(ticket(), pieces, key, offset),
        }
    }
}
