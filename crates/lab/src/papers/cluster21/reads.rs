//! A run of READs of CLUSTER'21's first author (`papers/cluster21-reads.toml`) beside the model: measurements, no claims.

use super::perftest::{Place, rate};
use crate::judge::measurements::{Measurement, OneQp};
use crate::papers::{Ctx, Experiment, Findings, Runs, measured};
use crate::plan::NotYet;
use doorbell_workload::Verb;

pub(in crate::papers) const EXPERIMENT: Experiment = Experiment {
    name: "sizes",
    paper: "cluster21-reads",
    title: "READs of one QP by size, on the machines of CLUSTER'21: measurements, no claims and no predictions",
    claims: &[],
    runs: Runs::Verbs,
    run,
};

/// Millions per second.
pub(in crate::papers) fn found(ctx: &Ctx<'_>, m: &Measurement, OneQp { size }: OneQp) -> Result<f64, NotYet> {
    let what = format!("cluster21-reads: {}", m.id);
    Ok(ctx.measure(&m.cluster, &what, &[rate(Verb::Read, size, Place::OWN, Place::OWN)])?[0].mops)
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    measured::all_of(ctx, EXPERIMENT.paper)
}
