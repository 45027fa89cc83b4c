//! Other runs of ATC'16's authors on its clusters (`papers/rc-swarm.toml`): measurements, not claims.

use super::atc16::{atomics, sequencer};
use super::sets;
use crate::data::measurements::{AllToAll, Design, Measurement, What};
use crate::experiment::{Ctx, Experiment, Findings, Runs, setting};
use doorbell_lab::NotYet;
use doorbell_schema::Duration;
use doorbell_verbs::{QpType, Span};
use doorbell_workload::{Addresses, Pattern, Verb, Workload};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "runs",
    paper: "rc-swarm",
    title: "other runs on the clusters of ATC'16: measurements, neither claims nor predictions",
    claims: &[],
    runs: Runs::Verbs,
    run,
};

/// Bytes of the region at each end. Operations start at any byte of it.
const REGION: u64 = 2 << 20;

/// All-to-all traffic as rc-swarm generates it. At both ends, operations start at any byte of 2 MB. Each QP
/// has a CQ, and each post is one signalled WQE. WRITEs are inline, so they need no memory at the requester.
fn all_to_all(cluster: &str, of: AllToAll) -> Workload {
    let AllToAll { verb, machines, threads, qps, size, window } = of;
    // On cx3 nearly every operation waits for a QP context, so few operations complete.
    let span = |us| Some(Duration::new(Span::from_us(us)));
    let (warmup, duration) = if cluster == "cx3" { (500, 2000) } else { (100, 400) };
    Workload {
        verb: Some(verb),
        transport: Some(QpType::Rc),
        size: Some(size),
        pattern: Some(Pattern::AllToAll),
        machines: Some(machines),
        threads: Some(threads),
        qps: Some(qps),
        window: Some(window),
        batch: Some(1),
        signal_every: Some(1),
        cq_per_qp: Some(true),
        inline: (verb == Verb::Write).then_some(true),
        local_region: (verb == Verb::Read).then_some(REGION),
        remote_region: Some(REGION),
        addresses: Some(Addresses::AnyByte),
        warmup: span(warmup),
        duration: span(duration),
        ..Workload::default()
    }
}

/// Simulated rate in millions per second, and the settings that the measurement does not state. `None` if
/// this experiment does not run the measurement.
pub(super) fn found(ctx: &Ctx<'_>, m: &Measurement) -> Result<Option<(f64, String)>, NotYet> {
    let what = format!("rc-swarm: {}", m.id);
    let of_verbs = |workload: Workload, machines: f64| {
        let outcome = &ctx.measure(&m.cluster, &what, &[workload])?[0];
        Ok(Some((outcome.mops / machines, String::new())))
    };
    match &m.what {
        What::AllToAll(of) => of_verbs(all_to_all(&m.cluster, *of), f64::from(of.machines)),
        What::Atomics => of_verbs(atomics(ctx.profile(&m.cluster), 1, 8), 1.0),
        What::Sequencer { design, cores } => {
            let (batching, queues) = match design {
                Design::Baseline => (false, false),
                Design::Batching => (true, false),
                Design::MultiQueue => (true, true),
            };
            let outcome = &ctx.systems(&m.cluster, &what, &[sequencer(*cores, batching, queues).into()])?[0];
            Ok(Some((outcome.mops, setting(outcome))))
        }
        What::NotRun(_) | What::OneQp(_) => Ok(None),
    }
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    sets::all_of(ctx, EXPERIMENT.paper, found)
}
