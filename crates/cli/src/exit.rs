//! Exit codes and messages of the command.

use crate::screen;
use doorbell_lab::sweep::SweepError;
use doorbell_lab::uncertainty::UncertaintyError;
use doorbell_lab::{Duration, Ended, LoadError, MeasuredTime};
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// An end of the command other than success.
pub(crate) struct Exit {
    /// Exit code of the process.
    pub(crate) code: u8,
    /// One sentence for stderr.
    pub(crate) message: Option<String>,
}

impl Exit {
    /// Bad input: code 2.
    pub(crate) fn bad_input(error: impl ToString) -> Exit {
        Exit { code: 2, message: Some(error.to_string()) }
    }

    /// A failure that the input did not cause: code 1.
    pub(crate) fn failed(error: impl ToString) -> Exit {
        Exit { code: 1, message: Some(error.to_string()) }
    }

    /// The end after a simulation that returned no result.
    pub(crate) fn of_run(error: &doorbell_lab::SimulateError) -> Exit {
        match error {
            doorbell_lab::SimulateError::OutOfTime => Exit { code: 3, ..Exit::failed(error) },
            error if error.is_cut() => Exit {
                message: Some("interrupted: the run did not finish, so it has no result".into()),
                ..Exit::interrupted()
            },
            error if error.is_bad_input() => Exit::bad_input(error),
            error => Exit::failed(error),
        }
    }

    /// The end if an uncertainty could not be computed.
    pub(crate) fn of_uncertainty(error: &UncertaintyError) -> Exit {
        match error {
            UncertaintyError::Run(error) => Exit::of_run(error),
            UncertaintyError::Itself | UncertaintyError::Cut(_) => Exit::failed(error),
            UncertaintyError::Unknown(_) => Exit::bad_input(error),
        }
    }

    /// No operation completed: code 3.
    pub(crate) fn without_result(waits: &str, measured: &MeasuredTime) -> Exit {
        let MeasuredTime { warmup, duration, ended, .. } = measured;
        let (warmup, duration) = (in_words(*warmup), in_words(*duration));
        let (up_to, hint) = match ended {
            Ended::MaxTime => (", when --max-time was over", "; try a longer --max-time"),
            Ended::MaxWall => (", when --max-wall was over", "; try a longer --max-wall"),
            Ended::Interrupted => (", when the run was interrupted", ""),
            Ended::Duration | Ended::Settled | Ended::Overload => ("", "; try a longer --duration"),
        };
        let message =
            format!("no operation completed in {duration} after a warm-up of {warmup}{up_to}: {waits}{hint}");
        Exit { code: 3, message: Some(message) }
    }

    /// No operation completed in the measured time of a live run: code 3.
    pub(crate) fn without_operations() -> Exit {
        let message = "no operation completed in the measured time: try a longer --duration or --warmup";
        Exit { code: 3, message: Some(message.into()) }
    }

    /// Results differ from earlier results by more than the tolerance: code 4.
    pub(crate) fn beyond_tolerance(message: String) -> Exit {
        Exit { code: 4, message: Some(message) }
    }

    /// The end if a sweep or a comparison returned no result.
    pub(crate) fn of_sweep(error: SweepError) -> Exit {
        match error {
            SweepError::Load(error) => Exit::of_load(&error),
            error if error.is_bad_input() => Exit::bad_input(error),
            error => Exit::failed(error),
        }
    }

    /// The end if the capacity for a load is not known.
    pub(crate) fn of_load(error: &LoadError) -> Exit {
        match error {
            LoadError::Interrupted(_) => Exit { message: Some(error.to_string()), ..Exit::interrupted() },
            error if error.is_bad_input() => Exit::bad_input(error),
            error => Exit::failed(error),
        }
    }

    /// The wall-clock time was over before all results were known: code 1. `missing` says which are missing.
    pub(crate) fn out_of_time(max_wall: Duration, missing: &str) -> Exit {
        Exit::failed(format!("the wall-clock time was over (--max-wall {max_wall}): {missing}"))
    }

    /// Interrupted by Ctrl-C (code 130) or SIGTERM (code 143).
    pub(crate) fn interrupted() -> Exit {
        Exit { code: crate::signals::interrupted(), message: Some("interrupted".into()) }
    }
}

