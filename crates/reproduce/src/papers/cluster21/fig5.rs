//! CLUSTER'21, Figure 5: vector I/O by number of threads. Calls have four pieces of 32 bytes, because with
//! more pieces the figure's rates exceed the link (docs/notes/cluster21.md).

use super::cluster::CLUSTER;
use super::vectors::{Calls, Rates, explain};
use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Experiment, Findings, Found, Runs};
use doorbell_lab::NotYet;
use doorbell_systems::vector_io::Strategy;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig5",
    paper: "cluster21",
    title: "vector I/O of a thread, by threads",
    claims: &[
        "cluster21-fig5-sp-vs-sgl",
        "cluster21-fig5-sp-vs-doorbell",
        "cluster21-fig5-sgl-1t",
        "cluster21-fig5-sgl-8t",
        "cluster21-fig5-sgl-drop",
        "cluster21-fig5-doorbell-drop",
        "cluster21-fig5-sp-sgl-flat",
    ],
    runs: Runs::Systems,
    run,
};

const THREADS: [u32; 5] = [1, 2, 4, 6, 8];
const POINTS: usize = THREADS.len();
/// Pieces of a call, and bytes of each.
const PIECES: u32 = 4;
const BYTES: u32 = 32;

fn calls(strategy: Strategy, threads: u32) -> Calls {
    Calls { strategy, pieces: PIECES, bytes: BYTES, threads }
}

/// Reduction of a thread's rate from one thread to the most threads, in percent.
fn drop(each: &[f64; POINTS]) -> f64 {
    (1.0 - each[POINTS - 1] / each[0]) * 100.0
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let rates = Rates::of(ctx, "fig5", THREADS, calls);
    let gathered = explain(ctx, "fig5", calls(Strategy::Sgl, 8));
    let listed = explain(ctx, "fig5", calls(Strategy::Doorbell, 8));
    let (rates, gathered, listed) = (rates?, gathered?, listed?);
    let each = Rates(rates.0.map(|of| std::array::from_fn(|i| of[i] / f64::from(THREADS[i]))));
    let ends = |id, other| {
        let (low, high) = each.ends_of_sp_over(other);
        Check::new(id, CLUSTER, Found::Range { low: Some(low), high: Some(high) })
    };
    let (sgl, doorbell) = (each.sgl(), each.doorbell());
    let drops = [each.sp(), sgl, doorbell].map(drop);
    let seen = format!(
        "eight threads: SP {:.0}%, SGL {:.0}%, Doorbell {:.0}% less each than one",
        drops[0], drops[1], drops[2]
    );
    let flat = drops[0].max(drops[1]) < drops[2] / 1.5;
    let checks = vec![
        ends("cluster21-fig5-sp-vs-sgl", sgl),
        ends("cluster21-fig5-sp-vs-doorbell", doorbell),
        Check::number("cluster21-fig5-sgl-1t", CLUSTER, sgl[0]),
        Check::number("cluster21-fig5-sgl-8t", CLUSTER, sgl[POINTS - 1]).limited_by(&gathered),
        Check::number("cluster21-fig5-sgl-drop", CLUSTER, drops[1]),
        Check::number("cluster21-fig5-doorbell-drop", CLUSTER, drops[2]).limited_by(&listed),
        Check::statement("cluster21-fig5-sp-sgl-flat", CLUSTER, flat, seen),
    ];
    let line = |name, of: &[f64; POINTS]| {
        let points = THREADS.iter().map(|n| f64::from(*n)).zip(of.iter().copied()).collect();
        curve("cluster21/fig5", name, CLUSTER, "threads", "M calls/s of a thread", points)
    };
    let curves = vec![line("SP", each.sp()), line("Doorbell", doorbell), line("SGL", sgl)];
    Ok(Findings { checks, curves, ..Findings::default() })
}
