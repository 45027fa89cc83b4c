//! The data that a profile is set from, and the model's results for them with other values of its parameters.

use crate::data::claims::{self, Claim, Qualifier, Value};
use crate::data::measurements::{self, Measurement, Role};
use crate::experiment::{Check, Ctx, Experiment, Found};
use crate::papers::{self, REGISTER};
use doorbell_lab::NotYet;
use doorbell_lab::SimulateError;
use doorbell_nic::{Basis, Parameter, Profile};
use doorbell_systems::System;
use doorbell_systems::ping_pong::PingPong;
use doorbell_verbs::RunError;
use std::collections::BTreeSet;

/// Relative standard error of a measurement of verbs. It covers both the measurement and the model.
pub const ERROR_OF_VERBS: f64 = 0.03;

/// Relative standard error of a measurement that no paper prints. Its program is known, but some settings are
/// not.
pub const ERROR_OF_RUNS: f64 = 0.05;

/// Relative standard error of a measurement of a system: the paper leaves out much about the program.
pub const ERROR_OF_SYSTEMS: f64 = 0.1;

/// Measured value that the model should reproduce.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// A number.
    Number(f64),
    /// A number between two ends.
    Between(f64, f64),
    /// A statement that holds.
    Holds,
}

impl Target {
    /// Distance of a finding from the target, in units of the relative standard error `error`.
    pub fn residual(self, found: f64, error: f64) -> f64 {
        let beyond = |target: f64| (found.max(f64::MIN_POSITIVE) / target).ln() / error;
        match self {
            Target::Number(number) => beyond(number),
            Target::Between(least, most) => outside(beyond(most)) - outside(-beyond(least)),
            Target::Holds if found == 0.0 => BROKEN,
            Target::Holds => 0.0,
        }
    }
}

/// Residual of a statement that does not hold, in standard errors.
const BROKEN: f64 = 3.0;

/// Residual of a number that lies `beyond` standard errors outside an end of a range: almost `beyond` far
/// outside, one half at the end, almost 0 far inside. The function has no corner at the end, so its slope
/// shows from inside that the end is near.
fn outside(beyond: f64) -> f64 {
    // For an end at infinity, the formula would add minus infinity and infinity.
    if beyond == f64::NEG_INFINITY { 0.0 } else { (beyond + (beyond * beyond + 1.0).sqrt()) / 2.0 }
}

/// A datum that the model should reproduce.
#[derive(Clone, Debug, PartialEq)]
pub struct Datum {
    /// Id of the claim or of the measurement.
    pub id: String,
    /// Value that the model should reproduce.
    pub target: Target,
    /// Relative standard error of the datum.
    pub error: f64,
    source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Claim,
    Run(&'static Measurement),
}

impl Datum {
    /// A datum for tests of the fit. No experiment observes it.
    pub fn new(id: &str, target: Target, error: f64) -> Datum {
        Datum { id: id.to_owned(), target, error, source: Source::Claim }
    }

    fn of_claim(profile: &Profile, id: &str, error: f64) -> Result<Datum, String> {
        let claim = claims::find(id).ok_or_else(|| format!("there is no claim {id}"))?;
        let in_words = papers::range(id, &profile.name).map(|(least, most)| Target::Between(least, most));
        let target = in_words.unwrap_or_else(|| target(claim));
        Ok(Datum { id: id.to_owned(), target, error, source: Source::Claim })
    }

