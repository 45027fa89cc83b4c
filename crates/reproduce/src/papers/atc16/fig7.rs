//! ATC'16, Figure 7 and 4.2: sequencers by number of server cores.

use crate::data::claims::{self, Claim};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use crate::experiment::{curve, setting};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_schema::Duration;
use doorbell_systems::System;
use doorbell_systems::atomics_sequencer::AtomicsSequencer;
use doorbell_systems::config::Workers;
use doorbell_systems::rpc_sequencer::RpcSequencer;
use doorbell_systems::spec_sequencer::SpecSequencer;
use doorbell_verbs::Span;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig7",
    paper: "atc16",
    title: "rate of sequencers by cores of the server",
    claims: &[
        "atc16-seq-base-1core",
        "atc16-seq-batch-1core",
        "atc16-seq-batch-mq-1core",
        "atc16-seq-batch-gain-1core",
        "atc16-seq-mq-gain-1core",
        "atc16-seq-6core",
        "atc16-seq-within-5pct",
        "atc16-seq-6core-batch",
        "atc16-seq-10core",
        "atc16-seq-10core-batch",
        "atc16-seq-drop-past-6",
        "atc16-seq-s0-1core-lower",
    ],
    runs: Runs::Systems,
    run,
};

/// Core counts of the curves, and of dense curves.
const CORES: [u32; 8] = [1, 2, 4, 6, 8, 10, 12, 14];
const DENSE: [u32; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];

/// Cores of a socket.
const MOST_CORES: u32 = 14;

/// Core counts of the claims.
const CLAIMED: [u32; 4] = [1, 4, 6, 10];

/// The sequencers over HERD's RPCs in Figure 7: without batching, with batching, and with three QPs per port.
pub(crate) fn rpc(cores: u32, batching: bool, multi_queue: bool) -> RpcSequencer {
    // Without batching, a worker replies to each request before it looks for the next request.
    let gather = if batching { 32 } else { 1 };
    let queues = if multi_queue { 3 } else { 1 };
    RpcSequencer { workers: Workers { cores, gather, batching, queues }, ..RpcSequencer::usual() }
}

/// The system whose rate the claim states.
pub(super) fn system(claim: &str) -> Option<SystemWorkload> {
    let (cores, batching, multi_queue) = match claim {
        "atc16-seq-base-1core" => (1, false, false),
        // Table 3 states the highest rate over all core counts.
        "atc16-tab3-baseline" => (MOST_CORES, false, false),
        "atc16-seq-batch-1core" => (1, true, false),
        "atc16-seq-batch-mq-1core" => (1, true, true),
        "atc16-seq-6core" => (6, true, true),
        "atc16-seq-10core" => (10, true, true),
        _ => return None,
    };
    Some(rpc(cores, batching, multi_queue).into())
}

pub(super) fn spec(cores: u32) -> SpecSequencer {
    let usual = SpecSequencer::usual();
    SpecSequencer { workers: Workers { cores, ..usual.workers }, ..usual }
}

/// All clients use one word. Atomics on one word are slow, so the run is longer.
pub(super) fn atomics() -> SystemWorkload {
    let mut atomics = AtomicsSequencer::usual();
    atomics.timing.duration = Some(Duration::new(Span::from_us(2000)));
    atomics.into()
}

/// A series of the figure.
struct Fig7Series {
    name: &'static str,
    cores: Vec<u32>,
    outcomes: Vec<Outcome>,
}

impl Fig7Series {
    fn measure<S: Into<SystemWorkload>>(
        ctx: &Ctx<'_>,
        name: &'static str,
        w: impl Fn(u32) -> S,
    ) -> Result<Fig7Series, NotYet> {
        let cores = match (ctx.full, ctx.explains) {
            (true, _) => DENSE.to_vec(),
            (_, true) => CORES.to_vec(),
            _ => CLAIMED.to_vec(),
        };
        let workloads: Vec<SystemWorkload> = cores.iter().map(|&c| w(c).into()).collect();
        let outcomes = ctx.systems("cib", &format!("fig7: {name}"), &workloads)?;
        Ok(Fig7Series { name, cores, outcomes })
    }

