//! The board on which the processes of a run record counts and waits.

use crate::counts::board::Board;
use std::fs::File;
use std::io;

/// The board of a run, and its file.
#[derive(Debug)]
pub(super) struct RunBoard {
    /// The file stays open, because the processes of the run open it by its descriptor here.
    pub(super) file: File,
    pub(super) board: &'static Board,
    /// The address by which the processes find the file.
    pub(super) address: String,
}

impl RunBoard {
    /// Creates the board.
    ///
    /// # Errors
    /// If the board cannot be created, or /proc does not show this process.
    pub(super) fn create() -> io::Result<RunBoard> {
        let (file, board) = Board::create()?;
        let address = Board::address(&file);
        let address = address.ok_or_else(|| io::Error::other("/proc does not show the launcher"))?;
        Ok(RunBoard { file, board, address })
    }
}
