//! What a program posts, counted, and what it would cost a given NIC: the paper's instrumented
//! driver (ATC'16, 3) for any program and any profile.
//!
//! When the process ends, `doorbell_nic`'s accounting turns its counts into PCIe transactions.

mod display;
mod posting;
mod report;
mod workload;

pub use report::Report;

use crate::counts;
use std::io::Write;
use std::path::{Path, PathBuf};

/// 1 to print a summary when the process ends.
pub(crate) const PRINT_VARIABLE: &str = "DOORBELL_STATS";
/// File for the JSON.
pub(crate) const JSON_VARIABLE: &str = "DOORBELL_STATS_JSON";

/// Has what is counted told when the process ends, and left to the parent where it forks.
pub(crate) fn tell_at_exit() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: functions of this library, which is never unloaded.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
            libc::atexit(tell);
        }
    });
}

extern "C" fn in_child() {
    counts::forget();
}

/// Tells what was counted, as the environment asks; the process ends.
extern "C" fn tell() {
    let Some(name) = counts::profile_name() else { return };
    let (all, srq) = counts::take();
    if all.is_empty() {
        return;
    }
    let profile = match doorbell_nic::Profile::named_or_file(name) {
        Ok(profile) => profile,
        Err(error) => return eprintln!("doorbell: no statistics: {error}"),
    };
    let report = Report::new(name, &profile, &all, &srq);
    if std::env::var_os(PRINT_VARIABLE).is_some_and(|value| value == "1") {
        // Behind what the program has printed; its own output stays as it is.
        eprint!("{report}");
    }
    if let Some(path) = std::env::var_os(JSON_VARIABLE) {
        let path = PathBuf::from(path);
        if let Err(error) = write_json(&path, &report) {
            eprintln!("doorbell: cannot write {}: {error}", path.display());
        }
    }
}

/// Writes to the file, or where another process has written it already, beside it.
fn write_json(path: &Path, report: &Report) -> std::io::Result<()> {
    let create = |path: &Path| std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            create(&beside(path, std::process::id()))?
        }
        opened => opened?,
    };
    serde_json::to_writer_pretty(&mut file, report)?;
    file.write_all(b"\n")
}

/// The name for the file of a further process: its number goes before the extension.
fn beside(path: &Path, pid: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{pid}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_further_processes_keep_their_extension() {
        for (path, expected) in
            [("/a/s.json", "/a/s.7.json"), ("s", "s.7"), ("a.b/s.x.json", "a.b/s.x.7.json")]
        {
            assert_eq!(beside(Path::new(path), 7), Path::new(expected));
        }
    }
}
