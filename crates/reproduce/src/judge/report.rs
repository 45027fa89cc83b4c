//! The report of `reproduce`: each claim and its finding.

use crate::data::bottlenecks::BottleneckPair;
use crate::data::claims::{self, Claim, Kind, TOLERANCE, Value};
use crate::data::holdout;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Found, Runs};
use crate::judge::accuracy::{self, Accuracy};
use crate::judge::checked::{self, CheckedClaims, Headline};
use crate::judge::claim_report::{Basis, ClaimReport, Explained, NotChecked};
use crate::judge::intervals::Intervals;
use crate::judge::measured::MeasuredReport;
use crate::judge::selector::Selection;
use crate::judge::sensitivity::{self, Sensitivity};
use doorbell_lab::NotYet;
use doorbell_lab::SimulateError;
use doorbell_lab::Taken;
use doorbell_nic::{Basis as ParameterBasis, Profile};
use doorbell_schema::Share;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Version of the JSON of a [`Report`]. Within a version, fields are only added. Since version 2, `measured`
/// is a list.
pub const REPORT_SCHEMA: u32 = 2;

/// Count of a profile's parameters by origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ParameterCounts {
    /// Parameters that a source states.
    pub published: usize,
    /// Parameters that were set from measurements.
    pub calibrated: usize,
    /// Parameters that were chosen.
    pub assumed: usize,
}

/// Result of `reproduce`, in the form of its JSON.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this JSON.
    pub schema: u32,
    /// Claims that were checked.
    pub claims: Vec<ClaimReport>,
    /// Curves behind the claims.
    pub curves: Vec<Curve>,
    /// Selected claims that no experiment checks.
    pub not_checked: Vec<NotChecked>,
    /// Counts of checked claims for each paper, without hardware parameters.
    pub checked: Vec<CheckedClaims>,
    /// Speed-ups in CLUSTER'21's abstract that were found.
    pub headlines: Vec<Headline>,
    /// Agreement of the numbers, each counted once.
    pub accuracy: Vec<Accuracy>,
    /// Effect of each calibrated parameter on each number; empty unless requested.
    pub sensitivity: Vec<Sensitivity>,
    /// Intervals of the predicted numbers; absent unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// Measurements that no paper prints, set by set; absent unless requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<MeasuredReport>,
    /// Count of parameters of each profile.
    pub parameters: BTreeMap<String, ParameterCounts>,
    /// Precision at which each run ends; `None` if runs take the times that experiments state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub precision: Option<Share>,
    /// Count of runs, including runs with a relaxed resource.
    pub runs: usize,
    /// Count of runs that should have settled and did not.
    pub unsettled: usize,
    /// Results that came from the store; `None` if there is no store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<Taken>,
    /// Whether the user or `--max-wall` stopped the runs early, so that experiments or other requested parts
    /// are missing; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Experiments without result: they were stopped early, or nothing completed in one of their runs. Absent
    /// if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingExperiment>,
}

/// A selected experiment without result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MissingExperiment {
    /// Selector of the experiment: `atc16/tab4`.
    pub experiment: String,
    /// Selected claims that it would have checked.
    pub claims: Vec<String>,
    /// Reason why it has no result; absent if it was stopped early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl MissingExperiment {
    /// The entry of an experiment without findings. This function runs the experiment's function again to get
    /// the reason.
    fn of(experiment: &Experiment, selection: &Selection, ctx: &Ctx<'_>) -> MissingExperiment {
        let why = match (experiment.run)(ctx) {
            Err(NotYet::Nothing(why)) => Some(why),
            _ => None,
        };
        let claims = experiment.claims.iter().filter(|claim| selection.wants(claim));
        MissingExperiment {
            experiment: format!("{}/{}", experiment.paper, experiment.name),
            claims: claims.map(|claim| (*claim).to_owned()).collect(),
            why,
        }
    }
}

/// Receives the index of a selected experiment, and its selected claims with their findings.
pub type EachExperiment<'a> = dyn Fn(usize, &[ClaimReport]) + Sync + 'a;

