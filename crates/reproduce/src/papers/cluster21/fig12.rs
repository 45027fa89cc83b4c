//! CLUSTER'21, Figure 12 and IV-B: a hashtable in the memory of other machines, by optimisation step and
//! front-ends.
//!
//! docs/notes/hashtable.md explains the arithmetic of the paper's numbers, and the settings that were chosen
//! because the paper does not state them.

use super::cluster::CLUSTER;
use crate::experiment::curve;
use crate::experiment::worst;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_schema::Share;
use doorbell_systems::System;
use doorbell_systems::config::Timing;
use doorbell_systems::hashtable::Hashtable;
use doorbell_verbs::Span;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig12",
    paper: "cluster21",
    title: "rate of a disaggregated hashtable by front-ends: basic, with NUMA-awareness, with consolidation",
    claims: &[
        "cluster21-ht-numa-peak",
        "cluster21-ht-numa-gain",
        "cluster21-ht-cons-peak",
        "cluster21-ht-cons-peak-fe",
        "cluster21-ht-cons-gain",
        "cluster21-ht-order",
        "cluster21-abs-hashtable",
    ],
    runs: Runs::Systems,
    run,
};

/// Cluster with a port at each socket.
pub(super) const SPLIT: &str = "cx3-dual-split";

const FRONT_ENDS: [u32; 8] = [1, 2, 4, 6, 8, 10, 12, 14];

/// Optimisation steps of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Basic,
    Numa,
    Consolidated,
}

impl Step {
    const ALL: [Step; 3] = [Step::Basic, Step::Numa, Step::Consolidated];

    fn name(self) -> &'static str {
        match self {
            Step::Basic => "basic",
            Step::Numa => "+NUMA",
            Step::Consolidated => "+consolidation",
        }
    }

    /// Profile of the step. Without NUMA-awareness, threads and memory may be at either socket, and the only
    /// adapter is at the first socket.
    fn profile(self) -> &'static str {
        if self == Step::Basic { CLUSTER } else { SPLIT }
    }

    fn workload(self, front_ends: u32, back_ends: u32) -> SystemWorkload {
        let mut table = table(front_ends);
        table.back_ends = back_ends;
        if self != Step::Consolidated {
            // No write is held back, so the run need not last for several time-outs.
            table.hot = Share::of_percent(0);
            table.timing = Timing::of(Span::from_us(200), Span::from_us(500));
        }
        table.into()
    }
}

/// The table with all optimisations and its usual settings. Blocks that are first written at the start of the
/// run time out together, so the rate swings. After six time-outs, the blocks time out at different times.
pub(super) fn table(front_ends: u32) -> Hashtable {
    let mut table = Hashtable::usual();
    table.clients.clients = front_ends;
    table.timing = Timing::of(table.time_out.span() * 6, table.time_out.span() * 3);
    table
}

/// Outcomes of a step, by number of front-ends.
fn rates(ctx: &Ctx<'_>, step: Step, back_ends: u32) -> Result<Vec<Outcome>, NotYet> {
    let all = FRONT_ENDS.map(|front_ends| step.workload(front_ends, back_ends));
    ctx.timed(step.profile(), "fig12", &all)
}

/// Highest rate of a step, and the number of front-ends that reach it.
fn peak(found: &[Outcome]) -> (f64, u32) {
    let rates = found.iter().map(|outcome| outcome.mops).zip(FRONT_ENDS);
    rates.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::NAN, 0))
}

fn points(found: &[Outcome]) -> Vec<(f64, f64)> {
    FRONT_ENDS.iter().map(|n| f64::from(*n)).zip(found.iter().map(|outcome| outcome.mops)).collect()
}

fn line(step: Step, suffix: &str, found: &[Outcome]) -> Curve {
    let name = format!("{}{suffix}", step.name());
    curve("cluster21/fig12", &name, step.profile(), "front-ends", "Mops", points(found))
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    // The context learns of all runs before the first unknown result returns.
    let steps = Step::ALL.map(|step| rates(ctx, step, 2));
    // The paper can also be read as having one back-end.
    let one = Step::ALL.map(|step| rates(ctx, step, 1));
    let [basic, numa, cons] = steps;
    let (basic, numa, cons) = (basic?, numa?, cons?);
    let one = one.into_iter().collect::<Result<Vec<_>, _>>()?;
    let two = Step::ALL.into_iter().zip([&basic, &numa, &cons]);
    let mut curves: Vec<Curve> = two.map(|(step, found)| line(step, "", found)).collect();
    curves.extend(Step::ALL.into_iter().zip(&one).map(|(step, found)| line(step, ", one back-end", found)));
    let peaks = [peak(&basic), peak(&numa), peak(&cons)];
    let one_peaks: Vec<String> = one.iter().map(|found| format!("{:.1}", peak(found).0)).collect();
    let explained = |found: &[Outcome], step: Step| {
        let at = peak(found).1;
        ctx.explain_system(step.profile(), "fig12", &step.workload(at, 2))
    };
    let [numa_limit, cons_limit] = [explained(&numa, Step::Numa), explained(&cons, Step::Consolidated)];
    let (numa_limit, cons_limit) = (numa_limit?, cons_limit?);
    Ok(Findings {
        checks: checks(peaks, &one_peaks, [&numa_limit, &cons_limit]),
        curves,
        ..Findings::default()
    })
}

fn checks(peaks: [(f64, u32); 3], one: &[String], [numa, cons]: [&Outcome; 2]) -> Vec<Check> {
    let [basic, with_numa, with_cons] = peaks;
    let seen = format!(
        "{:.2}, {:.2} and {:.2} M/s with {}, {} and {} front-ends; with one back-end {} M/s",
        basic.0,
        with_numa.0,
        with_cons.0,
        basic.1,
        with_numa.1,
        with_cons.1,
        one.join(", ")
    );
    let gains =
        [basic.0, with_numa.0].map(|rate| Check::number("cluster21-ht-cons-gain", SPLIT, with_cons.0 / rate));
    let gain = worst(gains.into());
    let holds = with_cons.0 > with_numa.0 && with_numa.0 > basic.0;
    vec![
        Check::number("cluster21-ht-numa-peak", SPLIT, with_numa.0).limited_by(numa).note(seen.clone()),
        Check::number("cluster21-ht-numa-gain", SPLIT, (with_numa.0 / basic.0 - 1.0) * 100.0)
            .note("two back-ends; by QPs to each socket rather than by a proxy"),
        Check::number("cluster21-ht-cons-peak", SPLIT, with_cons.0).limited_by(cons),
        Check::number("cluster21-ht-cons-peak-fe", SPLIT, f64::from(with_cons.1)),
        Check { of_each: Vec::new(), ..gain }.note(format!(
            "{:.2} times basic, {:.2} times +NUMA; the worse result is shown",
            with_cons.0 / basic.0,
            with_cons.0 / with_numa.0
        )),
        Check::statement("cluster21-ht-order", SPLIT, holds, seen),
        Check::number("cluster21-abs-hashtable", SPLIT, with_cons.0 / basic.0).note("of the peaks"),
    ]
}
