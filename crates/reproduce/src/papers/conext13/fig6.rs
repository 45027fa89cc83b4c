//! CoNEXT'13, Figure 6 and 3.3: benefit of prefetchers, by the size of the response.

use super::runs::{self, CLUSTER, KB, SCANS, SIZES, curve, size_text, text, touch, us};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_nic::Profile;
use doorbell_systems::touch::{Mode, Order, Touch};
use std::ops::RangeInclusive;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig6",
    paper: "conext13",
    title: "gain by prefetchers with Touch, sequential and random, by the size of the response",
    claims: &["conext13-fig6-gain", "conext13-fig6-seq-only"],
    runs: Runs::Touch,
    run,
};

/// Sizes of the random scans.
const RANDOM: [u32; 4] = [4 * KB, 32 * KB, 256 * KB, 1024 * KB];
/// Largest gains that agree with "as high as 60%". The paper's number is only an upper bound, so a much
/// smaller gain would meet it, too.
const LARGEST: RangeInclusive<f64> = 50.0..=60.0;
/// A gain below this many percent counts as none.
const NONE: f64 = 3.0;

/// Time that prefetching saves, in percent of the time without it. The base is the run without the examined
/// feature, as it is for the paper's losses. This definition was chosen before any parameter was set.
fn gain(on: &Outcome, off: &Outcome) -> f64 {
    (1.0 - us(on) / us(off)) * 100.0
}

/// The other definition of the gain: additional time without prefetching, in percent.
fn more_without(on: &Outcome, off: &Outcome) -> f64 {
    (us(off) / us(on) - 1.0) * 100.0
}

/// Gains from prefetchers for one scan, by size and by both definitions.
struct Gains {
    name: &'static str,
    saved: Vec<(u32, f64)>,
    more: Vec<(u32, f64)>,
}

impl Gains {
    fn largest(&self) -> (u32, f64) {
        self.saved.iter().copied().fold((0, f64::NEG_INFINITY), |a, b| if b.1 > a.1 { b } else { a })
    }

    fn text(&self) -> String {
        let (at, largest) = self.largest();
        let other = self.more.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
        format!("{} {largest:.1}% at {} (by the other definition {other:.1}%)", self.name, size_text(at))
    }
}

/// Runs both scans twice: with the prefetchers of `profile`, and without prefetchers.
fn gains(ctx: &Ctx<'_>, profile: &Profile, sizes: &[u32], order: Order) -> Result<Vec<Gains>, NotYet> {
    let asked = |scan| sizes.iter().map(move |size| Touch { order, ..touch(Mode::Touch, scan, *size) });
    let asked: Vec<Touch> = SCANS.iter().flat_map(|(scan, _)| asked(*scan)).collect();
    let on = runs::systems(ctx, profile, "fig6", &asked);
    let off = runs::systems(ctx, &runs::without_prefetchers(ctx), "fig6", &asked);
    let (on, off) = (on?, off?);
    let of = |(i, (_, name)): (usize, &(_, &'static str))| {
        let range = i * sizes.len()..(i + 1) * sizes.len();
        let by = |gain: fn(&Outcome, &Outcome) -> f64| {
            let outcomes = on[range.clone()].iter().zip(&off[range.clone()]);
            sizes.iter().copied().zip(outcomes.map(move |(on, off)| gain(on, off)))
        };
        Gains { name, saved: by(gain).collect(), more: by(more_without).collect() }
    };
    Ok(SCANS.iter().enumerate().map(of).collect())
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let all = ctx.profile(CLUSTER);
    let alone = runs::with_caches(ctx, |h| (h.adjacent_line, h.streamer) = (false, 0));
    let sequential = gains(ctx, all, &SIZES, Order::Sequential);
    let random = gains(ctx, all, &RANDOM, Order::Random);
    let next_line = gains(ctx, &alone, &RANDOM, Order::Random);
    let (sequential, random, next_line) = (sequential?, random?, next_line?);
    let largest = sequential.iter().map(|g| g.largest().1).fold(f64::NEG_INFINITY, f64::max);
    let in_words = sequential.iter().map(Gains::text).collect::<Vec<_>>().join("; ");
    let none = random.iter().flat_map(|g| &g.saved).all(|p| p.1 < NONE);
    let of_random = |gains: &[Gains]| {
        gains.iter().map(|g| format!("{} {}", g.name, text(&g.saved))).collect::<Vec<_>>().join("; ")
    };
    let checks = vec![
        Check::statement(
            "conext13-fig6-gain",
            CLUSTER,
            LARGEST.contains(&largest),
            format!("largest gains: {in_words}"),
        ),
        Check::statement(
            "conext13-fig6-seq-only",
            CLUSTER,
            none,
            format!("random order, gain in percent: {}", of_random(&random)),
        )
        .note(format!("with the next-line prefetcher alone, which Table 2 names: {}", of_random(&next_line))),
    ];
    let curves = sequential.iter().flat_map(|g| {
        [
            ("saved", &g.saved, "of the time without prefetchers"),
            ("more", &g.more, "of the time with prefetchers"),
        ]
        .map(|(kind, points, of)| {
            curve("fig6", &format!("{}, {kind}", g.name), &format!("gain in % {of}"), points)
        })
    });
    let random = random.iter().map(|g| curve("fig6", &format!("{}, random", g.name), "gain in %", &g.saved));
    Ok(Findings { checks, curves: curves.chain(random).collect(), ..Findings::default() })
}