/// Runs the selected experiments and compares their findings with the claims. If the runs are cut short, the
/// report holds the experiments that finished. `each` receives experiments in order, as soon as they and all
/// experiments before them are finished. It may be called from several threads, and not for every experiment.
///
/// # Errors
/// If a run fails.
pub fn reproduce(
    ctx: &Ctx<'_>,
    selection: &Selection,
    each: &EachExperiment<'_>,
) -> Result<Report, SimulateError> {
    let settled = claims::settled_by(ctx.profiles.iter().flat_map(calibrated_from));
    let mut report = Report {
        schema: REPORT_SCHEMA,
        claims: Vec::new(),
        curves: Vec::new(),
        not_checked: selection.not_checked(),
        checked: Vec::new(),
        headlines: Vec::new(),
        accuracy: Vec::new(),
        sensitivity: Vec::new(),
        intervals: None,
        measured: Vec::new(),
        parameters: ctx.profiles.iter().map(|p| (p.name.clone(), count(p))).collect(),
        precision: ctx.precision,
        runs: 0,
        unsettled: 0,
        stored: None,
        interrupted: false,
        missing: Vec::new(),
    };
    let claims_of = |experiment: &Experiment, findings: &Findings| -> Vec<ClaimReport> {
        let wanted = findings.checks.iter().filter(|c| selection.wants(c.claim));
        let known = |c: &Check| claims::find(c.claim).unwrap_or_else(|| no_claim(c));
        wanted.map(|c| compare(experiment, c, known(c), &settled)).collect()
    };
    let found = ctx.find_each(&selection.experiments, &|at, findings| {
        each(at, &claims_of(selection.experiments[at], findings));
    })?;
    for (experiment, findings) in selection.experiments.iter().zip(found) {
        let Some(findings) = findings else {
            let missing = MissingExperiment::of(experiment, selection, ctx);
            report.interrupted |= missing.why.is_none();
            report.missing.push(missing);
            continue;
        };
        report.claims.extend(claims_of(experiment, &findings));
        report.curves.extend(findings.curves.into_iter().map(Curve::of_numbers));
        if experiment.is_of_measurements() {
            report.measured.push(MeasuredReport::of(experiment.paper, findings.measured));
        }
    }
    report.checked = checked::of(selection, &report.claims);
    report.headlines = checked::headlines(&report.claims);
    report.accuracy = accuracy::of(&report.claims);
    if ctx.full && !report.interrupted {
        report.sensitivity = sensitivity::of(ctx, selection)?;
    }
    (report.runs, report.unsettled) = ctx.known.counts();
    report.stored = ctx.known.taken();
    Ok(report)
}

/// Runs one experiment and compares its findings with `claims`. The experiment need not be in the register.
/// The list is empty if the user stopped the experiment. The run uses no store, because the experiment may
/// run programs of another crate: the name of a stored result depends on Doorbell's own sources only.
///
/// # Errors
/// If a run fails.
///
/// # Panics
/// If the experiment checks something that is not in `claims`.
pub fn judge(
    ctx: &Ctx<'_>,
    experiment: &Experiment,
    claims: &[Claim],
) -> Result<Vec<ClaimReport>, SimulateError> {
    let settled = claims::settled_by(ctx.profiles.iter().flat_map(calibrated_from));
    let found =
        ctx.unstored().find(&[experiment])?.into_iter().flatten().flat_map(|findings| findings.checks);
    let known = |c: &Check| claims.iter().find(|claim| claim.id == c.claim).unwrap_or_else(|| no_claim(c));
    Ok(found.map(|check| compare(experiment, &check, known(&check), &settled)).collect())
}

fn no_claim(check: &Check) -> ! {
    panic!("experiments check claims only, not {}", check.claim)
}

/// Ids of the claims that a profile was set from.
fn calibrated_from(profile: &Profile) -> impl Iterator<Item = String> {
    profile.calibrated_claims().into_iter().map(str::to_owned)
}

fn count(profile: &Profile) -> ParameterCounts {
    let mut counts = ParameterCounts::default();
    for parameter in &profile.parameters {
        match parameter.basis {
            ParameterBasis::Published { .. } => counts.published += 1,
            ParameterBasis::Calibrated { .. } => counts.calibrated += 1,
            ParameterBasis::Assumed { .. } => counts.assumed += 1,
            ParameterBasis::Set { .. } => unreachable!("claims are checked with profiles as they are"),
        }
    }
    counts
}

fn basis(claim: &Claim, formula: bool, settled: &BTreeSet<String>) -> Basis {
    match claim.kind {
        _ if claim.paper == claims::OURS => Basis::Ours,
        Kind::HardwareParameter => Basis::Given,
        // A claim that is computed from measured claims has their basis, although it follows from a formula.
        Kind::Analytic if !claims::restatements().computed.contains_key(&claim.id) => Basis::Analytic,
        _ if claims::restatements().taken_over.contains(&claim.id) => Basis::Given,
        // If an ordering or a shape needs no simulation, it follows from formulas, too.
        _ if formula => Basis::Analytic,
        _ if settled.contains(&claim.id) => Basis::Calibrated,
        _ => Basis::Predicted,
    }
}

