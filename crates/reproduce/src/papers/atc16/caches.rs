//! ATC'16, 3.5: large pages and few QPs save misses in the NIC's caches.

use super::micro;
use crate::experiment::briefly;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_nic::{Profile, Resource};
use doorbell_workload::{Pattern, Verb, Workload};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "caches",
    paper: "atc16",
    title: "pages, QPs and misses in the NIC's caches",
    claims: &["atc16-s35-hugepages", "atc16-s35-fewer-qps"],
    runs: Runs::Verbs,
    run,
};

/// Number of words in the page test, and bytes from one word to the next: 64 MB in all.
const WORDS: u32 = 16384;
const STRIDE: u32 = 4096;

/// QPs per thread in the all-to-all test. With at least six QPs, a thread reaches each other machine.
const QPS: [(&str, [u32; 2]); 2] = [("cx3", [6, 18]), ("cib", [6, 30])];

/// Machines of the all-to-all test.
const MACHINES: u32 = 6;

fn pages(profile: &Profile, huge: bool) -> Workload {
    Workload { huge_pages: Some(huge), ..micro::atomics(profile, WORDS, STRIDE) }
}

/// All machines READ 32 bytes from each other over randomly chosen QPs.
fn all_to_all(qps: u32) -> Workload {
    let workload = Workload {
        verb: Some(Verb::Read),
        pattern: Some(Pattern::AllToAll),
        size: Some(32),
        machines: Some(MACHINES),
        qps: Some(qps),
        window: Some(16),
        ..Workload::default()
    };
    briefly(300, workload)
}

/// Share of look-ups that miss, in all caches of a kind.
fn miss_rate(outcome: &Outcome, kind: Resource) -> f64 {
    let caches = outcome.caches.iter().filter(|c| c.cache.resource() == kind);
    let (all, misses) = caches.fold((0, 0), |(all, misses), c| (all + c.hits + c.misses, misses + c.misses));
    misses as f64 / all.max(1) as f64
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let outcomes =
        ctx.measure("cib", "s35-hugepages", &[true, false].map(|huge| pages(ctx.profile("cib"), huge)))?;
    let [huge, small] = [0, 1].map(|i| miss_rate(&outcomes[i], Resource::TranslationCache) * 100.0);
    let seen = format!("{huge:.1}% of look-ups miss with 2 MB, {small:.1}% with 4 kB");
    let mut checks = vec![Check::statement("atc16-s35-hugepages", "cib", 2.0 * huge < small, seen)];
    let mut curves = Vec::new();
    let mut fewer = Vec::new();
    for (cluster, qps) in QPS {
        let outcomes = ctx.measure(cluster, "s35-fewer-qps", &qps.map(all_to_all))?;
        let misses = [0, 1].map(|i| miss_rate(&outcomes[i], Resource::QpContextCache) * 100.0);
        fewer.push((misses[0] < misses[1], format!("{cluster}: {:.1}% and {:.1}%", misses[0], misses[1])));
        let per_machine = |o: &Outcome| o.mops / f64::from(MACHINES);
        let threads = ctx.profile(cluster).host.cores;
        curves.push(Curve {
            experiment: "atc16/caches".into(),
            name: "all-to-all READ of 32 bytes, six machines".into(),
            profile: cluster.into(),
            x: "QPs of a machine".into(),
            y: "Mops per machine".into(),
            points: qps
                .iter()
                .zip(&outcomes)
                .map(|(q, o)| (f64::from(q * threads), per_machine(o)))
                .collect(),
        });
    }
    let holds = fewer.iter().all(|(holds, _)| *holds);
    let seen = fewer.iter().map(|(_, s)| s.as_str()).collect::<Vec<_>>().join("; ");
    checks.push(
        Check::statement("atc16-s35-fewer-qps", "cib", holds, seen)
            .note("QP-context look-ups that miss with few QPs and with many"),
    );
    Ok(Findings { checks, curves, ..Findings::default() })
}
