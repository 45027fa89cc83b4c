//! CLUSTER'21, Figure 17: time of a join with all optimisations, by size of the relations. It is compared
//! with one thread, and with executors without optimisations.

use super::cluster::CLUSTER;
use super::joins::{EXECUTORS, JoinPoint, seconds};
use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig17",
    paper: "cluster21",
    title: "join: gain by all optimisations, by the size of relations",
    claims: &[
        "cluster21-jn-4x",
        "cluster21-jn-total-single",
        "cluster21-jn-total-dist",
        "cluster21-abs-join",
    ],
    runs: Runs::Systems,
    run,
};

/// Sizes of the relations, as multiples of their size in Figure 16.
const TIMES: [u64; 3] = [1, 2, 4];
/// Ratios within this relative difference count as constant.
const CONSTANT: f64 = 0.1;

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let of = |point: JoinPoint| move |times| JoinPoint { times, ..point };
    let best = JoinPoint::of(EXECUTORS);
    let all = seconds(ctx, "fig17", TIMES.map(of(best)));
    let alone = seconds(ctx, "fig17", TIMES.map(of(JoinPoint::STANDALONE)));
    let native = seconds(ctx, "fig17", TIMES.map(of(best.native())));
    let (all, alone, native) = (all?, alone?, native?);
    let over = |of: &[f64; 3]| [of[0] / all[0], of[1] / all[1], of[2] / all[2]];
    let (single, distributed) = (over(&alone), over(&native));
    let is_constant = |of: &[f64; 3]| of.iter().all(|ratio| (ratio / of[0] - 1.0).abs() <= CONSTANT);
    let seen = format!(
        "at 1, 2 and 4 times the size {:.1}, {:.1}, {:.1} times faster than one thread, {:.2}, {:.2}, {:.2} times faster than {EXECUTORS} executors without",
        single[0], single[1], single[2], distributed[0], distributed[1], distributed[2]
    );
    let checks = vec![
        Check::statement(
            "cluster21-jn-4x",
            CLUSTER,
            is_constant(&single) && is_constant(&distributed),
            seen,
        ),
        Check::number("cluster21-jn-total-single", CLUSTER, single[0])
            .note(format!("{:.2} s of one thread, {:.2} s of {EXECUTORS} executors", alone[0], all[0])),
        Check::number("cluster21-abs-join", CLUSTER, single[0]),
        Check::number("cluster21-jn-total-dist", CLUSTER, distributed[0]).note(format!(
            "{:.2} s of {EXECUTORS} executors that post tuples one by one, with all memory at the first socket of a machine",
            native[0]
        )),
    ];
    let line = |name: &str, of: [f64; 3]| {
        let points = TIMES.map(|times| times as f64).into_iter().zip(of).collect();
        curve("cluster21/fig17", name, CLUSTER, "times the relations", "seconds", points)
    };
    let curves =
        vec![line("16 executors", all), line("one thread", alone), line("16 executors, native", native)];
    Ok(Findings { checks, curves, ..Findings::default() })
}
