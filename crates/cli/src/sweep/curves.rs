//! A sweep as curves. The x axis is an option with ordered values. Each value of the other option has a
//! curve.

use super::names::name;
use crate::distribution;
use crate::exit::Exit;
use crate::plot::Figure;
use doorbell_lab::sweep::{Axis, Point, Sweep};
use doorbell_lab::{Duration, Share};
use doorbell_reproduce::Curve;
use serde_json::Value;

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

/// The number that is drawn for a point. NaN if the number is unknown.
type Measure = fn(&Point) -> f64;

const MEASURES: [(&str, Measure); 2] = [
    ("Mops", |point| point.found.mops),
    ("p99, us", |point| point.found.latency_ns.p99.map_or(f64::NAN, |ns| ns as f64 / 1e3)),
];

fn curve(sweep: &Sweep, x: &Axis, series: Option<(&Axis, &Value)>, (y, measure): (&str, Measure)) -> Curve {
    let of = |point: &&Point| series.is_none_or(|(axis, value)| point.at.get(&axis.option) == Some(value));
    let place = |point: &Point| Some((position(point.at.get(&x.option)?)?, measure(point)));
    let mut points: Vec<(f64, f64)> = sweep.points.iter().filter(of).filter_map(place).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let text = x.values.iter().find_map(Value::as_str);
    let unit = text.map_or("", |text| if text.ends_with('%') { ", %" } else { ", us" });
    Curve {
        experiment: String::new(),
        name: series.map_or("all".into(), |(axis, value)| format!("{}={}", axis.option, shown(value))),
        profile: String::new(),
        x: format!("{}{unit}", x.option),
        y: y.to_owned(),
        points,
    }
}

/// At most this many distributions are drawn in one panel.
const MOST_CDFS: usize = 6;

/// The distributions of latency, one for each point; empty if there are too many to tell them apart.
fn cdfs(sweep: &Sweep) -> Vec<Curve> {
    let named = sweep.points.iter().map(|point| (name(sweep, point), &point.found.quantiles[..]));
    if sweep.points.len() > MOST_CDFS { Vec::new() } else { distribution::curves(named) }
}

/// The SVG. It has a panel for the rate, a panel for p99, and for few points a panel with the distributions
/// of latency.
pub(super) fn svg(sweep: &Sweep) -> Result<String, Exit> {
    let x = along(&sweep.over)?;
    let other = sweep.over.iter().find(|axis| axis.option != x.option);
    let curves: Vec<Curve> = MEASURES
        .into_iter()
        .flat_map(|measure| match other {
            None => vec![curve(sweep, x, None, measure)],
            Some(axis) => {
                axis.values.iter().map(|value| curve(sweep, x, Some((axis, value)), measure)).collect()
            }
        })
        .chain(cdfs(sweep))
        .collect();
    let title = sweep.over.iter().map(|axis| axis.option.as_str()).collect::<Vec<_>>().join(" and ");
    let figure =
        Figure { title: format!("Sweep over {title}"), claims: Vec::new(), curves: curves.iter().collect() };
    let svg = figure.svg().map_err(Exit::failed)?;
    svg.ok_or_else(|| Exit::failed("a sweep has curves, but none was drawn"))
}
