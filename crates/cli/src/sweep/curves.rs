//! A sweep as curves. The x axis is an option with ordered values. Each value of the other option has a
//! curve.

use super::names::name;
use crate::distribution;
use crate::exit::Exit;
use crate::plot::{DrawnCurve, Figure};
use doorbell_lab::sweep::{Axis, Point, Sweep};
use doorbell_lab::{Duration, Share, Workload};
use doorbell_reproduce::Curve;
use doorbell_schema::{FieldKind, NumberUnit};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;

/// The option along the x axis.
pub(super) fn along(over: &[Axis]) -> Result<&Axis, Exit> {
    let none = "an SVG needs an option with numbers, times or shares as values for its x axis";
    let has_order = |axis: &&Axis| axis.values.iter().all(|value| position(value).is_some());
    over.iter().find(has_order).ok_or_else(|| Exit::bad_input(none))
}

/// Position of a value on the axis. A number is its own position. The position of a time is its microseconds,
/// and of a share its percentage.
fn position(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.parse::<Share>() {
            Ok(share) => Some(share.of_one() * 100.0),
            Err(_) => Some(text.parse::<Duration>().ok()?.span().as_secs_f64() * 1e6),
        },
        _ => None,
    }
}

/// A number of each point that a panel shows.
struct Measure {
    /// Label of the y axis.
    label: &'static str,
    /// The number; `None` if it is unknown.
    of: fn(&Point) -> Option<f64>,
    /// The interval of the number; `None` if it is unknown.
    interval: fn(&Point) -> Option<Range<f64>>,
}

const MEASURES: [Measure; 2] = [
    Measure {
        label: "rate, Mops",
        of: |point| Some(point.found.mops),
        interval: |point| {
            let half = point.found.interval.mops?;
            Some((point.found.mops - half).max(0.0)..point.found.mops + half)
        },
    },
    Measure {
        label: "99th percentile of latency, us",
        of: |point| point.found.latency_ns.p99.map(|ns| ns as f64 / 1e3),
        interval: |point| {
            let (low, high) = point.found.interval.p99_ns?;
            Some(low as f64 / 1e3..high as f64 / 1e3)
        },
    },
];

/// A value of the option that tells curves apart.
type Series<'a> = Option<(&'a Axis, &'a Value)>;

/// The curve of a series, with a gap at each point without a number.
fn curve(sweep: &Sweep, x: &Axis, series: Series<'_>, measure: &Measure) -> Curve {
    let missing = sweep.missing.iter().filter(|point| is_of(series, &point.at));
    let missing = missing.filter_map(|point| Some((position(point.at.get(&x.option)?)?, f64::NAN)));
    let known = points(sweep, series).filter_map(|point| {
        Some((position(point.at.get(&x.option)?)?, (measure.of)(point).unwrap_or(f64::NAN)))
    });
    let mut points: Vec<(f64, f64)> = known.chain(missing).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Curve {
        experiment: String::new(),
        name: series.map_or(String::new(), |(axis, value)| format!("{}={}", axis.option, shown(value))),
        profile: profile(sweep),
        x: label(x),
        y: measure.label.to_owned(),
        points,
    }
}

/// The points of a series.
fn points<'a>(sweep: &'a Sweep, series: Series<'a>) -> impl Iterator<Item = &'a Point> {
    sweep.points.iter().filter(move |point| is_of(series, &point.at))
}

fn is_of(series: Series<'_>, at: &BTreeMap<String, Value>) -> bool {
    series.is_none_or(|(axis, value)| at.get(&axis.option) == Some(value))
}

/// The marks of a curve.
fn drawn<'a>(
    sweep: &Sweep,
    x: &Axis,
    series: Series<'_>,
    measure: &Measure,
    curve: &'a Curve,
) -> DrawnCurve<'a> {
    let place = |point: &Point| position(point.at.get(&x.option)?);
    let intervals = points(sweep, series).filter_map(|p| Some((place(p)?, (measure.interval)(p)?)));
    let overload = points(sweep, series).filter(|p| p.found.interval.overload).filter_map(place);
    DrawnCurve { curve, intervals: intervals.collect(), overload: overload.collect() }
}

