//! Runs a cluster until its measurement ends.

use crate::results::Shown;
use crate::watch::Watch;
use doorbell_programs::steady::{Course, Ending, Stop, Wanted};
use doorbell_sim::SimCluster;
use doorbell_systems::Measurement;

/// Runs a prepared cluster until its measurement ends, with a trace if the watcher wants one. Also returns
/// the course of the run.
pub(crate) fn steered<R, E>(
    cluster: &mut SimCluster,
    wanted: Wanted,
    measurement: &Measurement,
    stop: &Stop,
    watch: &dyn Watch,
    run: impl FnOnce(&mut SimCluster) -> Result<R, E>,
) -> (Result<R, E>, Course) {
    if let Some(tracing) = watch.trace() {
        cluster.trace(tracing);
    }
    let (first, ending, course) = Ending::new(wanted, stop.clone(), measurement.clone());
    cluster.steer(first, ending);
    let ended = run(cluster);
    if let Some(traced) = cluster.end_trace() {
        watch.traced(traced);
    }
    let course = course.lock().unwrap_or_else(|e| e.into_inner()).clone();
    (ended, course)
}

/// Shows the latencies of a run to a watcher that wants them, if the run has latencies to report.
pub(crate) fn show_latencies(watch: &dyn Watch, measurement: &Measurement, shown: &Shown) {
    if shown.latency.mean.is_some() && watch.wants_latencies() {
        let all = measurement.series().latency();
        let counts = all.iter_recorded().map(|at| (at.value_iterated_to(), at.count_since_last_iteration()));
        watch.latencies(counts.collect());
    }
}
