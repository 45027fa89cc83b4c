//! Counts and latencies of each operation kind of a mix.

use doorbell_systems::{Latencies, Measurement};
use doorbell_verbs::{Span, Time};
use doorbell_workload::Resolved;
use std::sync::{Arc, Mutex, MutexGuard};

/// Operations of one kind that ended in the measured time.
#[derive(Clone, Debug, Default)]
pub struct OfKind {
    /// Number of completed operations; for SENDs, of received messages.
    pub completed: u64,
    /// Latencies of the timed operations.
    pub latency: Latencies,
}

/// Counts and latencies per kind, over all threads; empty without a mix. Clones share their data.
#[derive(Clone, Debug, Default)]
pub struct Tally(Option<Arc<Mutex<Vec<OfKind>>>>);

impl Tally {
    /// A tally with an empty entry for each item of the workload's mix.
    pub fn of(w: &Resolved) -> Tally {
        let of_items = || Arc::new(Mutex::new(vec![OfKind::default(); w.operations().len()]));
        Tally(w.is_mix().then(of_items))
    }

    fn of_kind<R>(&self, kind: usize, note: impl FnOnce(&mut OfKind) -> R) -> Option<R> {
        Some(note(lock(self.0.as_ref()?).get_mut(kind)?))
    }

    /// Counts an operation that completed now.
    pub(super) fn completed(&self, kind: usize, now: Time, measurement: &Measurement) {
        if self.0.is_some() && measurement.contains(now) {
            self.of_kind(kind, |all| all.completed += 1);
        }
    }

    /// Counts a message that was received in the measured time.
    pub(super) fn received(&self, kind: usize) {
        self.of_kind(kind, |all| all.completed += 1);
    }

    /// Records the latency of a timed operation that completed now.
    pub(super) fn took(&self, kind: usize, now: Time, latency: Span, measurement: &Measurement) {
        if self.0.is_some() && measurement.contains(now) {
            self.of_kind(kind, |all| all.latency.record(latency));
        }
    }

    /// Returns a copy of the entries of all kinds.
    pub fn all(&self) -> Vec<OfKind> {
        self.0.as_ref().map_or_else(Vec::new, |all| lock(all).clone())
    }
}

fn lock(all: &Mutex<Vec<OfKind>>) -> MutexGuard<'_, Vec<OfKind>> {
    all.lock().unwrap_or_else(|e| e.into_inner())
}
