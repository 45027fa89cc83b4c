//! READs from a run by CLUSTER'21's first author (`papers/cluster21-reads.toml`). They are measurements, not
//! claims.

use super::perftest::{Place, rate};
use crate::data::measurements::{Measurement, OneQp, What};
use crate::experiment::{Ctx, Experiment, Findings, Runs};
use crate::papers::sets;
use doorbell_lab::NotYet;
use doorbell_workload::Verb;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "sizes",
    paper: "cluster21-reads",
    title: "READs of one QP by size, on the machines of CLUSTER'21: measurements, neither claims nor \
         predictions",
    claims: &[],
    runs: Runs::Verbs,
    run,
};

/// Simulated rate in millions per second, without chosen settings. `None` unless the measurement is a run of
/// one QP.
pub(crate) fn found(ctx: &Ctx<'_>, m: &Measurement) -> Result<Option<(f64, String)>, NotYet> {
    let What::OneQp(OneQp { size }) = m.what else { return Ok(None) };
    let what = format!("cluster21-reads: {}", m.id);
    let found = ctx.measure(&m.cluster, &what, &[rate(Verb::Read, size, Place::OWN, Place::OWN)])?;
    Ok(Some((found[0].mops, String::new())))
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    sets::all_of(ctx, EXPERIMENT.paper, found)
}
