//! Memory at the far side, of whichever kind.

use crate::fabric::link::{Link, Ticket};
use crate::memory::transfer::{self, Far, Piece, Unreachable};

/// Where bytes of a region are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    /// Where this process reaches them.
    Reached(Far),
    /// Where the thread of their own process does, which is asked.
    Served(&'a Link, Served),
}

/// Bytes of a region, from this one on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) key: u32,
    pub(super) offset: u64,
}

impl Target<'_> {
    /// [`transfer::write`], for this work request.
    pub(super) fn write(self, pieces: &[Piece], ticket: impl FnOnce() -> Ticket) -> Result<(), Unreachable> {
        match self {
            Target::Reached(far) => transfer::write(pieces, far),
            Target::Served(link, Served { key, offset }) => link.write(ticket(), pieces, key, offset),
        }
    }

    /// [`transfer::read`], for this work request.
    pub(super) fn read(self, pieces: &[Piece], ticket: impl FnOnce() -> Ticket) -> Result<(), Unreachable> {
        match self {
            Target::Reached(far) => transfer::read(pieces, far),
            Target::Served(link, Served { key, offset }) => link.read(ticket(), pieces, key, offset),
        }
    }
}
