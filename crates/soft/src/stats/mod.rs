//! What a program posts, counted, and what it would cost a given NIC: the paper's instrumented
//! driver (ATC'16, 3) for any program and any profile.
//!
//! Posts are counted by shape; when the process ends, `doorbell_nic`'s accounting turns the counts
//! into PCIe transactions.

mod count;
mod report;

pub(crate) use count::QpCounts;
pub use report::Report;

use crate::process::lock;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

/// Name or file of the profile; counting is on where it is set.
pub(crate) const PROFILE_VARIABLE: &str = "DOORBELL_PROFILE";
/// 1 to print a summary when the process ends.
pub(crate) const PRINT_VARIABLE: &str = "DOORBELL_STATS";
/// File for the JSON.
pub(crate) const JSON_VARIABLE: &str = "DOORBELL_STATS_JSON";

/// The counts of every QP that this process has had.
static ALL: Mutex<Vec<Arc<Mutex<QpCounts>>>> = Mutex::new(Vec::new());

fn profile_name() -> Option<&'static str> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    NAME.get_or_init(|| std::env::var(PROFILE_VARIABLE).ok().filter(|name| !name.is_empty())).as_deref()
}

/// Counts for a new QP, where counting is on.
pub(crate) fn counts(qp_num: u32, qp_type: doorbell_verbs::QpType) -> Option<Arc<Mutex<QpCounts>>> {
    profile_name()?;
    let counts = Arc::new(Mutex::new(QpCounts::new(qp_num, qp_type)));
    lock(&ALL).push(counts.clone());
    Some(counts)
}

/// Tells what was counted, as the environment asks; the process ends.
pub(crate) fn tell() {
    let Some(name) = profile_name() else { return };
    let all: Vec<QpCounts> = lock(&ALL).iter().map(|counts| lock(counts).clone()).collect();
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