/// A time in whole microseconds, or in nanoseconds if it is shorter than a microsecond.
pub(crate) fn in_words(time: Duration) -> String {
    match time.span().as_ns() {
        0 => time.to_string(),
        ns @ 1..1000 => format!("{ns} ns"),
        ns => format!("{} us", ns / 1000),
    }
}

/// Largest number of characters in a word, and in a whole message. Nobody reads more.
const LONGEST_WORD: usize = 200;
const LONGEST: usize = 900;

/// Shortens a message that repeats user input at length. The middle of each long word is cut out. If the
/// message is still too long, its middle is cut out, too.
fn shortened(message: &str) -> String {
    let words =
        message.split_inclusive(char::is_whitespace).map(|word| without_middle(word, LONGEST_WORD, 60));
    without_middle(&words.collect::<String>(), LONGEST, LONGEST)
}

/// Puts a message on one line and escapes control characters, because names may contain any characters.
fn on_one_line(message: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    message.chars().map(shown).collect()
}

/// Shortens a text of more than `most` characters to about `left` characters from both ends.
fn without_middle(text: &str, most: usize, left: usize) -> String {
    let all = text.chars().count();
    if all <= most {
        return text.to_owned();
    }
    let (begins, ends) = (left * 2 / 3, left / 3);
    let first: String = text.chars().take(begins).collect();
    first + "..." + &text.chars().skip(all - ends).collect::<String>()
}

/// Prints a line to stderr. A failure to write is ignored, because there is nowhere else to report it.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Whether the reader of stdout has closed its pipe.
static UNREAD: AtomicBool = AtomicBool::new(false);

/// Prints to stdout. A closed pipe is not an error.
pub(crate) fn print(text: &str) -> Result<(), Exit> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => {
            UNREAD.store(true, Ordering::SeqCst);
            Ok(())
        }
        Err(e) => Err(Exit::failed(format!("cannot write output: {e}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints a text for people to stdout. In a terminal, its lines fit into the terminal's columns.
pub(crate) fn tell(text: &str) -> Result<(), Exit> {
    print(&screen::fit(text))
}

/// Whether output was printed after its reader had closed the pipe.
pub(crate) fn is_unread() -> bool {
    UNREAD.load(Ordering::SeqCst)
}

/// JSON that ends in a line feed.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Exit> {
    Ok(serde_json::to_string_pretty(value).map_err(Exit::failed)? + "\n")
}

pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Exit> {
    print(&json(value)?)
}

/// Returns an error if no operation completed. `waits` then says why.
pub(crate) fn completed(waits: Option<&str>, measured: &MeasuredTime) -> Result<(), Exit> {
    waits.map_or(Ok(()), |waits| Err(Exit::without_result(waits, measured)))
}

/// The error of the first end, or else of the second. If both are errors, prints the message of the second,
/// too.
pub(crate) fn both(first: Result<(), Exit>, second: Result<(), Exit>) -> Result<(), Exit> {
    match (first, second) {
        (Err(first), Err(Exit { message, .. })) => {
            message.iter().for_each(|message| say_message(message));
            Err(first)
        }
        (first, second) => first.and(second),
    }
}

/// Prints a message of the command to stderr, in one short line.
pub(crate) fn say_message(message: &str) {
    say(&format!("doorbell: {}", on_one_line(&shortened(message))));
}

/// Returns an error if the run was interrupted.
pub(crate) fn stopped(interrupt: &AtomicBool) -> Result<(), Exit> {
    let stopped = interrupt.load(Ordering::Relaxed);
    if stopped { Err(Exit::interrupted()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_of_one_line() {
        assert_eq!(on_one_line("no profile a\nb\u{1b}[2Jü"), "no profile a\\nb\\u{1b}[2Jü");
    }

    #[test]
    fn messages_stay_short() {
        let usual = "w.toml:3: verb is `sned`, but must be send or write";
        assert_eq!(shortened(usual), usual);
        let long = shortened(&format!("w.toml:3: verb is `{}`, but must be send\n", "ü".repeat(5000)));
        assert!(
            long.starts_with("w.toml:3: verb is `üüü") && long.ends_with("üüü`, but must be send\n"),
            "{long}"
        );
        assert!(long.chars().count() < 120, "{long}");
        let words = shortened(&"word ".repeat(5000));
        assert!(words.chars().count() <= 903 && words.starts_with("word word"), "{words}");
    }
}
