//! Plots of a check: a file for each answered series.

use crate::exit::Exit;
use crate::output;
use crate::plot::{DrawnCurve, Figure};
use doorbell_reproduce::Curve;
use doorbell_series::{Checked, CheckedPoint, CheckedSeries};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Writes a plot of each series with an answer to `folder`. Returns the paths.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn write(folder: &Path, checked: &Checked) -> Result<Vec<PathBuf>, Exit> {
    let mut names = BTreeSet::new();
    let mut paths = Vec::new();
    for series in checked.series.iter().filter(|series| series.median.is_some()) {
        let path = folder.join(format!("{}.svg", unused(&series.id, &mut names)));
        std::fs::write(&path, svg(checked, series)?)
            .map_err(|error| output::cannot_write_plots(&path, error))?;
        paths.push(path);
    }
    Ok(paths)
}

/// A name for the file of a series that no other series has. Characters with a meaning in paths are replaced.
fn unused(id: &str, names: &mut BTreeSet<String>) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let mut name: String = id.chars().map(safe).collect();
    while !names.insert(name.clone()) {
        name.push('-');
    }
    name
}

/// A quantity of a point that a curve shows.
type Quantity = fn(&CheckedPoint) -> Option<f64>;

fn svg(checked: &Checked, series: &CheckedSeries) -> Result<String, Exit> {
    let curve = |name: &str, of: Quantity| Curve {
        experiment: String::new(),
        name: name.to_owned(),
        profile: checked.profile.clone(),
        x: series.axis.clone(),
        y: format!("{}, {}", series.metric, series.unit),
        points: series.points.iter().map(|point| (point.x, of(point).unwrap_or(f64::NAN))).collect(),
    };
    let quantities: [(&str, Quantity); 3] = [
        ("measured", |point| Some(point.measured)),
        ("model", |point| point.model),
        ("analytic limit", |point| point.limit),
    ];
    let curves: Vec<Curve> = quantities.into_iter().map(|(name, of)| curve(name, of)).collect();
    let curves = curves.iter().filter(|curve| curve.points.iter().any(|(_, y)| y.is_finite()));
    let figure = Figure {
        title: format!("{} ({}, {})", series.id, series.nic, series.host),
        claims: Vec::new(),
        curves: curves.map(DrawnCurve::from).collect(),
    };
    let svg = figure.svg().map_err(Exit::failed)?;
    svg.ok_or_else(|| Exit::failed("a series has points, but none was drawn"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_differ_and_stay_in_the_folder() {
        let mut names = BTreeSet::new();
        let all = ["a/b", "a-b", "../c", "cx5-pair"].map(|id| unused(id, &mut names));
        assert_eq!(all, ["a-b", "a-b-", "..-c", "cx5-pair"]);
    }
}
