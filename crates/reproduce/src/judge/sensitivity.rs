//! Sensitivity of numbers to each calibrated parameter.

use crate::experiment::{Ctx, Experiment, Found, Runs};
use crate::judge::selector::Selection;
use doorbell_lab::SimulateError;
use doorbell_nic::Basis;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Effect of 10% more of one parameter.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Sensitivity {
    /// Profile of the parameter.
    pub profile: String,
    /// Name of the parameter, such as `tx.send_ns`.
    pub parameter: String,
    /// By claim: relative change of its number, if at least 0.1%. For example, 0.05 means 5% more.
    pub claims: BTreeMap<String, f64>,
}

/// Factor by which a parameter is raised.
const MORE: f64 = 1.1;

/// Least relative change that is reported.
const LEAST: f64 = 0.001;

/// Experiments of ATC'16 that are left out. They find no numbers, or they find windows and address bits, and
/// these do not change by a few percent.
const LEFT_OUT: [&str; 5] = ["fig13", "locks", "clients", "designs", "speculation"];

fn is_left_out(experiment: &Experiment) -> bool {
    experiment.paper == "atc16" && LEFT_OUT.contains(&experiment.name)
}

/// Sensitivity to every calibrated parameter of every profile. Only rates count, so bottlenecks are not
/// observed.
pub(crate) fn of(ctx: &Ctx<'_>, selection: &Selection) -> Result<Vec<Sensitivity>, SimulateError> {
    let base = numbers(&ctx.of_rates(ctx.profiles.clone()), &selection.experiments)?;
    let mut all = Vec::new();
    for (i, profile) in ctx.profiles.iter().enumerate() {
        let calibrated = profile.parameters.iter().filter(|p| matches!(p.basis, Basis::Calibrated { .. }));
        for parameter in calibrated {
            // A parameter that cannot be raised by 10% is left out.
            let Ok(moved) = profile.with_more(&parameter.name, MORE) else { continue };
            let mut profiles = ctx.profiles.clone();
            profiles[i] = moved;
            let found = numbers(&ctx.of_rates(profiles), &selection.experiments)?;
            all.push(Sensitivity {
                profile: profile.name.clone(),
                parameter: parameter.name.clone(),
                claims: changes(&base, &found),
            });
        }
    }
    Ok(all)
}

pub(super) fn numbers(
    ctx: &Ctx<'_>,
    experiments: &[&Experiment],
) -> Result<BTreeMap<&'static str, f64>, SimulateError> {
    let mut numbers = BTreeMap::new();
    let moving = experiments.iter().filter(|e| e.runs != Runs::None && !is_left_out(e));
    let moving: Vec<&Experiment> = moving.copied().collect();
    for check in ctx.find(&moving)?.into_iter().flatten().flat_map(|findings| findings.checks) {
        if let Found::Number(n) = check.found {
            numbers.insert(check.claim, n);
        }
    }
    Ok(numbers)
}

fn changes(base: &BTreeMap<&str, f64>, moved: &BTreeMap<&str, f64>) -> BTreeMap<String, f64> {
    let change = |(id, from): (&&str, &f64)| Some(((*id).to_owned(), moved.get(id)? / from - 1.0));
    base.iter().filter_map(change).filter(|(_, change)| change.abs() >= LEAST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_moves_is_told() {
        let base = BTreeMap::from([("a", 10.0), ("b", 10.0), ("c", 10.0)]);
        let moved = BTreeMap::from([("a", 9.5), ("b", 10.001), ("d", 1.0)]);
        let found = changes(&base, &moved);
        assert_eq!(found.len(), 1);
        assert!((found["a"] + 0.05).abs() < 1e-12);
    }
}
