//! The launcher's explanations of a run: why its processes wait, and that no process opened the device.

use crate::counts::board::Board;
use crate::say::{is_quiet, say};
use crate::waits;
use libc::c_int;
use std::ffi::OsStr;

/// Explains a run on standard error.
#[derive(Debug)]
pub(super) struct Explainer {
    /// `None` if nothing is explained.
    board: Option<&'static Board>,
    /// Whether waits were explained already.
    is_said: bool,
}

impl Explainer {
    /// `board` is the run's board, if it has one. A `quiet` run explains nothing. Without the option, the
    /// environment may make a run quiet.
    pub(super) fn new(board: Option<&'static Board>, quiet: bool) -> Explainer {
        Explainer { board: board.filter(|_| !quiet && !is_quiet()), is_said: false }
    }

    /// Prints why the processes of the run wait, if this signal asks a program to end. Prints it only once,
    /// because a program may ignore several signals.
    pub(super) fn hears(&mut self, signal: c_int) {
        if let Some(board) = self.board
            && matches!(signal, libc::SIGINT | libc::SIGTERM)
            && !self.is_said
        {
            self.is_said = waits::say_all(board);
        }
    }

    /// Prints that the program has not opened the device, if no process of the run has.
    pub(super) fn ended(&self, program: &OsStr) {
        if self.board.is_some_and(|board| !board.is_opened()) {
            say(format_args!(
                "{} never opened the device: neither it nor a process that it started called \
                 ibv_open_device(3), or such a process runs in another PID namespace",
                program.display()
            ));
        }
    }
}

/// Records in an outer `doorbell run`, if there is one, that the device is used: the processes of this run
/// report to this launcher.
pub(super) fn tell_outer() {
    if let Some(board) = Board::of_waits() {
        board.set_opened();
    }
}
