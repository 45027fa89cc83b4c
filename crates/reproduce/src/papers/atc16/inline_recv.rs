//! ATC'16, footnote 4: inline-receive on ConnectX-3.

use super::micro::{self, UD_PAYLOAD};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "inline-recv",
    paper: "atc16",
    title: "regular UD RECVs with and without inline-receive on cx3",
    claims: &["atc16-inline-recv-before-cx3", "atc16-inline-recv-after-cx3"],
    runs: Runs::Verbs,
    run,
};

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let workloads = [false, true].map(|inline| micro::inbound_send(ctx.profile("cx3"), UD_PAYLOAD, inline));
    let outcomes = ctx.measure("cx3", "inline-receive", &workloads)?;
    let check = |(claim, outcome): (&&'static str, _)| Check::rate(claim, "cx3", outcome);
    let checks = EXPERIMENT.claims.iter().zip(outcomes.iter().map(|o| &**o)).map(check).collect();
    Ok(Findings { checks, ..Findings::default() })
}
