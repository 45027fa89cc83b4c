//! Stands in for the module of `doorbell-soft` with the type of a piece of memory.

/// A piece of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) addr: u64,
    pub(crate) len: usize,
}
