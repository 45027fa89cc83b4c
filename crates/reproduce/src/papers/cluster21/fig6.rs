//! CLUSTER'21, Figure 6 a, b and d: sequential and random accesses to remote memory in pages of 4 kB, as
//! posix_memalign allocates it. One QP posts as perftest does.

use super::cluster::CLUSTER;
use super::perftest::{Place, rate};
use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Found, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_nic::Resource;
use doorbell_schema::Duration;
use doorbell_verbs::Span;
use doorbell_workload::{Addresses, RemoteAddresses, Verb, Workload};
use std::sync::Arc;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig6",
    paper: "cluster21",
    title: "sequential and random accesses, by payload and by region",
    claims: &[
        "cluster21-fig6-write-seq2x",
        "cluster21-fig6-seq-gt-rand",
        "cluster21-fig6-region-4mb",
        "cluster21-fig6-region-4mb-gap",
        "cluster21-fig6-flat-512",
        "cluster21-s3b-avoid-random",
    ],
    runs: Runs::Verbs,
    run,
};

const MB: u64 = 1 << 20;
/// Bytes of the region in Figure 6 a and b, at both ends.
const REGION: u64 = 2048 * MB;
/// Payloads in bytes.
const SIZES: [u32; 6] = [8, 64, 256, 512, 2048, 8192];
/// Regions of Figure 6 d in bytes. The paper does not state its payload; here it is a line.
const REGIONS: [u64; 8] = [MB / 16, MB / 4, MB, 2 * MB, 4 * MB, 8 * MB, 64 * MB, REGION];
const LINE: u32 = 64;

/// Order of accesses to local memory and to remote memory.
type Pattern = (Addresses, RemoteAddresses);

const SEQUENTIAL: Pattern = (Addresses::Sequential, RemoteAddresses::Sequential);
const RANDOM: Pattern = (Addresses::Random, RemoteAddresses::Random);

/// Patterns of the figure. The first is sequential at both ends.
const PATTERNS: [(&str, Pattern); 4] = [
    ("sequential to sequential", SEQUENTIAL),
    ("sequential to random", (SEQUENTIAL.0, RANDOM.1)),
    ("random to sequential", (RANDOM.0, SEQUENTIAL.1)),
    ("random to random", RANDOM),
];

/// Upper bound of the time of an operation whose translations miss.
const SLOW: Span = Span::from_ns(500);
/// Time of an operation without misses.
const FAST: Span = Span::from_ns(170);
/// If a region has at most this many pages, a NIC may hold all their translations. The warm-up for such a
/// region accesses all of it once. With random accesses, the warm-up is long enough to touch nearly all
/// pages.
const HELD_PAGES: u64 = 2048;
const PAGE: u64 = 4096;

fn warmup(region: u64, size: u32, pattern: Pattern) -> Span {
    let pages = region / PAGE;
    let operations = pages * PAGE / u64::from(size.max(LINE));
    // After eight draws per page, the probability that a page was never drawn is e^-8.
    let draws = 8 * pages;
    let once = if pattern == SEQUENTIAL { FAST * operations } else { SLOW * draws + FAST * operations };
    once.max(Span::from_us(100))
}

fn workload(verb: Verb, size: u32, region: u64, pattern: Pattern) -> Workload {
    let usual = rate(verb, size, Place::OWN, Place::OWN);
    // A region that does not fit has no warm state, so the usual warm-up suffices.
    let fits = region / PAGE <= HELD_PAGES;
    let warmup = if fits { Some(Duration::new(warmup(region, size, pattern))) } else { usual.warmup };
    Workload {
        local_region: Some(region),
        remote_region: Some(region),
        addresses: Some(pattern.0),
        remote_addresses: Some(pattern.1),
        huge_pages: Some(false),
        warmup,
        ..usual
    }
}

/// Rates of Figure 6 a or b, by pattern and payload.
fn by_size(ctx: &Ctx<'_>, verb: Verb) -> Result<[[f64; SIZES.len()]; 4], NotYet> {
    let all: Vec<Workload> = PATTERNS
        .iter()
        .flat_map(|(_, pattern)| SIZES.map(|size| workload(verb, size, REGION, *pattern)))
        .collect();
    let outcomes = ctx.measure(CLUSTER, "fig6", &all)?;
    let rates: Vec<f64> = outcomes.iter().map(|o| o.mops).collect();
    let (of_patterns, _) = rates.as_chunks();
    Ok(of_patterns.try_into().expect("four patterns"))
}

/// Outcomes of Figure 6 d by region: with sequential, then with random accesses.
fn by_region(ctx: &Ctx<'_>, verb: Verb) -> Result<[Vec<Arc<Outcome>>; 2], NotYet> {
    let of = |pattern| {
        let all = REGIONS.map(|region| workload(verb, LINE, region, pattern));
        ctx.measure_warmed(CLUSTER, "fig6", &all)
    };
    let [sequential, random] = [SEQUENTIAL, RANDOM].map(of);
    Ok([sequential?, random?])
}

/// Rate with sequential accesses at both ends, divided by the rate with random accesses at both ends. The
/// payload is a line.
pub(super) fn asymmetry(ctx: &Ctx<'_>, verb: Verb) -> Result<f64, NotYet> {
    let of = |pattern| workload(verb, LINE, REGION, pattern);
    let found = ctx.measure(CLUSTER, "fig6", &[SEQUENTIAL, RANDOM].map(of))?;
    Ok(found[0].mops / found[1].mops)
}

