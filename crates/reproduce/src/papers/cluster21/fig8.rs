//! CLUSTER'21, Figure 8 and III-C: writes of 32 bytes that are held back, compared with direct writes.
//!
//! The paper leaves open how many blocks the random writes spread over, how many posts are outstanding, and
//! which bytes of a block are posted. A curve shows the effect of each.

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

/// Values of theta in the figure, and 1 for direct writes.
const THETAS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Theta of the claim.
const THETA: u32 = 16;
/// Blocks that the writes spread over.
const BLOCKS: [u32; 8] = [1, 4, 16, 64, 256, 1024, 4096, 16_384];
/// Outstanding posts, or outstanding direct writes.
const OUTSTANDING: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The settings that the experiment varies.
#[derive(Clone, Copy)]
struct Setting {
    theta: u32,
    holding: Holding,
    blocks: u32,
    outstanding: u32,
}

impl Setting {
    /// The settings for the claims. [`Consolidate::usual`] chooses those that the paper leaves open.
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
        // The warm-up exceeds a time-out. After it, even blocks that are posted only by the time-out are
        // posted at a steady rate.
        let warmup = io.time_out.span() + Span::from_us(500);
        io.timing = Timing::of(warmup, Span::from_ms(1));
        io.into()
    }
}

/// Rate of each setting relative to the rate of direct writes.
fn gains(ctx: &Ctx<'_>, all: &[Setting]) -> Result<Vec<f64>, NotYet> {
    let pairs: Vec<SystemWorkload> =
        all.iter().flat_map(|setting| [setting.workload(), setting.direct().workload()]).collect();
    let found = ctx.systems(CLUSTER, "fig8", &pairs)?;
    Ok(found.as_chunks::<2>().0.iter().map(|[held, direct]| held.mops / direct.mops).collect())
}

/// A curve of gains by the quantity `x`.
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

/// Posted WRITEs per write of the program. They are counted by completions, because the writer's NIC writes
/// only completions to memory, one for each post.
fn posts(outcome: &Outcome) -> f64 {
    let completions = outcome.pcie.iter().find(|pcie| pcie.machine == 1).map_or(0, |pcie| pcie.itom);
    completions as f64 / (outcome.mops * 1e6 * outcome.measured.duration.span().as_secs_f64())
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let usual = Setting::of(THETA);
    let spans = |setting| Setting { holding: Holding::Shared, ..setting };
    // The context learns of all runs before the first unknown result returns.
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

/// Whether theta writes of the program become one WRITE.
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

/// Whether the gain depends on the number of blocks. With many blocks, the time-out posts each block after
/// only a few writes.
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
