//! CLUSTER'21, Figure 18: core time of a shuffle of seven executors, by the size of an entry. Entries are
//! copied (SP) or gathered (SGL).
//!
//! The paper does not define its cost and does not state the number of entries. Here a core counts as busy
//! unless it waits for an arrival or a completion. This definition was chosen before there was a result. The
//! note states the cost of posting alone, including copies.

use super::cluster::CLUSTER;
use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_systems::config::Timing;
use doorbell_systems::shuffle::Shuffle;
use doorbell_systems::vector_io::Strategy;
use doorbell_systems::{Phase, System};
use doorbell_verbs::Span;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig18",
    paper: "cluster21",
    title: "core time of a shuffle, copied or gathered, by the size of an entry",
    claims: &["cluster21-jn-cpu-67", "cluster21-jn-cpu-order"],
    runs: Runs::Systems,
    run,
};

const EXECUTORS: u32 = 7;
/// Bytes of an entry in the figure.
const ENTRIES: [u32; 4] = [64, 256, 1024, 4096];

fn workload(strategy: Strategy, entry: u32) -> SystemWorkload {
    let mut shuffle = Shuffle { strategy: strategy.into(), entry, round_entries: 1024, ..Shuffle::usual() };
    // A segment of the largest entries must not exceed the data sent in a round.
    shuffle.segment = 256;
    shuffle.clients.clients = EXECUTORS;
    shuffle.timing = Timing::of(Span::from_ms(2), Span::from_ms(3));
    shuffle.into()
}

/// Core time of an entry in nanoseconds. First all time except waiting, then the time of posting alone.
fn cost(outcome: &Outcome) -> (f64, f64) {
    let of = |phase| outcome.system().phases.iter().find(|time| time.phase == phase);
    let spent = |phase| of(phase).map_or(0.0, |time| time.mean_ns * time.times as f64);
    let span = outcome.measured.duration.span().as_secs_f64();
    let entries = outcome.mops * 1e6 * span;
    let all = f64::from(EXECUTORS) * span * 1e9;
    ((all - spent(Phase::Wait)) / entries, spent(Phase::Post) / entries)
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let of = |strategy| ctx.timed(CLUSTER, "fig18", &ENTRIES.map(|entry| workload(strategy, entry)));
    let (sp, sgl) = (of(Strategy::Sp), of(Strategy::Sgl));
    let costs = |outcomes: Vec<Outcome>| outcomes.iter().map(cost).collect::<Vec<_>>();
    let (sp, sgl) = (costs(sp?), costs(sgl?));
    let both: Vec<_> = ENTRIES.into_iter().zip(sp.iter().zip(&sgl)).collect();
    let less = |sp: f64, sgl: f64| (1.0 - sgl / sp) * 100.0;
    let each: Vec<String> = both
        .iter()
        .map(|(entry, (sp, sgl))| {
            format!("{entry} B: {:.0} and {:.0} ns ({:.0} and {:.0} to post)", sp.0, sgl.0, sp.1, sgl.1)
        })
        .collect();
    let seen = format!("core time for an entry, SP and SGL, at {}", each.join("; "));
    let last = ENTRIES.len() - 1;
    let note = format!("all but waiting; of posting alone {:.1}%; {seen}", less(sp[last].1, sgl[last].1));
    let checks = vec![
        Check::number("cluster21-jn-cpu-67", CLUSTER, less(sp[last].0, sgl[last].0)).note(note),
        Check::statement(
            "cluster21-jn-cpu-order",
            CLUSTER,
            both.iter().all(|(_, (sp, sgl))| sgl.0 < sp.0),
            seen,
        ),
    ];
    let line = |name: &str, of: &[(f64, f64)], which: fn(&(f64, f64)) -> f64| {
        let points = ENTRIES.map(f64::from).into_iter().zip(of.iter().map(which)).collect();
        curve("cluster21/fig18", name, CLUSTER, "bytes of an entry", "ns of a core for an entry", points)
    };
    let curves = vec![
        line("SP", &sp, |cost| cost.0),
        line("SGL", &sgl, |cost| cost.0),
        line("SP, posting", &sp, |cost| cost.1),
        line("SGL, posting", &sgl, |cost| cost.1),
    ];
    Ok(Findings { checks, curves, ..Findings::default() })
}
