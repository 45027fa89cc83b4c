//! `doorbell cache`, and the messages of other commands about stored results.

use crate::args::{CacheArgs, CacheCommand};
use crate::exit::{self, Exit};
use doorbell_lab::{Size, Stored, Taken};
use doorbell_nic::counted;
use indicatif::{HumanBytes, HumanDuration};
use std::time::{Duration, SystemTime};

/// The store. `None` if the environment names neither a cache directory nor a home directory.
pub(crate) fn stored() -> Option<Stored> {
    Stored::usual_dir().map(Stored::new)
}

pub(crate) fn run(args: &CacheArgs) -> Result<(), Exit> {
    let none = "no directory for stored results: set DOORBELL_CACHE_DIR, XDG_CACHE_HOME or HOME";
    let stored = stored().ok_or_else(|| Exit::bad_input(none))?;
    let dir = stored.dir().display();
    let failed = |error| Exit::failed(format!("cannot use the stored results in {dir}: {error}"));
    let text = match args.command {
        Some(CacheCommand::Clear) => {
            format!("{dir}: removed {}\n", in_words(stored.clear().map_err(failed)?))
        }
        None => format!("{dir}: {}\n", in_words(stored.size().map_err(failed)?)),
    };
    exit::tell(&text)
}

fn in_words(size: Size) -> String {
    format!("{}, {}", counted(size.results, "result"), HumanBytes(size.bytes))
}

/// Prints on stderr how many stored results were damaged, so that their runs were repeated.
pub(crate) fn warn(taken: &Taken) {
    let whose = match taken.damaged {
        0 => return,
        1 => "1 stored result was damaged, so its run was".to_owned(),
        n => format!("{n} stored results were damaged, so their runs were"),
    };
    exit::say(&format!("doorbell: {whose} repeated"));
}

/// Prints a message on stderr if stored results were damaged, or if new results could not be stored.
pub(crate) fn say_failures(stored: &Stored) {
    let taken = stored.taken();
    warn(&taken);
    if let Some(failure) = &taken.failure {
        exit::say(&format!("doorbell: results could not be stored: {failure}"));
    }
}

/// Text for a report: the number and age of reused results, and a failure to store results.
pub(crate) fn told(taken: &Taken) -> String {
    let mut text = String::new();
    if let (Some(first), Some(last)) = (taken.first, taken.last) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ago = |at| HumanDuration(now.saturating_sub(Duration::from_secs(at))).to_string();
        let (first, last) = (ago(first), ago(last));
        let when = if first == last { format!("{first} ago") } else { format!("{first} to {last} ago") };
        let runs = if taken.runs == 1 { "1 run was".to_owned() } else { format!("{} runs were", taken.runs) };
        text += &format!(
            "\n{runs} not repeated, because the results are stored ({when}); --fresh repeats \
             them\n"
        );
    }
    if let Some(failure) = &taken.failure {
        text += &format!("\nResults could not be stored: {failure}\n");
    }
    text
}