    fn at(&self, cores: u32) -> &Outcome {
        &self.outcomes[self.cores.iter().position(|c| *c == cores).unwrap_or(0)]
    }

    fn points(&self, y: impl Fn(&Outcome) -> f64) -> Vec<(f64, f64)> {
        self.cores.iter().map(|&c| f64::from(c)).zip(self.outcomes.iter().map(y)).collect()
    }
}

fn batch(outcome: &Outcome) -> f64 {
    outcome.system().replies_per_post.unwrap_or(0.0)
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let base = Fig7Series::measure(ctx, "baseline", |c| rpc(c, false, false))?;
    let batching = Fig7Series::measure(ctx, "+batching", |c| rpc(c, true, false))?;
    let both = Fig7Series::measure(ctx, "+batching, +multi-queue", |c| rpc(c, true, true))?;
    let spec = Fig7Series::measure(ctx, "Spec-S0", spec)?;
    let continuous = Fig7Series::measure(ctx, "+batching, +multi-queue, clients without windows", |c| {
        let mut rpc = rpc(c, true, true);
        rpc.clients.windows = false;
        rpc
    })?;
    let atomics = &ctx.systems("cib", "fig7: atomics", &[atomics()])?[0];
    let one_batched = ctx.explain_system("cib", "seq-batch-1core", &rpc(1, true, false).into())?;
    let six = ctx.explain_system("cib", "seq-6core", &rpc(6, true, true).into())?;
    let limit = claims::find("atc16-seq-dma-limit").and_then(Claim::allows);
    let (limit, _) = limit.expect("the claim is a number");
    let per_post =
        "lists of one port, as the authors' programs count, which post up to 32 replies in two lists";
    let falls = both.at(6).mops > both.at(4).mops && both.at(10).mops < both.at(6).mops;
    let rates: Vec<String> = both.outcomes.iter().map(|o| format!("{:.1}", o.mops)).collect();
    let number = |claim, value: f64| Check::number(claim, "cib", value);
    let checks = vec![
        Check::rate("atc16-seq-base-1core", "cib", base.at(1)),
        Check::rate("atc16-seq-batch-1core", "cib", &one_batched),
        Check::rate("atc16-seq-batch-mq-1core", "cib", both.at(1)),
        number("atc16-seq-batch-gain-1core", batching.at(1).mops / base.at(1).mops),
        number("atc16-seq-mq-gain-1core", both.at(1).mops / batching.at(1).mops),
        Check::rate("atc16-seq-6core", "cib", &six),
        number("atc16-seq-within-5pct", ((1.0 - six.mops / limit) * 100.0).max(0.0))
            .note("relative to the limit that the paper states"),
        number("atc16-seq-6core-batch", batch(both.at(6))).note(per_post),
        Check::rate("atc16-seq-10core", "cib", both.at(10)),
        number("atc16-seq-10core-batch", batch(both.at(10))).note(per_post),
        Check::statement(
            "atc16-seq-drop-past-6",
            "cib",
            falls,
            format!("{} Mrps on {:?} cores", rates.join(", "), both.cores),
        )
        .note(setting(both.at(6))),
        Check::statement(
            "atc16-seq-s0-1core-lower",
            "cib",
            spec.at(1).mops < both.at(1).mops,
            format!("Spec-S0 {:.1}, HERD-RPC {:.1} Mrps", spec.at(1).mops, both.at(1).mops),
        ),
    ];
    let line = |name: &str, y: &str, points| curve("atc16/fig7", name, "cib", "cores", y, points);
    let mut curves = Vec::new();
    for series in [&base, &batching, &both, &spec, &continuous] {
        curves.push(line(series.name, "Mrps", series.points(|o| o.mops)));
        let name = format!("{}: replies per list", series.name);
        curves.push(line(&name, "replies", series.points(batch)));
    }
    let flat = both.cores.iter().map(|&c| (f64::from(c), atomics.mops)).collect();
    curves.push(line("atomics", "Mrps", flat));
    Ok(Findings { checks, curves, ..Findings::default() })
}
