//! What a program posts, counted, and what it would cost a given NIC: the paper's instrumented
//! driver (ATC'16, 3) for any program and any profile.
//!
//! Posts are counted by shape; when the process ends, `doorbell_nic`'s accounting turns the counts
//! into PCIe transactions.

mod count;
mod report;

pub(crate) use count::{QpCounts, RecvCounts};
pub use report::Report;

use crate::process::lock;
use crate::qp::Qp;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Name or file of the profile; counting is on where it is set.
pub(crate) const PROFILE_VARIABLE: &str = "DOORBELL_PROFILE";
/// 1 to print a summary when the process ends.
pub(crate) const PRINT_VARIABLE: &str = "DOORBELL_STATS";
/// File for the JSON.
pub(crate) const JSON_VARIABLE: &str = "DOORBELL_STATS_JSON";

/// The QPs that there are, and the counts of those that there were.
static LIVE: Mutex<Vec<Weak<Qp>>> = Mutex::new(Vec::new());
static ENDED: Mutex<Vec<QpCounts>> = Mutex::new(Vec::new());

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
        lock(&LIVE).push(Arc::downgrade(qp));
    }
}

/// Keeps the counts of a QP that ends.
pub(crate) fn keep(counts: QpCounts) {
    lock(&ENDED).push(counts);
}

/// Tells what was counted, as the environment asks; the process ends.
pub(crate) fn tell() {
    let Some(name) = profile_name() else { return };
    let live = lock(&LIVE).iter().filter_map(Weak::upgrade).filter_map(|qp| qp.counts()).collect();
    let all: Vec<QpCounts> = [std::mem::take(&mut *lock(&ENDED)), live].concat();
    if all.is_empty() {
        return;
    }
    let profile = match doorbell_nic::Profile::named_or_file(name) {
        Ok(profile) => profile,
        Err(error) => return eprintln!("doorbell: no statistics: {error}"),
    };
    let report = Report::new(name, &profile, &all);
    if std::env::var_os(PRINT_VARIABLE).is_some_and(|value| value == "1") {
        // Behind what the program has printed; its own output stays as it is.
        eprint!("{report}");
    }
    if let Some(path) = std::env::var_os(JSON_VARIABLE) {
        let path = PathBuf::from(path);
        if let Err(error) = write_json(path.clone(), &report) {
            eprintln!("doorbell: cannot write {}: {error}", path.display());
        }
    }
}

/// Writes to the file, or where another process has written it already, beside it.
fn write_json(path: PathBuf, report: &Report) -> std::io::Result<()> {
    let mut beside = path.clone().into_os_string();
    beside.push(format!(".{}", std::process::id()));
    let create = |path: PathBuf| std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => create(beside.into())?,
        opened => opened?,
    };
    serde_json::to_writer_pretty(&mut file, report)?;
    file.write_all(b"\n")
}
