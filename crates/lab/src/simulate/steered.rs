//! Runs a cluster until its measurement ends.

use crate::results::Shown;
use crate::run_error::SimulateError;
use crate::watch::Watch;
use doorbell_programs::steady::{Course, Ended, Ending, Stop, Wanted};
use doorbell_sim::{SimCluster, SimConfig};
use doorbell_systems::Measurement;
use doorbell_verbs::RunError;

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

/// The configuration with which the set-up of the machines stops when the run must stop.
pub(crate) fn watched(config: SimConfig, stop: &Stop) -> SimConfig {
    SimConfig { interrupt: Some(stop.interrupt.clone()), deadline: stop.at, ..config }
}

/// The error of a run that had to stop before anything was measured.
pub(crate) fn stopped(stop: &Stop) -> SimulateError {
    match stop.reason() {
        Some(Ended::Interrupted) => RunError::Interrupted.into(),
        // The run's share of the time may be over before its whole time is.
        _ => SimulateError::OutOfTime,
    }
}

/// Shows the latencies of a run to a watcher that wants them, if the run has latencies to report.
pub(crate) fn show_latencies(watch: &dyn Watch, measurement: &Measurement, shown: &Shown) {
    if shown.latency.mean.is_some() && watch.wants_latencies() {
        let all = measurement.series().latency();
        let counts = all.iter_recorded().map(|at| (at.value_iterated_to(), at.count_since_last_iteration()));
        watch.latencies(counts.collect());
    }
}