/// A value of an option, as users write it.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Label of the x axis: the option and its unit.
fn label(x: &Axis) -> String {
    let unit = match doorbell_lab::fields().into_iter().find(|field| field.key == x.option).map(|f| f.kind) {
        Some(FieldKind::Time { .. }) => ", us",
        Some(FieldKind::Share(..)) => ", %",
        Some(FieldKind::Number { unit: NumberUnit::Bytes, .. }) => ", bytes",
        Some(FieldKind::Number { unit: NumberUnit::PerSecond, .. }) => ", operations per second",
        Some(FieldKind::Number { unit: NumberUnit::Permille, .. }) => ", thousandths",
        _ => "",
    };
    format!("{}{unit}", x.option)
}

/// Names of the profiles of all machines.
fn profile(sweep: &Sweep) -> String {
    if sweep.over.iter().any(|axis| axis.option == Workload::profile.key) {
        return String::new();
    }
    let name = |of: &Value| of.get(Workload::profile.key).and_then(Value::as_str).map(str::to_owned);
    let own = sweep.workload.get(Workload::profile.key).and_then(Value::as_str).map(str::to_owned);
    let mut names: Vec<String> = match sweep.workload.get(Workload::machine.key).and_then(Value::as_array) {
        Some(groups) => groups.iter().filter_map(name).collect(),
        None => vec![own.unwrap_or_else(|| Workload::default().profile_name().to_owned())],
    };
    names.dedup();
    let changes = [Workload::pcie.key, Workload::link.key, Workload::set.key];
    let changed = changes.iter().any(|key| sweep.workload.contains_key(*key));
    let set = if changed { ", with changed parameters" } else { "" };
    format!("{}{set}", names.join(" and "))
}

/// At most this many distributions are drawn in one panel.
const MOST_CDFS: usize = 6;

/// The distributions of latency, one for each point; empty if there are too many to tell them apart.
fn cdfs(sweep: &Sweep) -> Vec<Curve> {
    if sweep.points.len() > MOST_CDFS {
        return Vec::new();
    }
    let named = sweep.points.iter().map(|point| (name(sweep, point), &point.found.quantiles[..]));
    let curves = distribution::curves(named).into_iter();
    curves.map(|curve| Curve { profile: profile(sweep), ..curve }).collect()
}

/// The SVG. It has a panel for the rate, a panel for p99, and for few points a panel with the distributions
/// of latency.
pub(super) fn svg(sweep: &Sweep) -> Result<String, Exit> {
    let x = along(&sweep.over)?;
    let other = sweep.over.iter().find(|axis| axis.option != x.option);
    let series: Vec<Series<'_>> = match other {
        None => vec![None],
        Some(axis) => axis.values.iter().map(|value| Some((axis, value))).collect(),
    };
    let of_measure = |measure: &'static Measure| series.iter().map(move |series| (*series, measure));
    let all: Vec<_> = MEASURES.iter().flat_map(of_measure).collect();
    let curves: Vec<Curve> = all.iter().map(|(series, measure)| curve(sweep, x, *series, measure)).collect();
    let with_marks = all.iter().zip(&curves);
    let with_marks = with_marks.map(|((series, measure), c)| drawn(sweep, x, *series, measure, c));
    let cdfs = cdfs(sweep);
    let title = sweep.over.iter().map(|axis| axis.option.as_str()).collect::<Vec<_>>().join(" and ");
    let figure = Figure {
        title: format!("Sweep over {title}"),
        claims: Vec::new(),
        curves: with_marks.chain(cdfs.iter().map(DrawnCurve::from)).collect(),
    };
    let svg = figure.svg().map_err(Exit::failed)?;
    svg.ok_or_else(|| Exit::failed("a sweep has curves, but none was drawn"))
}
