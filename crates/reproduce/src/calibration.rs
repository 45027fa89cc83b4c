//! The data that a profile is set from, and what the model makes of them with other values of its parameters.

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

/// Relative standard error that a measurement of verbs is given: of how it was taken, and of the model.
pub const ERROR_OF_VERBS: f64 = 0.03;

/// That of a measurement that no paper prints: its programs are known, but not all of their settings.
pub const ERROR_OF_RUNS: f64 = 0.05;

/// That of a system: much of what its program does is not stated.
pub const ERROR_OF_SYSTEMS: f64 = 0.1;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// A number.
    Number(f64),
    /// A number between these.
    Between(f64, f64),
    /// That something holds.
    Holds,
}

impl Target {
    /// How far what was found is from it, in relative standard errors of `error`.
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

/// Standard errors that a statement counts which does not hold.
const BROKEN: f64 = 3.0;

/// How far what lies `beyond` an end of a range counts: wholly far outside, half at the end, nothing far inside. A corner there would hide from slopes
/// what lies behind it.
fn outside(beyond: f64) -> f64 {
    (beyond + (beyond * beyond + 1.0).sqrt()) / 2.0
}

/// What is to come out.
#[derive(Clone, Debug, PartialEq)]
pub struct Datum {
    /// The claim, or the measurement.
    pub id: String,
    /// What it says.
    pub target: Target,
    /// How far off a number may be: its relative standard error.
    pub error: f64,
    source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Claim,
    Run(&'static Measurement),
}

impl Datum {
    /// A statement for tests of what fits data: nothing can be found for it here.
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

/// A number that is the highest seen was measured as well as any other.
fn target(claim: &Claim) -> Target {
    match (&claim.value, claim.qualifier, claim.allows()) {
        (Value::Number(_), Some(Qualifier::AtLeast | Qualifier::GreaterThan), Some((low, high)))
        | (_, Some(Qualifier::Range), Some((low, high))) => Target::Between(low, high),
        (Value::Number(number), ..) => Target::Number(*number),
        _ => Target::Holds,
    }
}

/// The data that a profile says its parameters are set from that have a range; what was set by hand is not set again.
///
/// # Errors
/// If one of them is not known, or for checking: one sentence.
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
        // A test of verbs' latency, as perftest has it.
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

/// Whether only parameters that were set by hand name a claim.
fn is_of_hand(profile: &Profile, id: &str) -> bool {
    let names = |p: &&Parameter| matches!(&p.basis, Basis::Calibrated { claims, .. } if claims.iter().any(|c| c == id));
    let mut naming = profile.parameters.iter().filter(names).peekable();
    naming.peek().is_some() && naming.all(|p| p.range().is_none())
}

/// What is found for `data` where the cluster of their names is each of `variants`: numbers in the units of the data, and 1 where a
/// statement holds, else 0.
///
/// # Errors
/// If a run fails or somebody stops it.
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

/// Of one of them, once all runs are known.
fn observed(ctx: &Ctx<'_>, profile: &Profile, data: &[Datum]) -> Result<Vec<f64>, NotYet> {
    // All are asked for before the first that is not known ends this.
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

/// What is found for a datum that needs no whole experiment.
fn alone(ctx: &Ctx<'_>, profile: &Profile, datum: &Datum) -> Option<Result<f64, NotYet>> {
    match datum.source {
        Source::Claim => papers::number(ctx, &datum.id, &profile.name),
        Source::Run(m) => match papers::found(ctx, m) {
            Ok(found) => found.map(|(mops, _)| Ok(mops)),
            Err(not_yet) => Some(Err(not_yet)),
        },
    }
}

/// Experiments that check one of the claims.
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
        // Of both ends the one that more is said of.
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
    fn numbers_are_met_and_ranges_kept() {
        let target = |id: &str| target(claims::find(id).unwrap());
        assert_eq!(target("atc16-tab4-read-64"), Target::Number(121.6));
        assert_eq!(target("atc16-out-read"), Target::Number(88.0));
        assert_eq!(target("atc16-mq-4qp"), Target::Between(2.0, 3.2));
        assert_eq!(target("atc16-mq-nonbatch-flat"), Target::Holds);
    }
}
