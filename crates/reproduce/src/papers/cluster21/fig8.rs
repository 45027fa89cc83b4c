//! CLUSTER'21, Figure 8 and III-C: writes of 32 bytes that are held back, against direct ones.
//!
//! The paper does not say how many blocks the random writes spread over, how many are outstanding, and what is posted of a block. What each
//! of these gives is a curve beside the figure's.

use super::cluster::CLUSTER;
use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_systems::System;
use doorbell_systems::config::Timing;
use doorbell_systems::consolidate::{Consolidate, Holding};
use doorbell_verbs::Span;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig8",
    paper: "cluster21",
    title: "IO consolidation: writes of 32 B held back by blocks of 1 kB, against direct ones",
    claims: &["cluster21-fig8-theta16", "cluster21-s3c-consolidate", "cluster21-s3c-when"],
    runs: Runs::Systems,
    run,
};

/// The figure's, and 1 for direct writes.
const THETAS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// That of the claim.
const THETA: u32 = 16;
/// Blocks that writes spread over.
const BLOCKS: [u32; 8] = [1, 4, 16, 64, 256, 1024, 4096, 16_384];
/// Posts, or direct writes, under way.
const OUTSTANDING: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// What the claims are judged by, but for these.
#[derive(Clone, Copy)]
struct Setting {
    theta: u32,
    holding: Holding,
    blocks: u32,
    outstanding: u32,
}

impl Setting {
    /// As [`Consolidate::usual`] has what the paper does not say.
    fn of(theta: u32) -> Setting {
        let Consolidate { holding, blocks, clients, .. } = Consolidate::usual();
        Setting { theta, holding, blocks, outstanding: clients.outstanding }
    }

    fn direct(self) -> Setting {
        Setting { theta: 1, ..self }
    }

    fn workload(self) -> SystemWorkload {
        let Setting { theta, holding, blocks, outstanding } = self;
        let mut io = Consolidate { theta, holding, blocks, ..Consolidate::usual() };
        io.clients.outstanding = outstanding;
        // Blocks that only the time-out posts do so all the time.
        let warmup = io.time_out.span() + Span::from_us(500);
        io.timing = Timing::of(warmup, Span::from_ms(1));
        io.into()
    }
}

/// How many times the rate of direct writes each of `all` has.
fn gains(ctx: &Ctx<'_>, all: &[Setting]) -> Result<Vec<f64>, NotYet> {
    let pairs: Vec<SystemWorkload> =
        all.iter().flat_map(|setting| [setting.workload(), setting.direct().workload()]).collect();
    let found = ctx.systems(CLUSTER, "fig8", &pairs)?;
    Ok(found.as_chunks::<2>().0.iter().map(|[held, direct]| held.mops / direct.mops).collect())
}

/// A curve of gains by what `x` says.
fn gained(
    ctx: &Ctx<'_>,
    name: &str,
    x: &str,
    points: &[u32],
    of: impl Fn(u32) -> Setting,
) -> Result<Curve, NotYet> {
    let settings: Vec<Setting> = points.iter().map(|x| of(*x)).collect();
    let points = points.iter().map(|x| f64::from(*x)).zip(gains(ctx, &settings)?).collect();
    Ok(curve("cluster21/fig8", name, CLUSTER, x, "times the rate of direct writes", points))
}

/// WRITEs for each write of the program: what the writer's NIC writes to memory is completions, one for each post.
fn posts(outcome: &Outcome) -> f64 {
    let completions = outcome.pcie.iter().find(|pcie| pcie.machine == 1).map_or(0, |pcie| pcie.itom);
    completions as f64 / (outcome.mops * 1e6 * outcome.measured.duration.span().as_secs_f64())
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let usual = Setting::of(THETA);
    let spans = |setting| Setting { holding: Holding::Shared, ..setting };
    // All are asked for before the first that is not known ends this.
    let explained = [usual, usual.direct()].map(|s| ctx.explain_system(CLUSTER, "fig8", &s.workload()));
    let curves = [
        gained(ctx, "whole blocks", "theta", &THETAS, Setting::of),
        gained(ctx, "spans", "theta", &THETAS, |theta| spans(Setting::of(theta))),
        gained(ctx, "whole blocks, theta 16", "blocks", &BLOCKS, |blocks| Setting { blocks, ..usual }),
        gained(ctx, "spans, theta 16", "blocks", &BLOCKS, |blocks| spans(Setting { blocks, ..usual })),
        gained(ctx, "whole blocks, theta 16, by outstanding", "outstanding", &OUTSTANDING, |outstanding| {
            Setting { outstanding, ..usual }
        }),
    ];
    let [held, direct] = explained;
    let (held, direct) = (held?, direct?);
    let curves = curves.into_iter().collect::<Result<Vec<_>, _>>()?;
    let checks = vec![theta_16(&held, &direct), consolidates(ctx)?, when(&curves)];
    Ok(Findings { checks, curves, ..Findings::default() })
}

fn theta_16(held: &Outcome, direct: &Outcome) -> Check {
    let blocks = held.mops / f64::from(THETA);
    let Setting { blocks: spread, outstanding, .. } = Setting::of(THETA);
    let note = format!(
        "16 times {:.2}: {blocks:.2} M blocks/s ({}), {:.2} M direct writes/s ({}); one thread, {spread} blocks of its own, posted whole, \
         {outstanding} outstanding",
        blocks / direct.mops,
        held.bottleneck.text,
        direct.mops,
        direct.bottleneck.text,
    );
    Check::number("cluster21-fig8-theta16", CLUSTER, held.mops / direct.mops).limited_by(held).note(note)
}

/// Theta writes are one WRITE.
fn consolidates(ctx: &Ctx<'_>) -> Result<Check, NotYet> {
    let workloads = THETAS.map(|theta| Setting::of(theta).workload());
    let found = ctx.systems(CLUSTER, "fig8", &workloads)?;
    let writes: Vec<(u32, f64)> = THETAS.into_iter().zip(found.iter().map(posts)).collect();
    let holds = writes.iter().all(|(theta, posts)| (posts * f64::from(*theta) - 1.0).abs() < 0.02);
    let seen: Vec<String> = writes
        .iter()
        .map(|(theta, posts)| format!("{:.2} writes a WRITE with theta {theta}", 1.0 / posts))
        .collect();
    Ok(Check::statement("cluster21-s3c-consolidate", CLUSTER, holds, seen.join(", ")))
}

/// Where writes spread over many blocks, each is posted by the time-out before it has many.
fn when(curves: &[Curve]) -> Check {
    let points = &curves[2].points;
    let gain = |at: usize| points.get(at).map_or(f64::NAN, |(_, gain)| *gain);
    let (few, many) = (gain(2), gain(points.len() - 1));
    let seen = format!(
        "{few:.2} times the rate over {} blocks, {many:.2} over {} with a time-out of 1 ms",
        BLOCKS[2],
        BLOCKS[BLOCKS.len() - 1]
    );
    Check::statement("cluster21-s3c-when", CLUSTER, few > 2.0 * many, seen)
}
