//! How the command ends.

use std::io::{ErrorKind, Write};

/// An end other than success.
pub(crate) struct Exit {
    /// Exit code.
    pub(crate) code: u8,
    /// One sentence for stderr.
    pub(crate) message: Option<String>,
}

impl Exit {
    /// Bad input: code 2.
    pub(crate) fn bad_input(error: impl ToString) -> Exit {
        Exit { code: 2, message: Some(error.to_string()) }
    }

    /// Something failed that the input is not to blame for: code 1.
    pub(crate) fn failed(error: impl ToString) -> Exit {
        Exit { code: 1, message: Some(error.to_string()) }
    }

    /// A simulation that gave nothing.
    pub(crate) fn of_run(error: &doorbell_lab::SimulateError) -> Exit {
        match error {
            error if error.is_interrupt() => Exit::interrupted(),
            error if error.is_bad_input() => Exit::bad_input(error),
            error => Exit::failed(error),
        }
    }

    /// Stopped by Ctrl-C: code 130, as shells have it.
    pub(crate) fn interrupted() -> Exit {
        Exit { code: 130, message: Some("interrupted".into()) }
    }
}

/// Prints to stdout. A reader that has gone away is no failure.
pub(crate) fn print(text: &str) -> Result<(), Exit> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Exit::failed(format!("cannot write output: {e}"))),
        _ => Ok(()),
    }
}

/// Prints `value` as JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Exit> {
    let json = serde_json::to_string_pretty(value).map_err(Exit::failed)?;
    print(&(json + "\n"))
}
