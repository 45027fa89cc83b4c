//! ATC'16, Figure 10 and 4.3.2: emulated DrTM-KV by share of PUTs.

use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_systems::System;
use doorbell_systems::config::{Clients, Timing};
use doorbell_systems::drtm_kv::DrtmKv;
use doorbell_verbs::Span;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig10",
    paper: "atc16",
    title: "rate of DrTM-KV, emulated and built, by share of PUTs",
    claims: &[
        "atc16-drtm-cx3-10put",
        "atc16-drtm-cib-10put",
        "atc16-drtm-cx3-100put",
        "atc16-drtm-cib-100put",
        "atc16-drtm-cib-gradual",
    ],
    runs: Runs::Systems,
    run,
};

const PERMILLE: [u32; 8] = [0, 50, 100, 200, 400, 600, 800, 1000];

/// Pairs of the paper's store.
const REAL_PAIRS: u64 = 16_000_000;

/// Client counts. The one with the highest rate of GETs is used.
const CLIENTS: [u32; 4] = [16, 32, 64, 96];

fn store(ctx: &Ctx<'_>, cluster: &str, clients: u32, put_permille: u32, update: bool) -> SystemWorkload {
    let mut store = DrtmKv::usual();
    // Atomics are slow on cx3, so a short run would count too few for a precise rate.
    let (warmup, us) = if cluster == "cx3" { (400, 1500) } else { (100, 200) };
    store.clients = Clients { clients, clients_per_machine: 8, ..store.clients };
    store.timing = Timing::of(Span::from_us(warmup), Span::from_us(us));
    (store.pairs.put_permille, store.update) = (put_permille, update);
    if ctx.full {
        store.pairs.pairs = REAL_PAIRS;
    }
    store.into()
}

struct StoreRates {
    cluster: &'static str,
    clients: u32,
    emulated: Vec<Outcome>,
    built: Vec<Outcome>,
}

impl StoreRates {
    fn measure(ctx: &Ctx<'_>, cluster: &'static str) -> Result<StoreRates, NotYet> {
        let by_clients =
            ctx.systems(cluster, "fig10: clients", &CLIENTS.map(|c| store(ctx, cluster, c, 0, false)))?;
        let best = by_clients.iter().max_by(|a, b| a.mops.total_cmp(&b.mops));
        let clients = best.map_or(CLIENTS[0], |o| o.system().workload.clients().clients);
        let series = |update| {
            ctx.systems(cluster, "fig10", &PERMILLE.map(|p| store(ctx, cluster, clients, p, update)))
        };
        Ok(StoreRates { cluster, clients, emulated: series(false)?, built: series(true)? })
    }

    /// Rate with this many PUTs per thousand operations, relative to the rate without PUTs.
    fn left(&self, permille: u32) -> f64 {
        let at = PERMILLE.iter().position(|p| *p == permille).unwrap_or(0);
        self.emulated[at].mops / self.emulated[0].mops
    }

    fn checks(&self, ctx: &Ctx<'_>, ten: &'static str, hundred: &'static str) -> Result<[Check; 2], NotYet> {
        let explain = |what, permille| {
            ctx.explain_system(self.cluster, what, &store(ctx, self.cluster, self.clients, permille, false))
        };
        let note = format!("{} clients; GETs alone {:.1} Mops", self.clients, self.emulated[0].mops);
        Ok([
            Check::number(ten, self.cluster, (1.0 - self.left(100)) * 100.0)
                .limited_by(&explain(ten, 100)?)
                .note(note.clone()),
            Check::number(hundred, self.cluster, self.left(1000) * 100.0)
                .limited_by(&explain(hundred, 1000)?)
                .note(note),
        ])
    }

    fn curves(&self) -> [Curve; 2] {
        let points = |all: &[Outcome]| {
            PERMILLE.iter().map(|&p| f64::from(p) / 10.0).zip(all.iter().map(|o| o.mops)).collect()
        };
        let line = |name, all| curve("atc16/fig10", name, self.cluster, "percent PUTs", "Mops", points(all));
        [line("lock and unlock, as emulated", &self.emulated), line("with the update", &self.built)]
    }
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let (cx3, cib) = (StoreRates::measure(ctx, "cx3")?, StoreRates::measure(ctx, "cib")?);
    let mut checks = Vec::from(cx3.checks(ctx, "atc16-drtm-cx3-10put", "atc16-drtm-cx3-100put")?);
    checks.extend(cib.checks(ctx, "atc16-drtm-cib-10put", "atc16-drtm-cib-100put")?);
    let gradual = PERMILLE[1..].iter().all(|&p| cib.left(p) > cx3.left(p));
    let seen = |s: &StoreRates| {
        format!(
            "{} {:.0}%, {:.0}%, {:.0}%",
            s.cluster,
            s.left(100) * 100.0,
            s.left(400) * 100.0,
            s.left(1000) * 100.0
        )
    };
    checks.push(Check::statement(
        "atc16-drtm-cib-gradual",
        "cib",
        gradual,
        format!("left with 10%, 40% and 100% PUTs: {}; {}", seen(&cib), seen(&cx3)),
    ));
    Ok(Findings { checks, curves: [cx3.curves(), cib.curves()].concat(), ..Findings::default() })
}
