//! ATC'16, Figure 8 and 4.2.2: latency of Spec-S0 with and without batches of replies.

use super::fig7::spec;
use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_systems::config::Workers;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig8",
    paper: "atc16",
    title: "latency of Spec-S0 with and without batches of replies",
    claims: &["atc16-fig8-10cores", "atc16-fig8-batch-latency", "atc16-s41-opportunistic"],
    runs: Runs::Systems,
    run,
};

/// Loads: number of clients, and outstanding requests of each client.
const LOADS: [(u32, u32); 9] =
    [(1, 1), (10, 1), (30, 1), (70, 1), (70, 2), (70, 4), (70, 8), (70, 12), (70, 16)];

/// Core counts. The check looks for the smallest count that reaches the peak.
const CORES: [u32; 4] = [6, 8, 10, 14];

fn loads(ctx: &Ctx<'_>, batching: bool) -> Result<Vec<Outcome>, NotYet> {
    let all = LOADS.map(|(clients, outstanding)| {
        let mut spec = spec(10);
        (spec.clients.clients, spec.clients.outstanding) = (clients, outstanding);
        spec.workers.batching = batching;
        SystemWorkload::from(spec)
    });
    ctx.systems("cib", "fig8", &all)
}

fn mean_us(o: &Outcome) -> f64 {
    o.latency_ns.mean.unwrap_or(0.0) / 1e3
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let (single, batched) = (loads(ctx, false)?, loads(ctx, true)?);
    let by_cores = ctx.systems("cib", "fig8: cores", &CORES.map(|c| spec(c).into()))?;
    let peak = by_cores.iter().map(|o| o.mops).fold(0.0, f64::max);
    let fewest = by_cores
        .iter()
        .find(|o| o.mops > 0.98 * peak)
        .map_or(0, |o| o.system().workload.number(&Workers::cores));
    // Near the highest rate without batching, the comparison would be between queueing times, not between
    // methods.
    let most = single.iter().map(|o| o.mops).fold(0.0, f64::max) * 0.9;
    let added = single.iter().zip(&batched).filter(|(s, _)| s.mops < most);
    let added = added.map(|(s, b)| mean_us(b) - mean_us(s)).fold(f64::NEG_INFINITY, f64::max);
    let checks = vec![
        Check::number("atc16-fig8-10cores", "cib", fewest as u32).note(format!("with {CORES:?} cores")),
        Check::number("atc16-fig8-batch-latency", "cib", added).note("while neither is saturated"),
        Check::statement(
            "atc16-s41-opportunistic",
            "cib",
            (mean_us(&batched[0]) - mean_us(&single[0])).abs() < 0.05,
            format!(
                "a lone client waits {:.2} us with batching, {:.2} without",
                mean_us(&batched[0]),
                mean_us(&single[0])
            ),
        ),
    ];
    let line = |name, all: &[Outcome]| {
        let points = all.iter().map(|o| (o.mops, mean_us(o))).collect();
        curve("atc16/fig8", name, "cib", "Mrps", "mean latency in us", points)
    };
    Ok(Findings {
        checks,
        curves: vec![line("batched", &batched), line("not batched", &single)],
        ..Findings::default()
    })
}