    fn of_run(id: &str, error: f64) -> Result<Datum, String> {
        let found = measurements::all().find(|(m, _)| m.id == id);
        match found {
            Some((m, Role::Usable)) => {
                let target = Target::Number(m.mops);
                Ok(Datum { id: id.to_owned(), target, error, source: Source::Run(m) })
            }
            Some((_, role)) => Err(format!("{id} is {}, and no parameter is set from it", role.name())),
            None => Err(format!("there is no measurement {id}")),
        }
    }
}

/// The target of a claim. A number that the paper states as an upper bound is the highest measured number, so
/// it is a target like any other.
fn target(claim: &Claim) -> Target {
    match (&claim.value, claim.qualifier, claim.allows()) {
        (Value::Number(_), Some(Qualifier::AtLeast | Qualifier::GreaterThan), Some((low, high)))
        | (_, Some(Qualifier::Range), Some((low, high))) => Target::Between(low, high),
        (Value::Number(number), ..) => Target::Number(*number),
        _ => Target::Holds,
    }
}

/// Data for the parameters of a profile that have a range. A claim is left out if only hand-set parameters
/// name it, because hand-set parameters are not set again.
///
/// # Errors
/// If a datum is unknown, or is for checking: one sentence.
pub fn data(profile: &Profile) -> Result<Vec<Datum>, String> {
    let mut data = Vec::new();
    for of in &profile.measured.verbs {
        for id in &of.claims {
            data.push(Datum::of_claim(profile, id, ERROR_OF_VERBS)?);
        }
        for id in &of.runs {
            data.push(Datum::of_run(id, ERROR_OF_RUNS)?);
        }
    }
    for of in &profile.measured.systems {
        // Ping-pong measures the latency of verbs, as perftest does.
        let error = if of.system == PingPong::NAME { ERROR_OF_VERBS } else { ERROR_OF_SYSTEMS };
        for id in &of.claims {
            data.push(Datum::of_claim(profile, id, error)?);
        }
        for id in &of.runs {
            data.push(Datum::of_run(id, error)?);
        }
    }
    let mut seen = BTreeSet::new();
    data.retain(|datum| seen.insert(datum.id.clone()) && !is_of_hand(profile, &datum.id));
    Ok(data)
}

/// Whether only hand-set parameters name a claim.
fn is_of_hand(profile: &Profile, id: &str) -> bool {
    let names = |p: &&Parameter| matches!(&p.basis, Basis::Calibrated { claims, .. } if claims.iter().any(|c| c == id));
    let mut naming = profile.parameters.iter().filter(names).peekable();
    naming.peek().is_some() && naming.all(|p| p.range().is_none())
}

/// Observes `data` once for each variant. A variant replaces the cluster of its name. Results are numbers in
/// the units of the data. A statement gives 1 if it holds and 0 if not.
///
/// # Errors
/// If a run fails or the user stops it.
pub fn observe(ctx: &Ctx<'_>, variants: &[Profile], data: &[Datum]) -> Result<Vec<Vec<f64>>, SimulateError> {
    let with = |variant: &Profile| {
        let replaced = |p: &Profile| if p.name == variant.name { variant.clone() } else { p.clone() };
        ctx.of_rates(ctx.profiles.iter().map(replaced).collect())
    };
    let all: Vec<Ctx<'_>> = variants.iter().map(with).collect();
    let found = ctx.find_all(all.len(), |i| observed(&all[i], &variants[i], data))?;
    ctx.known.forget();
    found.into_iter().map(|numbers| numbers.ok_or_else(|| RunError::Interrupted.into())).collect()
}

/// Observes `data` on one variant. Returns [`NotYet`] until all runs are known.
fn observed(ctx: &Ctx<'_>, profile: &Profile, data: &[Datum]) -> Result<Vec<f64>, NotYet> {
    // The context learns of all runs before the first unknown result returns.
    let alone: Vec<Option<Result<f64, NotYet>>> =
        data.iter().map(|datum| alone(ctx, profile, datum)).collect();
    let rest: Vec<&Datum> =
        data.iter().zip(&alone).filter(|(_, rate)| rate.is_none()).map(|(d, _)| d).collect();
    let found: Vec<_> = experiments(&rest).into_iter().map(|e| (e.run)(ctx)).collect();
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let checks: Vec<Check> = found.into_iter().flat_map(|findings| findings.checks).collect();
    let found = |(datum, rate): (&Datum, Option<Result<f64, NotYet>>)| {
        rate.unwrap_or_else(|| Ok(number(&checks, datum, profile)))
    };
    data.iter().zip(alone).map(found).collect()
}

/// The result for a datum that needs no whole experiment.
fn alone(ctx: &Ctx<'_>, profile: &Profile, datum: &Datum) -> Option<Result<f64, NotYet>> {
    match datum.source {
        Source::Claim => papers::number(ctx, &datum.id, &profile.name),
        Source::Run(m) => match papers::found(ctx, m) {
            Ok(found) => found.map(|(mops, _)| Ok(mops)),
            Err(not_yet) => Some(Err(not_yet)),
        },
    }
}

/// Experiments that check at least one of the claims.
fn experiments(data: &[&Datum]) -> Vec<&'static Experiment> {
    let checks = |e: &&Experiment| data.iter().any(|d| e.claims.contains(&d.id.as_str()));
    REGISTER.experiments.iter().copied().filter(checks).collect()
}

fn number(checks: &[Check], datum: &Datum, profile: &Profile) -> f64 {
    let of_claim = |c: &&Check| c.claim == datum.id;
    let check = checks.iter().find(of_claim).unwrap_or_else(|| panic!("no experiment checks {}", datum.id));
    let of_cluster = check.of_each.iter().find(|(cluster, _)| *cluster == profile.name);
    match (&check.found, of_cluster) {
        (_, Some((_, number))) | (Found::Number(number), None) => *number,
        // Use the upper end of a range, because papers say more about upper ends.
        (Found::Range { low, high }, None) => high.or(*low).unwrap_or(f64::NAN),
        (Found::Flag(holds) | Found::Statement { holds, .. }, None) => f64::from(u8::from(*holds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_set_from_what_is_known_and_usable() {
        for name in Profile::names() {
            let profile = Profile::named(name).unwrap();
            let data = data(&profile).unwrap_or_else(|error| panic!("{name}: {error}"));
            for datum in data.iter().filter(|d| d.source == Source::Claim) {
                let checked = REGISTER.checking(&datum.id).is_some();
                assert!(checked, "{name}: no experiment checks {}", datum.id);
            }
        }
    }

    #[test]
    fn what_is_for_checking_sets_nothing() {
        let (checking, _) = measurements::all().find(|(_, role)| *role == Role::Checking).unwrap();
        let error = Datum::of_run(&checking.id, 0.1).unwrap_err();
        assert!(error.contains("is checking, and no parameter is set from it"), "{error}");
        assert!(Datum::of_claim(&Profile::named("cib").unwrap(), "no-claim", 0.1).is_err());
    }

    #[test]
    fn a_range_without_an_upper_end_is_kept_above_its_lower_end() {
        let residual = |found| Target::Between(2.0, f64::INFINITY).residual(found, 0.1);
        assert!(residual(1.0) < -5.0 && residual(100.0).abs() < 0.1, "{} {}", residual(1.0), residual(100.0));
    }

    #[test]
    fn numbers_are_met_and_ranges_kept() {
        let target = |id: &str| target(claims::find(id).unwrap());
        assert_eq!(target("atc16-tab4-read-64"), Target::Number(121.6));
        assert_eq!(target("atc16-out-read"), Target::Number(88.0));
        assert_eq!(target("atc16-mq-4qp"), Target::Between(2.0, 3.2));
        assert_eq!(target("atc16-mq-nonbatch-flat"), Target::Holds);
    }
}
