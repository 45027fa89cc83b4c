//! Writes the report of a calibration.

use crate::draws::{Draws, off};
use crate::fit::Fit;
use crate::space::Space;
use crate::sure::Sure;
use doorbell_nic::{NINETY_PERCENT, Profile};
use doorbell_reproduce::calibration::{Datum, Target};
use std::fmt::Write;

/// Smallest slope of a datum that is printed: standard errors of the datum for one standard deviation of a
/// parameter without data.
const TOLD: f64 = 0.1;

fn percent(error: f64) -> String {
    format!("{:+.1}%", error * 100.0)
}

fn target(datum: &Datum) -> String {
    match datum.target {
        Target::Number(number) => format!("{number}"),
        Target::Between(least, most) => format!("{least} to {most}"),
        Target::Holds => "holds".into(),
    }
}

/// The report: fitted values, results for the data, and uncertainties.
pub(crate) fn report(
    profile: &Profile,
    space: &Space,
    data: &[Datum],
    fit: &Fit,
    sure: &Sure,
    draws: &Draws,
) -> String {
    let mut text = format!(
        "{}: {} parameters from {} data; {} evaluations of all data, ended: {}\n\nParameters: value, range \
         without data, 90% interval with data\n",
        profile.name,
        space.free.len(),
        data.len(),
        fit.looks,
        fit.ended
    );
    for (i, free) in space.free.iter().enumerate() {
        let at = |by: f64| free.value(fit.z[i] + by * sure.deviation(i));
        let unknown = if sure.is_unknown(i) { "  the data say little about it" } else { "" };
        let _ = writeln!(
            text,
            "  {:28} {:>8}  {:>8} to {:<8}  {:>8} to {:<8}{unknown}",
            free.name,
            free.value(fit.z[i]),
            free.value(-NINETY_PERCENT),
            free.value(NINETY_PERCENT),
            at(-NINETY_PERCENT),
            at(NINETY_PERCENT)
        );
    }
    text += "\nData: measured, found, error, error if left out\n";
    for ((datum, found), errors) in data.iter().zip(&fit.found).zip(&sure.errors) {
        let (error, left_out) = errors.map_or(("-".into(), "-".into()), |(e, l)| (percent(e), percent(l)));
        let _ =
            writeln!(text, "  {:36} {:>12} {found:>8.2} {error:>8} {left_out:>8}", datum.id, target(datum));
    }
    text += "\nEffect of one standard deviation of a parameter, in percent of a datum\n";
    for (i, free) in space.free.iter().enumerate() {
        let moved: Vec<String> = (data.iter().enumerate())
            .filter(|(d, _)| fit.slopes[(*d, i)].abs() >= TOLD)
            .map(|(d, datum)| {
                format!("{} {}", datum.id, percent((fit.slopes[(d, i)] * datum.error).exp() - 1.0))
            })
            .collect();
        let moved = if moved.is_empty() { "nothing".to_owned() } else { moved.join(", ") };
        let _ = writeln!(text, "  {}: {moved}", free.name);
    }
    text += "\nParameters that cannot be told apart, with their correlation\n";
    let alike = sure.alike();
    for (a, b, correlation) in &alike {
        let _ = writeln!(text, "  {} and {}: {correlation:+.2}", space.free[*a].name, space.free[*b].name);
    }
    if alike.is_empty() {
        text += "  none\n";
    }
    let _ = writeln!(
        text,
        "\nThe model's own error: {:.1}% of verbs, {:.1}% of systems\n{} draws, from a sample with an \
         effective size of {:.0}\nWith the draws, the data are {:.1} to {:.1} standard errors off; with the \
         values, {:.1} (root mean square)",
        sure.model.verbs * 100.0,
        sure.model.systems * 100.0,
        draws.places.len(),
        draws.worth,
        draws.off.iter().copied().fold(f64::INFINITY, f64::min),
        draws.off.iter().copied().fold(0.0, f64::max),
        off(data, &fit.found)
    );
    text
}
