//! The launcher's explanations of a run: why its processes wait, and that no process opened the device.

use super::run_board::RunBoard;
use super::signals;
use crate::counts::board::Board;
use crate::say::{is_quiet, say};
use crate::{variables, waits};
use libc::{c_int, sigset_t};
use std::ffi::OsStr;

/// Explains a run on standard error.
#[derive(Debug)]
pub(super) struct Explainer {
    /// The run's board and its address. `None` if nothing is explained.
    board: Option<(&'static Board, String)>,
    /// The signals that this process has not ignored since its start.
    heeded: sigset_t,
    /// The lines that [`Explainer::say`] prints.
    due: Vec<String>,
    /// Whether waits were explained already.
    is_done: bool,
}

impl Explainer {
    /// `board` is the run's board, if it has one. A `quiet` run explains nothing. Without the option, the
    /// environment may make a run quiet.
    pub(super) fn new(board: Option<&RunBoard>, quiet: bool) -> Explainer {
        let board = board.filter(|_| !quiet && !is_quiet()).map(|made| (made.board, made.address.clone()));
        Explainer { board, heeded: signals::heeded(), due: Vec::new(), is_done: false }
    }

    /// Reads why the processes of the run wait, if this signal asks a program to end. Called before the
    /// signal is passed on, because the processes may exit then. Reads the waits only once, because a program
    /// may handle several signals.
    pub(super) fn hears(&mut self, signal: c_int) {
        if let Some((board, _)) = self.board
            && matches!(signal, libc::SIGINT | libc::SIGTERM)
            && (signals::has(&self.heeded, signal) || crate::say::broken("w-ignored"))
            && !self.is_done
        {
            self.due = waits::lines(board);
            self.is_done = !self.due.is_empty() && !crate::say::broken("w-twice");
            if crate::say::broken("w-say") { self.say(); }
        }
    }

    /// Prints what [`Explainer::hears`] has read. Called after the signal was passed on, because nobody may
    /// read from standard error, and then the call does not return.
    pub(super) fn say(&mut self) {
        self.due.drain(..).for_each(say);
    }

    /// Prints that the program has not opened the device, if no process of the run has, and none can any
    /// more.
    pub(super) fn ended(&self, program: &OsStr) {
        if let Some((board, address)) = &self.board
            && !board.is_opened()
            && !has_process(address)
        {
            say(format_args!(
                "{} never opened the device: neither it nor a process that it started called \
                 ibv_open_device(3), or such a process belongs to another user, has fewer capabilities, or \
                 is in another namespace",
                program.display()
            ));
        }
    }
}

/// Whether a process lives whose environment has this address of a board. For example, the program has left a
/// daemon behind. A process whose environment is hidden from this process is not found.
fn has_process(address: &str) -> bool {
    let wanted = format!("{}={address}", variables::WAITS);
    let is_of_run =
        |environment: Vec<u8>| environment.split(|byte| *byte == 0).any(|v| v == wanted.as_bytes());
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .map(|process| std::fs::read(process.path().join("environ")))
        .any(|read| read.is_ok_and(is_of_run))
}

/// Records in an outer `doorbell run`, if there is one, that the device is used: the processes of this run
/// report to this launcher.
pub(super) fn tell_outer() {
    if let Some(board) = Board::of_waits() {
        board.set_opened();
    }
}
