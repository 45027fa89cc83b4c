//! CLUSTER'21, III-E: rate of atomics over one port, compared with READs and WRITEs.

use super::cluster::CLUSTER;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use crate::experiment::{briefly, setting};
use doorbell_lab::NotYet;
use doorbell_workload::{Pattern, Verb, Workload};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "atomics",
    paper: "cluster21",
    title: "rate of atomics of one port, beside READs and WRITEs",
    claims: &["cluster21-s3e-atomic-per-port", "cluster21-s3e-atomic-lt-rw"],
    runs: Runs::Verbs,
    run,
};

/// Number of words that atomics access at random. It is so large that more than two threads rarely meet at
/// one word.
const WORDS: u32 = 1024;

/// 8-byte operations of three machines on one other machine, over one port. Three are more than enough to
/// keep it busy.
fn inbound(verb: Verb) -> Workload {
    let atomic = matches!(verb, Verb::FetchAdd | Verb::CompareSwap);
    let workload = Workload {
        verb: Some(verb),
        pattern: Some(Pattern::Inbound),
        machines: Some(4),
        threads: Some(4),
        qps: Some(2),
        ports: Some(1),
        size: (!atomic).then_some(8),
        counters: atomic.then_some(WORDS),
        counter_stride: atomic.then_some(64),
        inline: (verb == Verb::Write).then_some(true),
        ..Workload::default()
    };
    briefly(2000, workload)
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let verbs = [Verb::FetchAdd, Verb::CompareSwap, Verb::Read, Verb::Write];
    let outcomes = ctx.measure(CLUSTER, "s3e", &verbs.map(inbound))?;
    let [add, swap, read, write] = [0, 1, 2, 3].map(|verb| outcomes[verb].mops);
    let less = add.max(swap) < read.min(write);
    let seen =
        format!("fetch-and-add {add:.2}, compare-and-swap {swap:.2}, READ {read:.2}, WRITE {write:.2} Mops");
    let checks = vec![
        Check::number("cluster21-s3e-atomic-per-port", CLUSTER, add).note(format!(
            "fetch-and-add on {WORDS} words by one port; compare-and-swap {swap:.2}; {}",
            setting(&outcomes[0])
        )),
        Check::statement("cluster21-s3e-atomic-lt-rw", CLUSTER, less, seen),
    ];
    Ok(Findings { checks, ..Findings::default() })
}
