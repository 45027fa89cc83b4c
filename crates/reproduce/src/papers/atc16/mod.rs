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

use crate::experiment::{Ctx, Experiment};
use doorbell_lab::NotYet;
pub(super) use fig7::rpc as sequencer;
pub(super) use micro::atomics;

/// The number of a claim, found without the other runs of its experiment. `None` unless the claim is the rate
/// of one run, or is a claim in words that can be expressed as a number on `cluster`.
pub(crate) fn number(ctx: &Ctx<'_>, claim: &str, cluster: &str) -> Option<Result<f64, NotYet>> {
    let in_words = fig11b::number(ctx, claim, cluster).or_else(|| fig12::number(ctx, claim));
    if in_words.is_some() {
        return in_words;
    }
    if let Some(system) = fig7::system(claim) {
        return Some(ctx.systems("cib", claim, &[system]).map(|outcomes| outcomes[0].mops));
    }
    let of_cib = || tab4::ways(ctx.profile("cib"), claim).or_else(|| Some(vec![outbound::workload(claim)?]));
    let (cluster, ways) = tab5::ways(ctx, claim).or_else(|| Some(("cib", of_cib()?)))?;
    Some(micro::fastest(ctx, cluster, claim, &ways).map(|(_, outcome)| outcome.mops))
}

/// Smallest and largest [`number`] with which the claim holds on `cluster`. `None` unless the claim is in
/// words, or its own number takes many runs.
pub(crate) fn range(claim: &str, cluster: &str) -> Option<(f64, f64)> {
    fig11b::range(claim, cluster).or_else(|| fig12::range(claim))
}

/// Experiments of ATC'16, in the order of the paper.
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