/// Reduction from the sequential to the random rate in percent, for region `REGIONS[at]`.
fn gap([sequential, random]: &[Vec<Arc<Outcome>>; 2], at: usize) -> f64 {
    (1.0 - random[at].mops / sequential[at].mops) * 100.0
}

/// Rate with sequential accesses at both ends, divided by the rate of the best other pattern. The payload is
/// a line.
fn sequential_over_others(rates: &[[f64; SIZES.len()]; 4]) -> f64 {
    let others = rates[1..].iter().map(|of| of[1]).fold(0.0, f64::max);
    rates[0][1] / others
}

/// Miss rate of translations, in the cache that misses most.
fn missed(outcome: &Outcome) -> f64 {
    let translations = outcome.caches.iter().filter(|c| c.cache.resource() == Resource::TranslationCache);
    translations.map(|c| c.misses as f64 / (c.hits + c.misses).max(1) as f64).fold(0.0, f64::max)
}

/// A rate counts as flat if it is at least this share of the smallest payload's rate. The paper calls rates
/// up to 512 bytes almost stable, and in the authors' own run, READs of 512 bytes keep this share (4.41 of
/// 6.24 M/s).
const FLAT: f64 = 0.7;

fn flat_to(rates: &[f64; SIZES.len()]) -> u32 {
    let flat = SIZES.iter().zip(rates).take_while(|(_, rate)| **rate >= FLAT * rates[0]);
    flat.last().map_or(0, |(size, _)| *size)
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let sizes = [Verb::Read, Verb::Write].map(|verb| by_size(ctx, verb));
    let regions = [Verb::Read, Verb::Write].map(|verb| by_region(ctx, verb));
    let ([read, write], [reads, writes]) = (sizes, regions);
    let (read, write, reads, writes) = (read?, write?, reads?, writes?);
    let over = [&read, &write].map(sequential_over_others);
    let seen =
        format!("at {LINE} B relative to the best other pattern: READ {:.2}, WRITE {:.2}", over[0], over[1]);
    let flat = [&read, &write].map(|rates| rates.each_ref().map(flat_to));
    let least = flat.iter().flatten().min().copied().unwrap_or(0);
    let flat_note = format!(
        "the least of READ {:?} and WRITE {:?}, as {}",
        flat[0],
        flat[1],
        PATTERNS.map(|(name, _)| name).join(", ")
    );
    let gaps = |at| gap(&reads, at).abs().max(gap(&writes, at).abs());
    let vanishes = (0..REGIONS.len()).take_while(|&at| gaps(at) < 1.0).last();
    let by = REGIONS.map(|region| region as f64 / MB as f64);
    let gap_text: Vec<String> =
        (0..REGIONS.len()).map(|at| format!("{} MB {:.1}%", by[at], gaps(at))).collect();
    let gap_text = gap_text.join(", ");
    let below = REGIONS.iter().position(|region| *region == 2 * MB).expect("it is one of them");
    let [in_turn, at_random] = writes.each_ref().map(|of| missed(&of[REGIONS.len() - 1]));
    let misses = format!(
        "translations missed in 2 GB: {:.0}% at random, {:.1}% in turn; {:.2} and {:.2} M/s",
        at_random * 100.0,
        in_turn * 100.0,
        write[3][1],
        write[0][1]
    );
    let checks = vec![
        Check::number("cluster21-fig6-write-seq2x", CLUSTER, over[1]).note(seen.clone()),
        Check::statement("cluster21-fig6-seq-gt-rand", CLUSTER, over[0] > 1.0 && over[1] > over[0], seen),
        Check::number("cluster21-fig6-region-4mb", CLUSTER, vanishes.map_or(0.0, |at| by[at]))
            .note(gap_text.clone()),
        Check::number("cluster21-fig6-region-4mb-gap", CLUSTER, gaps(below))
            .note(format!("at 2 MB; {gap_text}")),
        Check {
            note: flat_note,
            ..Check::new(
                "cluster21-fig6-flat-512",
                CLUSTER,
                Found::Range { low: None, high: Some(least.into()) },
            )
        },
        Check::statement("cluster21-s3b-avoid-random", CLUSTER, at_random > 0.9 && in_turn < 0.1, misses),
    ];
    let by_size = [("READ", &read), ("WRITE", &write)].into_iter().flat_map(|(verb, rates)| {
        PATTERNS.iter().zip(rates).map(move |((pattern, _), of)| {
            let points = SIZES.iter().map(|size| f64::from(*size)).zip(of.iter().copied()).collect();
            line(&format!("{verb}, {pattern}"), "payload, bytes", points)
        })
    });
    let by_region = [("READ", &reads), ("WRITE", &writes)].into_iter().flat_map(|(verb, of)| {
        ["sequential", "random"].into_iter().zip(of).map(move |(pattern, outcomes)| {
            let points = by.into_iter().zip(outcomes.iter().map(|o| o.mops)).collect();
            line(&format!("{verb} of {LINE} B, {pattern}"), "region, MB", points)
        })
    });
    let curves = by_size.chain(by_region).collect();
    Ok(Findings { checks, curves, ..Findings::default() })
}

fn line(name: &str, x: &str, points: Vec<(f64, f64)>) -> Curve {
    curve("cluster21/fig6", name, CLUSTER, x, "M/s", points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_flat_until_it_falls() {
        assert_eq!(flat_to(&[5.0, 5.0, 4.2, 3.5, 3.4, 1.0]), 512);
    }

    #[test]
    fn the_best_of_the_others_counts() {
        let of = |rate| [0.0, rate, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(sequential_over_others(&[of(6.0), of(2.0), of(3.0), of(1.0)]), 2.0);
    }
}
