//! CLUSTER'21, Figure 16: time of a join, by executors, by entries of a post, and by the socket of memory.

use super::cluster::CLUSTER;
use super::joins::{BATCH, EXECUTORS, JoinPoint, REAL, SAMPLE, seconds};
use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Found, Runs};
use doorbell_lab::NotYet;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig16",
    paper: "cluster21",
    title: "join: time by executors, by entries of a post, and by the socket of the memory",
    claims: &[
        "cluster21-jn-standalone",
        "cluster21-jn-batch-vs-standalone",
        "cluster21-jn-batch-vs-nobatch",
        "cluster21-jn-numa",
        "cluster21-jn-scaling",
    ],
    runs: Runs::Systems,
    run,
};

/// Executors of Figure 16a.
const FEW: u32 = 4;
/// Entries of a post.
const BATCHES: [u32; 4] = [1, 4, 8, BATCH];
/// Executors.
const ALL: [u32; 4] = [2, FEW, 8, EXECUTORS];
/// Sample sizes. The results for different sizes show the sampling error.
const SAMPLES: [u64; 3] = [SAMPLE / 2, SAMPLE, 2 * SAMPLE];

/// Reduction from `before` to `after`, in percent.
fn less(before: f64, after: f64) -> f64 {
    (1.0 - after / before) * 100.0
}

fn line(name: &str, x: &str, points: impl Iterator<Item = (f64, f64)>) -> Curve {
    curve("cluster21/fig16", name, CLUSTER, x, "seconds", points.collect())
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let of = |point: JoinPoint| move |batch| JoinPoint { batch, ..point };
    let few = JoinPoint::of(FEW);
    let unaware = |point: JoinPoint| JoinPoint { aware: false, ..point };
    let by_batch = seconds(ctx, "fig16", BATCHES.map(of(few)));
    let by_batch_unaware = seconds(ctx, "fig16", BATCHES.map(of(unaware(few))));
    let by_executors = seconds(ctx, "fig16", ALL.map(JoinPoint::of));
    let by_executors_unaware = seconds(ctx, "fig16", ALL.map(|executors| unaware(JoinPoint::of(executors))));
    let alone = seconds(ctx, "fig16", SAMPLES.map(|sample| JoinPoint { sample, ..JoinPoint::STANDALONE }));
    let together =
        seconds(ctx, "fig16", SAMPLES.map(|sample| JoinPoint { sample, ..JoinPoint::of(EXECUTORS) }));
    let whole = match ctx.full {
        true => Some(seconds(
            ctx,
            "fig16",
            [JoinPoint::STANDALONE, JoinPoint::of(EXECUTORS)]
                .map(|point| JoinPoint { sample: REAL, ..point }),
        )),
        false => None,
    };
    let (by_batch, by_batch_unaware) = (by_batch?, by_batch_unaware?);
    let (by_executors, by_executors_unaware) = (by_executors?, by_executors_unaware?);
    let (alone, together, whole) = (alone?, together?, whole.transpose()?);
    let samples = SAMPLES.map(|sample| sample as f64);
    let standalone = alone[1];
    let error = |of: &[f64; 3]| format!("{:.2}, {:.2}, {:.2} s", of[0], of[1], of[2]);
    let full = whole.map_or_else(String::new, |[one, all]| {
        format!("; of all {REAL} tuples {one:.2} s, and {all:.2} s with {EXECUTORS} executors")
    });
    let note = format!(
        "one thread; from samples of {}, {} and {} tuples {}, with {EXECUTORS} executors {}{full}",
        SAMPLES[0],
        SAMPLES[1],
        SAMPLES[2],
        error(&alone),
        error(&together)
    );
    let best = by_batch[1..].iter().copied().fold(f64::INFINITY, f64::min);
    let numa: Vec<f64> = by_batch_unaware
        .iter()
        .zip(&by_batch)
        .chain(by_executors_unaware.iter().zip(&by_executors))
        .map(|(before, after)| less(*before, *after))
        .collect();
    let least = numa.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numa.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let [two, four, _, sixteen] = by_executors;
    let ideal = |from: f64, times: f64| less(sixteen, from / times);
    let checks = vec![
        Check::number("cluster21-jn-standalone", CLUSTER, standalone).note(note),
        Check::number("cluster21-jn-batch-vs-standalone", CLUSTER, best / standalone * 100.0).note(format!(
            "{best:.2} of {standalone:.2} s: read as 76% of the time; a reduction of {:.0}%",
            less(standalone, best)
        )),
        Check::number("cluster21-jn-batch-vs-nobatch", CLUSTER, less(by_batch[0], best)).note(format!(
            "{FEW} executors: {:.2} s with entries one by one, {best:.2} s at best with posts of up to {BATCH}",
            by_batch[0]
        )),
        Check::new("cluster21-jn-numa", CLUSTER, Found::Range { low: Some(least), high: Some(most) }).note(
            format!("{FEW} executors by entries of a post, and posts of {BATCH} by executors; without it all memory of a machine is at its first socket"),
        ),
        Check::number("cluster21-jn-scaling", CLUSTER, ideal(four, 4.0)).note(format!(
            "from {FEW} executors to {EXECUTORS}, posts of {BATCH}; from 2 {:.0}%, from one thread {:.0}%",
            ideal(two, 8.0),
            ideal(standalone, 16.0)
        )),
    ];
    let at = |values: [u32; 4], of: [f64; 4]| values.map(f64::from).into_iter().zip(of);
    let curves = vec![
        line("4 executors, own memory", "entries of a post", at(BATCHES, by_batch)),
        line("4 executors, memory at the first socket", "entries of a post", at(BATCHES, by_batch_unaware)),
        line("posts of 16, own memory", "executors", at(ALL, by_executors)),
        line("posts of 16, memory at the first socket", "executors", at(ALL, by_executors_unaware)),
        line("standalone, by the sample", "tuples", samples.into_iter().zip(alone)),
        line("16 executors, by the sample", "tuples", samples.into_iter().zip(together)),
    ];
    Ok(Findings { checks, curves, ..Findings::default() })
}
