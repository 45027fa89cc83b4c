//! Intervals that the model gives for the papers' numbers if profile parameters are drawn from their possible
//! values. The report says whether the papers' numbers lie within these intervals.

use crate::data::claims::{self, Claim, Value};
use crate::experiment::{Ctx, Experiment, Runs};
use crate::judge::claim_report::{Basis, ClaimReport};
use crate::judge::selector::Selection;
use crate::judge::sensitivity::numbers;
use doorbell_lab::SimulateError;
use doorbell_lab::median;
use doorbell_lab::uncertainty::{Drawn, quantiles, relative};
use doorbell_nic::Profile;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Seed of the draws.
const SEED: u64 = 1;

/// Intervals of the claims' numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Intervals {
    /// By claim: the interval that holds 90% of the draws, including the model's own error.
    pub claims: BTreeMap<String, [f64; 2]>,
    /// Coverage of the predicted numbers, for verbs and for systems.
    pub coverage: Vec<Coverage>,
}

/// Count of a group's numbers that lie within their intervals.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Coverage {
    /// Name of the group: `verbs` or `systems`.
    pub group: String,
    /// Count of numbers, each counted once.
    pub numbers: usize,
    /// Count of numbers within their intervals.
    pub within: usize,
    /// Median half width of the intervals, relative to their centres; `None` if there are no numbers.
    pub median_half: Option<f64>,
}

/// Intervals of the predicted claims for which a number was found.
///
/// # Errors
/// If a run fails or the user stops it.
pub fn intervals(
    ctx: &Ctx<'_>,
    selection: &Selection,
    found: &[ClaimReport],
) -> Result<Intervals, SimulateError> {
    let known: Vec<Profile> = ctx.profiles.iter().filter(|p| p.calibrated.is_some()).cloned().collect();
    let Ok(drawn) = Drawn::of(&known, SEED) else { return Ok(Intervals::default()) };
    let mut seen = BTreeSet::new();
    let told = found.iter().filter(|c| c.error.is_some() && c.basis == Basis::Predicted);
    // Other profiles have no drawn parameters, so findings on them have no intervals.
    let told = told.filter(|c| known.iter().any(|p| p.name == c.profile));
    let told = told.filter(|c| !claims::restatements().computed.contains_key(&c.id));
    let told: Vec<&ClaimReport> = told.filter(|c| seen.insert(claims::first_of_group(&c.id))).collect();
    let asked = |e: &&&Experiment| told.iter().any(|c| e.claims.contains(&&*c.id));
    let experiments: Vec<&Experiment> = selection.experiments.iter().filter(asked).copied().collect();
    let mut by_claim: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for profiles in &drawn.profiles {
        let own = |p: &Profile| profiles.iter().find(|drawn| drawn.name == p.name).unwrap_or(p).clone();
        let found = numbers(&ctx.of_rates(ctx.profiles.iter().map(own).collect()), &experiments)?;
        ctx.known.forget();
        found.into_iter().for_each(|(claim, number)| by_claim.entry(claim).or_default().push(number));
    }
    let mut all = Intervals::default();
    let mut groups: BTreeMap<bool, Vec<(bool, f64)>> = BTreeMap::new();
    for report in told {
        let (Some(numbers), Some(claim)) = (by_claim.get(&*report.id), claims::find(&report.id)) else {
            continue;
        };
        let of_system = selection.register.checking(&report.id).is_some_and(|e| e.runs == Runs::Systems);
        let interval = of(claim, numbers, drawn.model(of_system));
        let within = holds(claim, interval);
        let half = (interval[1] - interval[0]) / (interval[1] + interval[0]).abs().max(f64::MIN_POSITIVE);
        groups.entry(of_system).or_default().push((within, half));
        all.claims.insert(report.id.clone(), interval);
    }
    all.coverage = groups.into_iter().map(|(of_system, numbers)| coverage(of_system, numbers)).collect();
    Ok(all)
}

/// Interval of the drawn numbers of a claim. The model's error widens it. A ratio (`x`) or a percentage
/// compares two numbers that each carry this error.
fn of(claim: &Claim, numbers: &[f64], model: f64) -> [f64; 2] {
    let of_two = model * std::f64::consts::SQRT_2;
    match claim.unit.as_str() {
        "percent" => quantiles(numbers, of_two * 100.0),
        "x" => relative(numbers, of_two),
        _ => relative(numbers, model),
    }
}

/// Whether the interval overlaps the numbers that the claim allows.
fn holds(claim: &Claim, [least, most]: [f64; 2]) -> bool {
    let (low, high) = match (&claim.value, claim.allows()) {
        (_, Some(range)) => range,
        (Value::Number(number), None) => (*number, *number),
        _ => return false,
    };
    low <= most && least <= high
}

fn coverage(of_system: bool, numbers: Vec<(bool, f64)>) -> Coverage {
    let halves: Vec<f64> = numbers.iter().map(|(_, half)| *half).collect();
    Coverage {
        group: if of_system { "systems" } else { "verbs" }.to_owned(),
        numbers: numbers.len(),
        within: numbers.iter().filter(|(within, _)| *within).count(),
        median_half: median(&halves),
    }
}
