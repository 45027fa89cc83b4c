//! Computes the cost of a program's posts on a given NIC, and reports it. This replaces the instrumented
//! driver of the paper (ATC'16, section 3), for any program and any profile.
//!
//! When a process exits, `doorbell_nic::accounting` turns its counts into PCIe transactions. The process does
//! this itself in exit(3). After any other end, the launcher does it.

#[cfg(test)]
mod attributes;
mod display;
mod posting;
#[cfg(test)]
mod posts;
mod report;
mod together;
mod workload;

pub use report::Report;
pub use together::Together;

use crate::counts::process::ProcessCounts;
use crate::say::say;
use crate::variables;
use doorbell_nic::{Profile, ProfileError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

const NO_ROOM: &str = "no statistics: the program has made more posts than Doorbell can count";

/// Options for counting a program's posts.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Name or file of the profile of the NIC for which PCIe transactions are reported.
    pub profile: String,
    /// Whether a summary is printed when the program exits.
    pub print: bool,
    /// File for the JSON of the program's only process. With several processes, the file describes them
    /// together, and each process has a further file, with its PID before the extension.
    pub json: Option<PathBuf>,
    /// Whether there is only one report, about all processes together, both printed and in the file.
    pub as_one: bool,
}

impl Stats {
    /// Sets the environment variables that make a program count.
    pub(crate) fn set(&self, command: &mut Command) -> Result<(), ProfileError> {
        // A bad profile is an error now, before the program runs, and not when it exits.
        Profile::named_or_file(&self.profile)?;
        command.env(variables::PROFILE, &self.profile);
        if self.as_one {
            command.env_remove(variables::STATS).env_remove(variables::STATS_JSON);
        } else if self.print {
            command.env(variables::STATS, "1");
        }
        if let Some(path) = &self.json {
            // `write_json` replaces no file, so a file of an earlier run would keep its name.
            let _ = std::fs::remove_file(path);
            if !self.as_one {
                command.env(variables::STATS_JSON, std::path::absolute(path).unwrap_or(path.clone()));
            }
        }
        Ok(())
    }

    /// The options in this process's environment. `None` if the process does not count.
    pub fn of_environment() -> Option<Stats> {
        let profile = std::env::var(variables::PROFILE).ok()?;
        let print = std::env::var_os(variables::STATS).is_some_and(|value| value == "1");
        let json = std::env::var_os(variables::STATS_JSON).map(PathBuf::from);
        Some(Stats { profile, print, json, as_one: false })
    }

    /// Reports the counts of a process, and marks them as reported.
    pub fn tell(&self, counts: &ProcessCounts<'_>) {
        if counts.is_incomplete() {
            return say(NO_ROOM);
        }
        let profile = match Profile::named_or_file(&self.profile) {
            Ok(profile) => profile,
            Err(error) => return say(format_args!("no statistics: {error}")),
        };
        let report = Report::new(&self.profile, &profile, counts);
        if self.print {
            // On standard error, so that the program's standard output stays unchanged.
            eprint!("{report}");
        }
        if let Some(path) = &self.json
            && let Err(error) = write_json(path, counts.pid(), &report)
        {
            say(format_args!("cannot write {}: {error}", path.display()));
        }
        counts.set_told();
    }
}

impl Stats {
    /// Reports the counts of a run's processes together. If fewer than two processes have QPs, a process is
    /// reported here only with `as_one`. Without `as_one`, it already has a report of its own.
    pub(crate) fn tell_together(&self, all: &[ProcessCounts<'_>]) {
        if all.iter().any(ProcessCounts::is_incomplete) {
            if self.as_one {
                say(NO_ROOM);
            }
            return;
        }
        let Ok(profile) = Profile::named_or_file(&self.profile) else { return };
        let Some(together) = Together::new(&self.profile, &profile, all) else {
            let only = all.iter().filter(|counts| self.as_one && counts.has_any());
            return only.for_each(|counts| self.tell(counts));
        };
        if self.print {
            eprint!("{together}");
        }
        if let Some(path) = &self.json
            && let Err(error) = put_beside(path).and_then(|()| replace_json(path, &together))
        {
            say(format_args!("cannot write {}: {error}", path.display()));
        }
    }
}

/// Checks that a file with this path can be created or replaced.
pub(crate) fn check_place(path: &Path) -> std::io::Result<()> {
    if path.file_name().is_none() {
        return Err(std::io::Error::other("the path does not end with the name of a file"));
    }
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(std::io::Error::other("it exists and is not a regular file"));
    }
    tempfile::tempfile_in(directory_of(path)).map(drop)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A new temporary file in the folder of `path`.
fn unnamed(path: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().permissions(readable()).tempfile_in(directory_of(path))
}

/// A temporary file with this JSON. It gets its final name when it is complete, because the writer may be
/// killed.
fn written(path: &Path, report: &impl serde::Serialize) -> std::io::Result<tempfile::NamedTempFile> {
    let mut file = unnamed(path)?;
    serde_json::to_writer_pretty(&mut file, report)?;
    file.write_all(b"\n")?;
    Ok(file)
}

/// Writes the JSON to `path`, and replaces an existing file.
fn replace_json(path: &Path, report: &impl serde::Serialize) -> std::io::Result<()> {
    written(path, report)?.persist(path).map(drop).map_err(|error| error.error)
}

/// Writes the JSON to `path`. If another process has written that file already, writes another file beside
/// it.
fn write_json(path: &Path, pid: u32, report: &Report) -> std::io::Result<()> {
    let file = written(path, report)?;
    match file.persist_noclobber(path) {
        Err(taken) if taken.error.kind() == ErrorKind::AlreadyExists => name_beside(taken.file, path, pid),
        other => other.map(drop).map_err(|error| error.error),
    }
}

/// Gives a process's file the first name of `beside` that is free.
fn name_beside(mut file: tempfile::NamedTempFile, path: &Path, pid: u32) -> std::io::Result<()> {
    let mut names = (1..).map(|nth| beside(path, pid, nth));
    loop {
        let name = names.next().expect("there is no end of them");
        match file.persist_noclobber(name) {
            Err(taken) if taken.error.kind() == ErrorKind::AlreadyExists => file = taken.file,
            other => return other.map(drop).map_err(|error| error.error),
        }
    }
}

/// Copies the report of the first process to another file, because `path` will have the report of all
/// processes.
fn put_beside(path: &Path) -> std::io::Result<()> {
    let text = match std::fs::read(path) {
        Err(none) if none.kind() == ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    let report: serde_json::Value = serde_json::from_slice(&text)?;
    let pid = report["pid"].as_u64().unwrap_or_default() as u32;
    let mut copy = unnamed(path)?;
    copy.write_all(&text)?;
    name_beside(copy, path, pid)
}

/// The permissions of a new file, before the process's umask is applied.
fn readable() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

/// The name for the file of a further process. Its PID goes before the extension. From a process's second
/// file on, `nth` follows the PID. A process has several files if it becomes another program (execve(2)).
fn beside(path: &Path, pid: u32, nth: u32) -> PathBuf {
    let part = if nth == 1 { pid.to_string() } else { format!("{pid}-{nth}") };
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(&part);
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
            assert_eq!(beside(Path::new(path), 7, 1), Path::new(expected));
        }
        assert_eq!(beside(Path::new("/a/s.json"), 7, 2), Path::new("/a/s.7-2.json"));
    }
}