/// Text for a number that is not finite, such as a ratio to zero.
const NO_NUMBER: &str = "no number, because the divisor is zero";

/// Text of a range, such as `1.00..2.00`. An exempt end is left out.
fn ends(low: Option<f64>, high: Option<f64>) -> String {
    let end = |end: Option<f64>| end.map_or_else(String::new, |end| format!("{end:.2}"));
    format!("{}..{}", end(low), end(high))
}

fn compare(experiment: &Experiment, check: &Check, claim: &Claim, settled: &BTreeSet<String>) -> ClaimReport {
    let id = claim.id.as_str();
    let (simulated, error, holds) = match &check.found {
        found if !found.is_finite() => (Value::Text(NO_NUMBER.to_owned()), None, false),
        Found::Number(n) => {
            let error = claim.error(*n);
            (Value::Number(*n), error, error.is_some_and(|e| e <= TOLERANCE))
        }
        Found::Range { low, high } => {
            let error = claim.error_of_ends(*low, *high);
            (Value::Text(ends(*low, *high)), error, error.is_some_and(|e| e <= TOLERANCE))
        }
        Found::Flag(flag) => (Value::Flag(*flag), None, claim.value == Value::Flag(*flag)),
        Found::Statement { holds, seen } => (Value::Text(seen.clone()), None, *holds),
    };
    let bottleneck = BottleneckPair { paper: claim.bottleneck_class, observed: check.bottleneck };
    let agree = bottleneck.agree();
    ClaimReport {
        id: claim.id.clone(),
        paper: claim.paper.clone(),
        place: claim.place.clone(),
        profile: check.profile.to_owned(),
        kind: claim.kind,
        unit: claim.unit.clone(),
        paper_value: claim.value.clone(),
        simulated,
        error,
        basis: basis(claim, check.formula || experiment.runs == Runs::None, settled),
        holds,
        bottleneck,
        contested: claims::restatements().contested.get(id).cloned().unwrap_or_default(),
        note: check.note.clone(),
        experiment: experiment.name.to_owned(),
        held_out: holdout::is_held_out(claim),
        restates: Some(claims::first_of_group(id)).filter(|first| *first != id).map(str::to_owned),
        explanation: claims::explanation(id)
            .map(|e| Explained { why: e.why.clone(), run: e.run.clone() })
            .filter(|_| !holds || agree == Some(false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::REGISTER;
    use doorbell_lab::Control;

    static IMPOSSIBLE: Experiment = Experiment {
        name: "impossible",
        paper: "cluster21",
        title: "nothing completes",
        claims: &["cluster21-jn-standalone"],
        runs: Runs::Systems,
        run: |_| Err(NotYet::Nothing("nothing completed".into())),
    };

    #[test]
    fn where_nothing_completed_there_is_no_result_and_a_reason() {
        let mut selection = Selection::new(&REGISTER, &["cluster21-jn-standalone".into()]).unwrap();
        selection.experiments = vec![&IMPOSSIBLE];
        let report = reproduce(&Ctx::new(false, Control::quiet()).unwrap(), &selection, &|_, _| ()).unwrap();
        assert_eq!((report.claims.len(), report.interrupted), (0, false));
        assert_eq!(report.missing[0].why.as_deref(), Some("nothing completed"));
        assert_eq!(report.checked[0].checked, 0);
    }

    #[test]
    fn what_is_no_number_is_said_in_words_and_does_not_hold() {
        let id = "cluster21-jn-standalone";
        let all = [Found::Number(f64::NAN), Found::Range { low: Some(1.0), high: Some(f64::INFINITY) }];
        for found in all {
            let check = Check::new(id, "cx3-dual", found);
            let report = compare(&IMPOSSIBLE, &check, claims::find(id).unwrap(), &BTreeSet::new());
            assert_eq!((report.simulated, report.error), (Value::Text(NO_NUMBER.into()), None));
            assert!(!report.holds);
        }
        let curve = |points| Curve { points, ..crate::experiment::curve("", "", "", "", "", Vec::new()) };
        assert_eq!(curve(vec![(1.0, f64::NAN), (2.0, 3.0)]).of_numbers().points, [(2.0, 3.0)]);
    }
}
