//! Memory at the far side, of whichever kind.

use crate::fabric::link::{Link, Ticket};
use crate::memory::transfer::{self, Far, Piece, Unreachable};

/// Where bytes of a region are.
#[derive(Clone, Copy, Debug)]
pub(super) enum FarMemory<'a> {
    /// Where this process reaches them.
    Reached(Far),
    /// Where the thread of their own process does, which is asked.
    Served(&'a Link, ServedBytes),
}

/// Bytes of a region, from this one on.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedBytes {
    pub(super) key: u32,
    pub(super) offset: u64,
}

impl FarMemory<'_> {
    /// [`transfer::write`], for this work request.
    pub(super) fn write(self, pieces: &[Piece], ticket: impl FnOnce() -> Ticket) -> Result<(), Unreachable> {
        match self {
            FarMemory::Reached(far) => transfer::write(pieces, far),
            FarMemory::Served(link, ServedBytes { key, offset }) => link.write(ticket(), pieces, key, offset),
        }
    }

    /// [`transfer::read`], for this work request.
    pub(super) fn read(self, pieces: &[Piece], ticket: impl FnOnce() -> Ticket) -> Result<(), Unreachable> {
        match self {
            FarMemory::Reached(far) => transfer::read(pieces, far),
            FarMemory::Served(link, ServedBytes { key, offset }) => link.read(ticket(), pieces, key, offset),
        }
    }
}
