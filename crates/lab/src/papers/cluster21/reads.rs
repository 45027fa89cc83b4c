//! A run of READs of CLUSTER'21's first author (`papers/cluster21-reads.toml`) beside the model: measurements, no claims.

use crate::judge::measurements::{Measurement, OneQp};
use crate::papers::{Ctx, Experiment, Findings, Runs, measured};
use crate::plan::NotYet;
use doorbell_verbs::QpType;
use doorbell_workload::{Pattern, Verb, Workload};

pub(in crate::papers) const EXPERIMENT: Experiment = Experiment {
    name: "sizes",
    paper: "cluster21-reads",
    title: "READs of one QP by size, on the machines of CLUSTER'21: measurements, no claims and no predictions",
    claims: &[],
    runs: Runs::Verbs,
    run,
};

/// What `ib_read_bw` of perftest has outstanding, and of how many operations it signals one.
const OUTSTANDING: u32 = 128;
const SIGNAL_EVERY: u32 = 100;

/// READs of one QP, as `ib_read_bw` posts them.
fn workload(size: u32) -> Workload {
    Workload {
        verb: Some(Verb::Read),
        transport: Some(QpType::Rc),
        size: Some(size),
        pattern: Some(Pattern::Outbound),
        machines: Some(2),
        threads: Some(1),
        qps: Some(1),
        window_per_qp: Some(OUTSTANDING),
        signal_every: Some(SIGNAL_EVERY),
        ports: Some(1),
        ..Workload::default()
    }
}

/// Millions per second.
pub(in crate::papers) fn found(ctx: &Ctx<'_>, m: &Measurement, OneQp { size }: OneQp) -> Result<f64, NotYet> {
    let what = format!("cluster21-reads: {}", m.id);
    Ok(ctx.measure(&m.cluster, &what, &[workload(size)])?[0].mops)
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    measured::all_of(ctx, EXPERIMENT.paper)
}
