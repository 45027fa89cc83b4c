//! Reruns with more of one resource each.

use super::asker::{Asker, Depth, Lifted, gain};
use crate::plan::Run;
use crate::results::{Gain, Outcome};
use doorbell_nic::{More, Resource};

/// Factor by which counted resources are increased.
const TIMES: u32 = 2;

/// A cache with misses is usually large enough at this multiple of its size. Smaller steps may show nothing:
/// if entries are used in turn, all lookups miss until all entries fit.
const FITS: u32 = 64;

/// A cache may limit the rate if at least this share of its lookups misses.
const MISSES: f64 = 0.01;

/// Gains from more of each resource. `run` has the measured time of `base`.
pub(super) fn singles<E>(
    base: &Outcome,
    run: &Run,
    depth: Depth,
    ask: &mut Asker<'_, E>,
) -> Result<Vec<Lifted>, E> {
    let exists = |resource: &Resource| run.profiles.all().any(|profile| resource.is_of(profile));
    let mut wanted: Vec<More> = Resource::FASTER.into_iter().filter(exists).map(More::Tenth).collect();
    if depth == Depth::Whole {
        wanted.extend(Resource::COUNTED.map(|resource| More::Times(resource, TIMES)));
    }
    let mut lifts = each(base, run, &wanted, ask)?;
    if depth == Depth::Tenths {
        // Without intervals, because claims name the larger of two gains, however small the difference is.
        lifts.iter_mut().filter_map(|(_, gain)| gain.as_mut()).for_each(|gain| gain.half = None);
    }
    if depth == Depth::Whole {
        let missing = Resource::COUNTED.into_iter().filter(|r| r.is_cache() && misses(base, *r) >= MISSES);
        let larger: Vec<More> = missing.map(|cache| More::Times(cache, FITS)).collect();
        lifts.extend(each(base, run, &larger, ask)?);
    }
    Ok(lifts)
}

fn each<E>(base: &Outcome, run: &Run, wanted: &[More], ask: &mut Asker<'_, E>) -> Result<Vec<Lifted>, E> {
    let (same, other): (Vec<More>, Vec<More>) =
        wanted.iter().partition(|more| is_without_effect(base, run, more.resource()));
    let runs: Vec<(String, Run)> = other.iter().map(|more| (more.to_string(), run.with(&[*more]))).collect();
    let made = ask(&runs)?.into_iter().map(|ran| Some(gain(base, &ran?)));
    let mut lifts: Vec<Lifted> = other.into_iter().zip(made).collect();
    lifts.extend(same.into_iter().map(|more| (more, Some(Gain::NONE))));
    Ok(lifts)
}

/// Whether a rerun with more of this resource would only repeat the run.
fn is_without_effect(base: &Outcome, run: &Run, resource: Resource) -> bool {
    base.without_effect.contains(&resource) || !run.may_use(resource)
}

/// The share of a cache's lookups that missed, over all machines.
pub(super) fn misses(base: &Outcome, cache: Resource) -> f64 {
    let those = base.caches.iter().filter(|c| c.cache.resource() == cache);
    let (hits, misses) = those.fold((0, 0), |(hits, misses), c| (hits + c.hits, misses + c.misses));
    if misses == 0 { 0.0 } else { misses as f64 / (hits + misses) as f64 }
}

/// Weight of an increase, from its gain. Pages call it elasticity. The weight is 1 if the rate grows in
/// proportion to the resource. An increase of a cache counts as 10% by any factor, because a slightly larger
/// cache may hold all entries.
pub(super) fn weight(more: More, gain: Gain) -> f64 {
    match more {
        More::Times(resource, times) if !resource.is_cache() => gain.gain.ln_1p() / f64::from(times).ln(),
        _ => gain.gain / 0.1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_that_sets_the_rate_weighs_one() {
        let gain = |gain| Gain { gain, half: None };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(weight(More::Tenth(Resource::DmaBandwidth), gain(0.1)), 1.0));
        assert!(close(weight(More::Times(Resource::TxUnits, 2), gain(1.0)), 1.0));
        let twice_the_units = weight(More::Times(Resource::TxUnits, 2), gain(0.15));
        assert!(twice_the_units < weight(More::Tenth(Resource::DmaBandwidth), gain(0.08)));
        assert!(weight(More::Times(Resource::QpContextCache, 2), gain(3.0)) > 1.0);
    }
}
