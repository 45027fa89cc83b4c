//! What a program posts and receives, counted by shape while it runs, where somebody wants to know.

pub(crate) mod qp;
mod tally;

use crate::sync::lock;
use qp::{QpCounts, RecvCounts};
use std::sync::{Mutex, OnceLock, Weak};

/// Name or file of the profile; counting is on where it is set.
pub(crate) const PROFILE_VARIABLE: &str = "DOORBELL_PROFILE";

/// What is counted.
pub(crate) trait Counting: std::fmt::Debug + Send + Sync {
    /// What it has posted and received, if that is counted.
    fn counts(&self) -> Option<QpCounts>;
}

/// What this process has counted.
static COUNTED: Mutex<Counted> = Mutex::new(Counted::NOTHING);

#[derive(Debug)]
struct Counted {
    /// The QPs that there are, and the counts of those that there were.
    live: Vec<Weak<dyn Counting>>,
    ended: Vec<QpCounts>,
    /// What was posted to SRQs.
    srq: Option<RecvCounts>,
}

impl Counted {
    const NOTHING: Counted = Counted { live: Vec::new(), ended: Vec::new(), srq: None };
}

/// The profile that the counts are wanted for.
pub(crate) fn profile_name() -> Option<&'static str> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    NAME.get_or_init(|| std::env::var(PROFILE_VARIABLE).ok().filter(|name| !name.is_empty())).as_deref()
}

/// Whether anything is to be counted.
pub(crate) fn wanted() -> bool {
    profile_name().is_some()
}

/// Has a new QP's counts told at the end.
pub(crate) fn watch(qp: Weak<dyn Counting>) {
    if wanted() {
        lock(&COUNTED).live.push(qp);
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

/// The counts of all QPs that there have been, and of what was posted to SRQs; they begin anew.
pub(crate) fn take() -> (Vec<QpCounts>, RecvCounts) {
    let Counted { live, ended: mut all, srq } = std::mem::replace(&mut *lock(&COUNTED), Counted::NOTHING);
    all.extend(live.iter().filter_map(Weak::upgrade).filter_map(|qp| qp.counts()));
    (all, srq.unwrap_or_default())
}
