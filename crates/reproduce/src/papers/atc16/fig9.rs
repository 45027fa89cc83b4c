//! ATC'16, Figure 9 and 4.3.1: HERD's key-value store by cores of the server.

use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_schema::Field;
use doorbell_systems::System;
use doorbell_systems::config::{Pairs, Scale, Workers};
use doorbell_systems::herd_kv::HerdKv;
use doorbell_systems::read_kv::ReadKv;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig9",
    paper: "atc16",
    title: "rate of HERD's key-value store by cores of the server",
    claims: &[
        "atc16-kv-base-1core",
        "atc16-kv-batch-1core",
        "atc16-kv-gain-1core",
        "atc16-kv-base-peak",
        "atc16-kv-batch-peak",
        "atc16-kv-gain-peak",
        "atc16-kv-vs-read-63pct",
        "atc16-kv-read-bound",
        "atc16-kv-cores-base",
        "atc16-kv-cores-batch",
        "atc16-kv-gain-lt-seq",
        "atc16-abs-herd-cpu-83pct",
        "atc16-intro-herd-tput-35pct",
    ],
    runs: Runs::Systems,
    run,
};

const MOST_CORES: u32 = 14;

/// Core counts that suffice for rates.
const SOME: [u32; 4] = [1, 6, 10, MOST_CORES];

fn store(ctx: &Ctx<'_>, cores: u32, batching: bool) -> HerdKv {
    let mut store = HerdKv::usual();
    (store.workers.cores, store.workers.batching) = (cores, batching);
    if ctx.full {
        store.pairs.pairs = store.scale.real_pairs;
    }
    store
}

fn series(ctx: &Ctx<'_>, batching: bool) -> Result<Vec<Outcome>, NotYet> {
    let all: Vec<SystemWorkload> = (1..=MOST_CORES)
        .filter(|c| ctx.explains || SOME.contains(c))
        .map(|c| store(ctx, c, batching).into())
        .collect();
    ctx.systems("cib", "fig9", &all)
}

fn peak(outcomes: &[Outcome]) -> &Outcome {
    outcomes.iter().max_by(|a, b| a.mops.total_cmp(&b.mops)).unwrap_or(&outcomes[0])
}

/// Smallest number of cores whose rate exceeds `rate`.
fn cores_beyond(outcomes: &[Outcome], rate: f64) -> u32 {
    outcomes
        .iter()
        .find(|o| o.mops > rate)
        .map_or(u32::MAX, |o| o.system().workload.number(&Workers::cores) as u32)
}

fn percent(from: &Outcome, to: &Outcome) -> f64 {
    (to.mops / from.mops - 1.0) * 100.0
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let (base, batched) = (series(ctx, false)?, series(ctx, true)?);
    let best = ctx.explain_system("cib", "kv-batch-peak", &peak(&batched).system().workload)?;
    let mut reads = ReadKv::usual();
    (reads.clients.clients, reads.clients.clients_per_machine) = (70, 14);
    let reads = &ctx.systems("cib", "fig9: READ-based", &[reads.into()])?[0];
    let sequencer = [super::fig7::rpc(1, false, false).into(), super::fig7::rpc(1, true, false).into()];
    let sequencer = ctx.systems("cib", "fig9: sequencer", &sequencer)?;
    let small = super::micro::inbound(ctx.profile("cib"), doorbell_workload::Verb::Read, 64);
    let bound = ctx.measure("cib", "fig9: READs", &[small])?[0].mops / 2.0;
    let speculation = [false, true].map(|speculate| {
        let store = store(ctx, 10, true);
        // A client's cache helps only if the client asks for a key again.
        let pairs = Pairs { put_permille: 0, zipf: true, pairs: 1024 };
        SystemWorkload::from(HerdKv { speculate, pairs, ..store })
    });
    let speculation = ctx.systems("cib", "fig9: speculation", &speculation)?;
    let gain = (percent(&base[0], &batched[0]), percent(peak(&base), peak(&batched)));
    let (kv, seq) = (1.0 + gain.0 / 100.0, sequencer[1].mops / sequencer[0].mops);
    let number = |field: &Field| best.system().workload.number(field);
    let scaled = format!(
        "{} pairs per core represent {}: caches hold {:.1}% of both; {:.2}% of operations miss because of \
         eviction",
        number(&Pairs::pairs),
        number(&Scale::real_pairs),
        100.0 * number(&Scale::cache_bytes) as f64
            / (number(&Scale::real_pairs) * 80 * number(&Workers::cores)) as f64,
        best.system().missed * 100.0
    );
    let checks = vec![
        Check::rate("atc16-kv-base-1core", "cib", &base[0]),
        Check::rate("atc16-kv-batch-1core", "cib", &batched[0]).note(scaled),
        Check::number("atc16-kv-gain-1core", "cib", gain.0),
        Check::rate("atc16-kv-base-peak", "cib", peak(&base)),
        Check::rate("atc16-kv-batch-peak", "cib", &best),
        Check::number("atc16-kv-gain-peak", "cib", gain.1),
        Check::number("atc16-kv-vs-read-63pct", "cib", (best.mops / bound - 1.0) * 100.0),
        Check::number("atc16-kv-read-bound", "cib", bound).note(format!(
            "half of the rate of READs of 64 bytes; the READ-based store reaches {:.1}",
            reads.mops
        )),
        Check::number("atc16-kv-cores-base", "cib", cores_beyond(&base, bound)),
        Check::number("atc16-kv-cores-batch", "cib", cores_beyond(&batched, bound)),
        Check::statement(
            "atc16-kv-gain-lt-seq",
            "cib",
            kv < seq,
            format!("key-value store {kv:.2}x, sequencer {seq:.2}x"),
        ),
        Check::number("atc16-abs-herd-cpu-83pct", "cib", gain.0),
        Check::number("atc16-intro-herd-tput-35pct", "cib", gain.1),
    ];
    let cores = |all: &[Outcome]| {
        all.iter().map(|o| (o.system().workload.number(&Workers::cores) as f64, o.mops)).collect()
    };
    let line = |name, x, points| curve("atc16/fig9", name, "cib", x, "Mrps", points);
    let flat = |rate| vec![(1.0, rate), (f64::from(MOST_CORES), rate)];
    let curves = vec![
        line("batched", "cores", cores(&batched)),
        line("not batched", "cores", cores(&base)),
        line("READ-based, at most", "cores", flat(bound)),
        line("READ-based, as built", "cores", flat(reads.mops)),
        line(
            "GETs, without and with versions that clients know",
            "share of header-only replies",
            speculation.iter().map(|o| (o.system().header_only, o.mops)).collect(),
        ),
    ];
    Ok(Findings { checks, curves, ..Findings::default() })
}
