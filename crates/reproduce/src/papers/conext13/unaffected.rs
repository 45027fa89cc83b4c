//! CoNEXT'13, 4.1: applications that the NIC's accesses barely slow down.

use super::runs::{self, CLUSTER, SCANS, TABLE_3, measure, touch};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::Duration;
use doorbell_lab::NotYet;
use doorbell_systems::touch::{Mode, Touch};
use doorbell_verbs::Span;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "unaffected",
    paper: "conext13",
    title: "loss by Touch if a buffer is filled once and sent often, and if requests compute for \
         milliseconds",
    claims: &["conext13-s41-unaffected"],
    runs: Runs::Touch,
    run,
};

/// Losses below this many percent are small, because the paper's runs deviate by as much.
const SMALL: f64 = 5.0;

/// Number of responses for each time that the server fills the buffer, as when many clients fetch one medium.
const STREAMED: u32 = 50;
/// Milliseconds of computation per request. The paper says only "msec".
const COMPUTED: u64 = 5;

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let scans = SCANS.map(|(scan, _)| touch(Mode::Touch, scan, TABLE_3));
    let streamed = scans.clone().map(|t| {
        let mut t = Touch { sends_per_fill: STREAMED, ..t };
        measure(&mut t, 2, 2 * u64::from(STREAMED));
        t
    });
    let computed = scans.map(|t| {
        let mut t = Touch { compute: Duration::new(Span::from_ms(COMPUTED)), ..t };
        measure(&mut t, 2, 6);
        t
    });
    let asked: Vec<Touch> = streamed.into_iter().chain(computed).collect();
    let found = runs::pairs(ctx, ctx.profile(CLUSTER), "unaffected", &asked)?;
    let losses: Vec<f64> = found.iter().map(runs::Pair::loss).collect();
    let seen = format!(
        "256 kB, Write and Read Scan: sent {STREAMED} times for each fill {:.1}% and {:.1}%, with {COMPUTED} ms of \
         computation {:.1}% and {:.1}%",
        losses[0], losses[1], losses[2], losses[3]
    );
    let holds = losses.iter().all(|loss| *loss < SMALL);
    let check = Check::statement("conext13-s41-unaffected", CLUSTER, holds, seen);
    Ok(Findings { checks: vec![check], ..Findings::default() })
}
