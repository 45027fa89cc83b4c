//! The bottleneck according to a single run. It is the nearest bound: the resource whose use, without the
//! time for which it waits for other resources, is closest to its capacity.
//!
//! `stations` are the parts of the machines that serve one thing at a time. `caches` has tables with a value
//! for each class of caches. `evidence` is everything that the rules in `rules` look at.

mod caches;
mod evidence;
mod rules;
mod stations;

use crate::asked::SystemWorkload;
use crate::results::{Bottleneck, RawRun, Shown, Utilization, rates};
use doorbell_nic::Profile;
use doorbell_sim::Metrics;
use doorbell_workload::{Profiles, Resolved};
use evidence::{Evidence, RunPace};

/// The bottleneck of a run of verbs.
pub(crate) fn of_verbs(profiles: &Profiles, w: &Resolved, run: &RawRun) -> Bottleneck {
    if run.shown.waits.is_some() {
        return nothing();
    }
    let pace = RunPace::of(rates(w, run).iter().sum(), &run.shown);
    let evidence = Evidence::of_verbs(profiles, w, run, pace);
    if_settled(&run.shown, rules::nearest(&evidence, &|machine| w.machine_name(machine)))
}

/// The bottleneck of a run of a system that completed `mops` million operations per second. `used` has the
/// resources that operations depend on.
pub(crate) fn of_system(
    profile: &Profile,
    w: &SystemWorkload,
    used: &[Utilization],
    metrics: &Metrics,
    (mops, shown): (f64, &Shown),
) -> Bottleneck {
    if shown.waits.is_some() {
        return nothing();
    }
    let evidence = Evidence::of_system(profile, w, used, metrics, RunPace::of(mops, shown));
    if_settled(shown, rules::nearest(&evidence, &|machine| format!("machine {machine}")))
}

/// The bottleneck, which is not confirmed if the run is not settled.
fn if_settled(shown: &Shown, found: Bottleneck) -> Bottleneck {
    if shown.certainty.may_differ() { found.unsettled() } else { found }
}

fn nothing() -> Bottleneck {
    Bottleneck::none("no operation completed".to_owned())
}
