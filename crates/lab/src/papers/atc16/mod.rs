//! *Design Guidelines for High Performance RDMA Systems* (ATC'16).

mod app_a;
mod caches;
mod clients;
mod designs;
mod fig10;
mod fig11a;
mod fig11b;
mod fig12;
mod fig13;
mod fig14;
mod fig2;
mod fig5;
mod fig6;
mod fig7;
mod fig8;
mod fig9;
#[cfg(test)]
mod flips;
mod inline_recv;
mod locks;
mod micro;
mod outbound;
mod speculation;
mod tab1;
mod tab2;
mod tab3;
mod tab4;
mod tab5;

use super::{Ctx, Experiment};
use crate::plan::NotYet;
pub(super) use fig7::rpc as sequencer;
pub(crate) use fig11b::range;
pub(super) use micro::atomics;

/// The number of a claim that is the rate of one run, or that is in words and a number of a cluster in truth, without the other
/// runs of its experiment; none of another claim.
pub(crate) fn number(ctx: &Ctx<'_>, claim: &str, cluster: &str) -> Option<Result<f64, NotYet>> {
    if let Some(number) = fig11b::number(ctx, claim, cluster) {
        return Some(number);
    }
    if let Some(system) = fig7::system(claim) {
        return Some(ctx.systems("cib", claim, &[system]).map(|outcomes| outcomes[0].mrps));
    }
    let of_cib = || tab4::workload(ctx.profile("cib"), claim).or_else(|| outbound::workload(claim));
    let (cluster, workload) = tab5::workload(ctx, claim).or_else(|| Some(("cib", of_cib()?)))?;
    Some(ctx.measure(cluster, claim, &[workload]).map(|outcomes| outcomes[0].mops))
}

/// Its experiments, in its order.
pub(super) const ALL: &[&Experiment] = &[
    &fig2::EXPERIMENT,
    &tab1::EXPERIMENT,
    &fig5::EXPERIMENT,
    &fig6::EXPERIMENT,
    &tab2::EXPERIMENT,
    &fig7::EXPERIMENT,
    &tab3::EXPERIMENT,
    &fig8::EXPERIMENT,
    &fig9::EXPERIMENT,
    &fig10::EXPERIMENT,
    &clients::EXPERIMENT,
    &designs::EXPERIMENT,
    &speculation::EXPERIMENT,
    &tab4::EXPERIMENT,
    &fig11a::EXPERIMENT,
    &fig11b::EXPERIMENT,
    &tab5::EXPERIMENT,
    &inline_recv::EXPERIMENT,
    &fig12::EXPERIMENT,
    &outbound::EXPERIMENT,
    &fig13::EXPERIMENT,
    &caches::EXPERIMENT,
    &fig14::EXPERIMENT,
    &locks::EXPERIMENT,
    &app_a::EXPERIMENT,
];
