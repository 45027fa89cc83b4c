//! What a program posts, counted, and what it would cost a given NIC: the paper's instrumented
//! driver (ATC'16, 3) for any program and any profile.
//!
//! Posts are counted by shape; when the process ends, `doorbell_nic`'s accounting turns the counts
//! into PCIe transactions.

mod count;
mod display;
mod report;
mod tally;
mod workload;

pub(crate) use count::{QpCounts, RecvCounts};
pub use report::Report;

use crate::qp::Qp;
use crate::sync::lock;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Name or file of the profile; counting is on where it is set.
pub(crate) const PROFILE_VARIABLE: &str = "DOORBELL_PROFILE";
/// 1 to print a summary when the process ends.
pub(crate) const PRINT_VARIABLE: &str = "DOORBELL_STATS";
/// File for the JSON.
pub(crate) const JSON_VARIABLE: &str = "DOORBELL_STATS_JSON";

/// What this process has counted.
static COUNTED: Mutex<Counted> = Mutex::new(Counted::NOTHING);

#[derive(Debug)]
struct Counted {
    /// The QPs that there are, and the counts of those that there were.
    live: Vec<Weak<Qp>>,
    ended: Vec<QpCounts>,
    /// What was posted to SRQs.
    srq: Option<RecvCounts>,
}

impl Counted {
    const NOTHING: Counted = Counted { live: Vec::new(), ended: Vec::new(), srq: None };
}

fn profile_name() -> Option<&'static str> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    NAME.get_or_init(|| std::env::var(PROFILE_VARIABLE).ok().filter(|name| !name.is_empty())).as_deref()
}

/// Whether anything is to be counted.
pub(crate) fn wanted() -> bool {
    profile_name().is_some()
}

/// Has a new QP's counts told at the end.
pub(crate) fn watch(qp: &Arc<Qp>) {
    if wanted() {
        lock(&COUNTED).live.push(Arc::downgrade(qp));
    }
}

/// Keeps the counts of a QP that ends.
pub(crate) fn keep(counts: QpCounts) {
    lock(&COUNTED).ended.push(counts);
}

/// A call has posted so many RECVs to an SRQ, of at most so many SGEs.
pub(crate) fn srq_posted(recvs: u32, sges: u32) {
    if wanted() && recvs > 0 {
        lock(&COUNTED).srq.get_or_insert_default().posted(recvs, sges);
    }
}

/// Leaves what a parent has counted to the parent: this process is a child of fork(2).
pub(crate) fn forget() {
    // Where another thread of the parent had the lock, nobody will ever give it back.
    if let Ok(mut counted) = COUNTED.try_lock() {
        // Its QPs are not destroyed here, as they are not this process's.
        std::mem::forget(std::mem::replace(&mut *counted, Counted::NOTHING));
    }
}

/// Tells what was counted, as the environment asks; the process ends.
pub(crate) fn tell() {
    let Some(name) = profile_name() else { return };
    let Counted { live, ended: mut all, srq } = std::mem::replace(&mut *lock(&COUNTED), Counted::NOTHING);
    all.extend(live.iter().filter_map(Weak::upgrade).filter_map(|qp| qp.counts()));
    if all.is_empty() {
        return;
    }
    let profile = match doorbell_nic::Profile::named_or_file(name) {
        Ok(profile) => profile,
        Err(error) => return eprintln!("doorbell: no statistics: {error}"),
    };
    let report = Report::new(name, &profile, &all, &srq.unwrap_or_default());
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
