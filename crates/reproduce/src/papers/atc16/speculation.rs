//! Gain from version-checked GETs with header-only OKs. ATC'16 describes them in 5.2.2, but the claims are
//! Doorbell's own.

use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use crate::experiment::{curve, setting};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_schema::Duration;
use doorbell_systems::System;
use doorbell_systems::herd_kv::HerdKv;
use doorbell_verbs::Span;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "speculation",
    paper: "atc16",
    title: "HERD's key-value store with clients that cache, and GETs that ask whether a version is current",
    claims: &["doorbell-speculation-gain", "doorbell-speculation-puts"],
    runs: Runs::Systems,
    run,
};

/// Microseconds of warm-up. Clients read keys in this time, so they know more keys after a longer warm-up.
const KNOWING: [u64; 4] = [200, 500, 1000, 2000];

/// PUTs per thousand operations, and the microseconds of warm-up with these PUTs.
const PUT_PERMILLE: [u32; 3] = [10, 50, 500];
const WITH_PUTS: u64 = 1000;

/// Percentage points by which a gain must fall to count as a fall.
const FALL: f64 = 1.0;

/// Cores of the server, pairs per core, and clients. There are fewer pairs than in Figure 9, so that clients
/// soon know the keys that they ask for.
const CORES: u32 = 10;
const PAIRS: u64 = 256;
const CLIENTS: u32 = 32;

/// One load, with clients that forget the values that they read and with clients that cache them.
struct Pair {
    plain: Outcome,
    caching: Outcome,
}

type Rate = fn(&Pair) -> f64;

fn workload(us: u64, put_permille: u32, speculate: bool) -> SystemWorkload {
    let mut store = HerdKv::usual();
    store.workers.cores = CORES;
    (store.clients.clients, store.clients.clients_per_machine) = (CLIENTS, 4);
    (store.pairs.pairs, store.pairs.put_permille) = (PAIRS, put_permille);
    store.speculate = speculate;
    store.timing.warmup = Some(Duration::new(Span::from_us(us)));
    // The 32 operations of a window complete together. The gain is coarse unless many windows complete.
    store.timing.duration = Some(Duration::new(Span::from_us(450)));
    store.into()
}

impl Pair {
    /// One pair of outcomes for each load: microseconds of warm-up and PUTs per thousand operations.
    fn all(ctx: &Ctx<'_>, what: &str, loads: &[(u64, u32)]) -> Result<Vec<Pair>, NotYet> {
        let all: Vec<SystemWorkload> =
            loads.iter().flat_map(|&(us, puts)| [false, true].map(|s| workload(us, puts, s))).collect();
        let outcomes = ctx.systems("cib", what, &all)?;
        let two = |two: &[Outcome]| Pair { plain: two[0].clone(), caching: two[1].clone() };
        Ok(outcomes.chunks_exact(2).map(two).collect())
    }

    /// Gain from caching, in percent of operations.
    fn gain(&self) -> f64 {
        crate::experiment::percent_more(self.plain.mops, self.caching.mops)
    }

    /// Percent of GETs whose version was confirmed. The count of replies without payload includes PUTs, so
    /// PUTs are subtracted.
    fn confirmed(&self) -> f64 {
        let puts = self.plain.system().header_only;
        100.0 * ((self.caching.system().header_only - puts) / (1.0 - puts)).max(0.0)
    }

    fn words(&self) -> String {
        format!("{:+.1}% with {:.0}% confirmed", self.gain(), self.confirmed())
    }
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let gets = Pair::all(ctx, "speculation: GETs", &KNOWING.map(|us| (us, 0)))?;
    let puts = Pair::all(ctx, "speculation: PUTs", &PUT_PERMILLE.map(|permille| (WITH_PUTS, permille)))?;
    let gains = gets[0].gain() > 0.0
        && gets.windows(2).all(|w| w[1].confirmed() > w[0].confirmed() && w[1].gain() > w[0].gain());
    let words = |pairs: &[Pair]| pairs.iter().map(Pair::words).collect::<Vec<_>>().join(", ");
    let alone = &gets[KNOWING.iter().position(|us| *us == WITH_PUTS).unwrap_or(0)];
    let falls = puts.windows(2).all(|w| w[1].gain() < w[0].gain() - FALL);
    let checks = vec![
        Check::statement("doorbell-speculation-gain", "cib", gains, words(&gets))
            .note(setting(&alone.caching)),
        Check::statement("doorbell-speculation-puts", "cib", falls, words(&puts))
            .note(format!("{PUT_PERMILLE:?} PUTs in a thousand operations; without, {}", alone.words())),
    ];
    let line = |name, x, points| curve("atc16/speculation", name, "cib", x, "Mrps", points);
    let confirmed = |of: Rate| {
        let mut points: Vec<(f64, f64)> = gets.iter().map(|p| (p.confirmed(), of(p))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let by_puts = |of: Rate| {
        let of_puts = PUT_PERMILLE.iter().map(|p| f64::from(*p) / 10.0).zip(&puts);
        std::iter::once((0.0, alone)).chain(of_puts).map(|(x, p)| (x, of(p))).collect()
    };
    let (plain, caching): (Rate, Rate) = (|p| p.plain.mops, |p| p.caching.mops);
    let curves = vec![
        line("GETs, clients that cache", "percent of GETs confirmed", confirmed(caching)),
        line("GETs, same load without", "percent of GETs confirmed", confirmed(plain)),
        line("with PUTs, clients that cache", "percent PUTs", by_puts(caching)),
        line("with PUTs, same load without", "percent PUTs", by_puts(plain)),
    ];
    Ok(Findings { checks, curves, ..Findings::default() })
}
