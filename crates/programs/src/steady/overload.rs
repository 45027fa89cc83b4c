//! Detects overload: an open loop in which operations become due faster than they complete.
//!
//! The rate at which operations are due is known exactly. If fewer complete, each operation waits longer than
//! the one before it: in a time t, latencies grow by t times the missing share of the rate. A short run shows
//! both signs long before its backlog exceeds the operations that may be outstanding. Neither sign suffices
//! alone. In a stable queue, few operations may be due by chance, but then they do not wait longer. Latencies
//! may grow for a while, but then the queue completes as many operations as are due.

use super::ending::Wanted;
use super::means::Means;
use crate::worker::Due;
use doorbell_systems::Measurement;
use doorbell_systems::series::{Batch, CompletionSeries};
use doorbell_verbs::{Span, Time};

/// The rate must be below the due rate by more than this many half-widths of its interval.
const APART: f64 = 2.0;

/// Latencies must grow at least at this share of the pace that the missing rate implies.
const PACE: f64 = 0.5;

/// A backlog of this many standard deviations of a Poisson process does not come by chance.
const BY_CHANCE: f64 = 5.0;

impl Wanted {
    /// The due operations that complete too slowly, judged by all observations until `until`: the operations
    /// of a class, or of all threads. The rate and the latency of a settled run are known, so all threads
    /// together do not fall behind in such a run.
    pub fn overload(&self, measurement: &Measurement, until: Time, is_settled: bool) -> Option<&Due> {
        self.due.iter().find(|due| match is_settled && due.class.is_none() {
            true => observed(due, measurement, until).is_some_and(|seen| is_far_behind(due, &seen)),
            false => is_overload(due, measurement, until),
        })
    }

    /// The due operations whose overload is so certain that the run may end. During the warm-up, cold caches
    /// may complete too few operations for a while, so a small backlog does not count.
    pub(super) fn sure_overload(&self, measurement: &Measurement, now: Time, is_warm: bool) -> Option<&Due> {
        self.due.iter().find(|due| {
            let Some(seen) = observed(due, measurement, now) else { return false };
            is_far_behind(due, &seen)
                || is_warm && late(due, &seen) > most_by_chance(due, &seen) && falls_behind(due, &seen)
        })
    }
}

/// Whether operations of `due` complete more slowly than they become due, judged by the observations until
/// `until`.
pub fn is_overload(due: &Due, measurement: &Measurement, until: Time) -> bool {
    observed(due, measurement, until)
        .is_some_and(|seen| is_far_behind(due, &seen) || falls_behind(due, &seen))
}

/// Whether more operations are late than may be outstanding, or by chance.
fn is_far_behind(due: &Due, seen: &CompletionSeries) -> bool {
    late(due, seen) > due.under_way as f64 + most_by_chance(due, seen)
}

/// Observations of the threads whose operations are due, until `until`.
pub fn observed(due: &Due, measurement: &Measurement, until: Time) -> Option<CompletionSeries> {
    match &due.class {
        None => Some(measurement.series().until(until)),
        Some((number, _)) => Some(measurement.series_of(*number)?.until(until)),
    }
}

/// Operations that are due on average in the observed time.
fn expected(due: &Due, seen: &CompletionSeries) -> f64 {
    due.within(Span::from_ps(seen.length() * seen.batches().len() as u64))
}

/// Operations by which completions are behind the operations that are due on average.
fn late(due: &Due, seen: &CompletionSeries) -> f64 {
    expected(due, seen) - Batch::all(seen.batches()).completed as f64
}

/// Operations that may be late by chance.
fn most_by_chance(due: &Due, seen: &CompletionSeries) -> f64 {
    BY_CHANCE * expected(due, seen).sqrt()
}

/// Whether the last half of the observations shows both signs of an overload: a rate below the due rate, and
/// latencies that grow accordingly. The first half may contain the filling of queues.
fn falls_behind(due: &Due, seen: &CompletionSeries) -> bool {
    let (_, last) = seen.batches().split_at(seen.batches().len() / 2);
    missing(due, last, seen.length())
        .is_some_and(|missing| grows_by(last, seen.length()).is_some_and(|pace| pace > PACE * missing))
}

/// Whether the observations until `until` show the first sign of an overload. After a warm-up that ended with
/// an overload, this sign suffices: if no more operations may be outstanding, latencies may grow slowly.
pub fn lacks_operations(due: &Due, measurement: &Measurement, until: Time) -> bool {
    observed(due, measurement, until)
        .is_some_and(|seen| missing(due, seen.batches(), seen.length()).is_some())
}

/// The share of the due operations that do not complete; `None` if they may be missing by chance.
fn missing(due: &Due, batches: &[Batch], length: u64) -> Option<f64> {
    let rate = Means::of(batches, length)?.rate;
    let due = due.rate as f64 / 1e12;
    let missing = due - rate.mean;
    (missing > APART * rate.half).then_some(missing / due)
}

/// Growth of the mean latency from the first half of these batches to the second half, divided by the time
/// between the middles of the halves; `None` if no operation was timed in one half.
fn grows_by(batches: &[Batch], length: u64) -> Option<f64> {
    let (before, after) = batches.split_at(batches.len() / 2);
    let mean = |batches: &[Batch]| {
        let all = Batch::all(batches);
        (all.timed > 0).then(|| all.latency as f64 / all.timed as f64)
    };
    let apart = batches.len() as f64 / 2.0 * length as f64;
    Some((mean(after)? - mean(before)?) / apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steady::tests::queue;

    /// Due operations of the queue, one per 1000 ps. So many may be outstanding that the backlog alone never
    /// shows the overload.
    const DUE: Due = Due { class: None, rate: 1_000_000_000, under_way: 1 << 40 };

    /// Number of 100 seeds in which the queue with this load falls behind within `arrivals` arrivals.
    fn behind(load: f64, arrivals: f64) -> usize {
        let seen = |seed| queue(seed, 1000.0, load * 1000.0, arrivals * 1000.0);
        (0..100).filter(|seed| falls_behind(&DUE, &seen(*seed))).count()
    }

    #[test]
    fn a_queue_above_its_capacity_falls_behind() {
        for (load, arrivals) in [(1.2, 10_000.0), (1.1, 20_000.0), (1.05, 160_000.0)] {
            let found = behind(load, arrivals);
            assert!(found >= 95, "{load}: {found} of 100");
        }
    }

    #[test]
    fn a_stable_queue_does_not_fall_behind() {
        let mut all = 0;
        for load in [0.1, 0.5, 0.8, 0.9, 0.95, 0.98] {
            for arrivals in [100.0, 300.0, 500.0, 5_000.0, 50_000.0] {
                let found = behind(load, arrivals);
                assert!(found <= 1, "{load}, {arrivals} arrivals: {found} of 100");
                all += found;
            }
        }
        // At this bound, one of 50 sweeps with 20 points shows a false overload.
        assert!(all <= 3, "{all} of 3000");
    }

    #[test]
    fn few_operations_by_chance_are_no_overload() {
        // 10% of the operations are missing, but latencies stay equal.
        let mut series = CompletionSeries::new(Time::START, 10, true);
        (0..20_000u64)
            .filter(|n| n % 10 > 0)
            .for_each(|n| series.add(crate::steady::tests::seen(n * 1000, 1, Some(500))));
        assert!(!falls_behind(&DUE, &series.until(Time::from_ps(20_000_000))));
    }
}
