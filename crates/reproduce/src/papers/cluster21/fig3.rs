//! CLUSTER'21, Figure 3: vector I/O of one thread by bytes of a piece, with calls of 4 and of 16 pieces.

use super::cluster::CLUSTER;
use super::vectors::{Calls, Rates};
use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig3",
    paper: "cluster21",
    title: "vector I/O by bytes of a piece",
    claims: &[
        "cluster21-fig3-flat",
        "cluster21-fig3-flat-limit",
        "cluster21-fig3-decline",
        "cluster21-fig3-order",
        "cluster21-sgl-small-range",
    ],
    runs: Runs::Systems,
    run,
};

/// Bytes of a piece.
const SIZES: [u32; 8] = [8, 16, 32, 64, 128, 256, 512, 1024];
const POINTS: usize = SIZES.len();

/// Pieces of a call.
const BATCHES: [u32; 2] = [4, 16];

/// A rate is flat while it keeps this share of the smallest piece's rate.
const FLAT: f64 = 0.8;
/// SGL is good while it reaches this share of SP's rate.
const GOOD: f64 = 0.5;

/// The largest size up to which every `rates[i]` is at least `least(i)`. 0 if the first rate is too low.
fn last(rates: &[f64; POINTS], least: impl Fn(usize) -> f64) -> u32 {
    let fits = (0..POINTS).take_while(|&i| rates[i] >= least(i));
    fits.last().map_or(0, |i| SIZES[i])
}

fn flat_to(rates: &[f64; POINTS]) -> u32 {
    last(rates, |_| FLAT * rates[0])
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let of = |pieces| {
        Rates::of(ctx, "fig3", SIZES, |strategy, bytes| Calls { strategy, pieces, bytes, threads: 1 })
    };
    let [four, sixteen] = BATCHES.map(of);
    let (four, sixteen) = (four?, sixteen?);
    let flat = four.0.each_ref().map(flat_to);
    let [sp, doorbell, sgl] = flat;
    let limits = format!(
        "calls of 4, within {:.0}%: SP to {sp} B, Doorbell to {doorbell} B, SGL to {sgl} B",
        (1.0 - FLAT) * 100.0
    );
    let most = |rates: &[f64; POINTS]| rates[0] / rates[POINTS - 1];
    let declines = [&four, &sixteen].map(|rates| rates.0.each_ref().map(most));
    let seen = format!(
        "from 8 to 1024 B, of 4 and 16 pieces, SP falls to 1/{:.1} and 1/{:.1}, Doorbell 1/{:.1} and 1/{:.1}, SGL 1/{:.1} and 1/{:.1}",
        declines[0][0], declines[1][0], declines[0][1], declines[1][1], declines[0][2], declines[1][2]
    );
    let falls = declines.iter().all(|[sp, doorbell, sgl]| sp > &(2.0 * doorbell) && sgl > &(2.0 * doorbell));
    let at = |rates: &Rates<POINTS>, size: usize| rates.0.map(|of| of[size]);
    let ordered = [&four, &sixteen].iter().all(|rates| {
        let [sp, doorbell, sgl] = at(rates, 2);
        sp > sgl && sgl > doorbell
    });
    let of_32 = [&four, &sixteen].map(|rates| at(rates, 2).map(|rate| format!("{rate:.2}")).join(", "));
    let order =
        format!("pieces of 32 B, SP, Doorbell, SGL: {} with 4, {} M calls/s with 16", of_32[0], of_32[1]);
    let good = last(sixteen.sgl(), |i| GOOD * sixteen.sp()[i]);
    let rule = format!(
        "calls of 16 with at least {:.0}% of SP's rate; of 4 to {} B",
        GOOD * 100.0,
        last(four.sgl(), |i| GOOD * four.sp()[i])
    );
    let small = format!("to {good} B: {rule}");
    let least = *flat.iter().min().expect("three");
    let checks = vec![
        Check::statement("cluster21-fig3-flat", CLUSTER, least >= 128, limits.clone()),
        Check::number("cluster21-fig3-flat-limit", CLUSTER, least).note(limits),
        Check::statement("cluster21-fig3-decline", CLUSTER, falls, seen),
        Check::statement("cluster21-fig3-order", CLUSTER, ordered, order),
        Check::statement("cluster21-sgl-small-range", CLUSTER, [256, 512].contains(&good), small),
    ];
    let lines = [(4, &four), (16, &sixteen)].into_iter().flat_map(|(pieces, rates)| {
        [("SP", rates.sp()), ("Doorbell", rates.doorbell()), ("SGL", rates.sgl())].map(|(name, of)| {
            let points = SIZES.iter().map(|size| f64::from(*size)).zip(of.iter().copied()).collect();
            let name = format!("{name}, calls of {pieces}");
            curve("cluster21/fig3", &name, CLUSTER, "bytes of a piece", "M calls/s", points)
        })
    });
    Ok(Findings { checks, curves: lines.collect(), ..Findings::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_flat_ends_at_the_first_that_is_not() {
        let rates = [5.0, 5.0, 4.9, 4.8, 4.0, 3.9, 5.0, 1.0];
        assert_eq!(flat_to(&rates), 128);
        assert_eq!(last(&rates, |_| 6.0), 0);
    }
}
