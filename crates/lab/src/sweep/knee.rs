//! Finds the knee: the highest load whose 99th percentile of latency is below a bound.

use super::error::SweepError;
use super::over::Over;
use super::plan::Plan;
use super::point::Point;
use super::result::{Knee, Sweep};
use crate::plan::{Control, Known};
use crate::results::{Found, Longer, MeasuredTime};
use doorbell_programs::steady::Ended;
use doorbell_schema::{Duration, Until, Value};
use doorbell_systems::config::Clients;
use doorbell_verbs::Span;
use doorbell_workload::Workload;
use std::collections::BTreeMap;

/// Options that set the load.
const LOADS: [&str; 5] = [
    Workload::window.key,
    Workload::window_per_qp.key,
    Clients::outstanding.key,
    Clients::clients.key,
    Workload::rate.key,
];

/// Number of loads that a search step tries at once. It does not depend on the number of cores, so every
/// machine tries equal loads.
const AT_ONCE: u64 = 3;

/// The search ends when the loads on both sides of the knee differ by at most the load divided by this.
const CLOSE: u64 = 100;

/// Upper bound (exclusive) of the 99th percentile of latency.
#[derive(Clone, Copy, Debug)]
pub struct Bound(pub Duration);

/// For each tried load, whether it stays under the bound.
type Tried = BTreeMap<u64, bool>;

/// The first load over the bound, as the second number, and the last load before it, as the first.
fn bracket(tried: &Tried) -> (Option<u64>, Option<u64>) {
    let over = tried.iter().find(|(_, under)| !**under).map(|(load, _)| *load);
    let below = tried.keys().copied().take_while(|load| over.is_none_or(|over| *load < over));
    (below.last(), over)
}

/// Loads to try between `under` and `over`; empty if these are close.
fn between(under: u64, over: u64) -> Vec<u64> {
    let gap = over - under;
    if gap <= (over / CLOSE).max(1) {
        return Vec::new();
    }
    let mut loads: Vec<u64> =
        (1..=AT_ONCE).map(|i| under + gap * i / (AT_ONCE + 1)).filter(|load| *load > under).collect();
    loads.dedup();
    loads
}

impl Plan {
    /// Runs the points of the sweep. Then tries loads between the last load under the bound and the first
    /// load over the bound, until these two are close. If the work is cut short, the result has the points
    /// known so far.
    ///
    /// # Errors
    /// If the sweep is not over one load, even the least load exceeds the bound, or a point fails.
    pub fn knee(&self, bound: Bound, known: &Known, control: &Control<'_>) -> Result<Sweep, SweepError> {
        let load = self.load()?;
        let under_ns = bound.0.span().as_ps().div_ceil(1000);
        let mut sweep = self.run(None, known, control, &|_, _| ())?;
        let mut tried = Tried::new();
        let mut new = 0;
        let mut ended = false;
        let mut is_partial = sweep.points.len() < self.run_count();
        loop {
            self.lengthen(&mut sweep.points[new..], load, known, control)?;
            for point in &sweep.points[new..] {
                if is_cut_short(point) {
                    is_partial = true;
                } else {
                    tried.insert(load_of(point, load), under(point, load, bound)?);
                }
            }
            new = sweep.points.len();
            if is_partial || control.is_over() {
                break;
            }
            let next = match bracket(&tried) {
                (None, _) => return Err(self.least_exceeds(&sweep, load, bound)),
                (Some(_), None) => Vec::new(),
                (Some(under), Some(over)) => between(under, over),
            };
            if next.is_empty() {
                ended = true;
                break;
            }
            let found = self.at_loads(&next, sweep.points.len(), known, control)?;
            is_partial = found.len() < next.len();
            sweep.points.extend(found);
        }
        let (at, exceeded_at) = bracket(&tried);
        let option = load.key().to_owned();
        let tried = tried.into_keys().collect();
        sweep.knee = at.map(|at| Knee { option, p99_under_ns: under_ns, at, exceeded_at, tried, ended });
        Ok(sweep)
    }

    fn load(&self) -> Result<&Over, SweepError> {
        let refused = |why: String| Err(SweepError::Refused(why));
        match &self.over[..] {
            [load] if LOADS.contains(&load.key()) && load.values.iter().all(is_number) => Ok(load),
            [other] => refused(format!(
                "{} is not a load, so it has no knee: sweep over window, outstanding, clients or rate",
                other.key()
            )),
            _ => refused("a search for a knee needs one load: give one --over".into()),
        }
    }

    fn at_loads(
        &self,
        loads: &[u64],
        first: usize,
        known: &Known,
        control: &Control<'_>,
    ) -> Result<Vec<Point>, SweepError> {
        let values: Vec<[Value; 1]> = loads.iter().map(|load| [Value::Number(*load)]).collect();
        let runs = values.iter().map(|value| self.run_of(value)).collect::<Result<Vec<_>, _>>()?;
        let found = self.results(&runs, known, control, &|_, _| ())?;
        let points = (first..).zip(values.iter().zip(&runs).zip(found));
        Ok(points
            .filter_map(|(number, ((value, (_, run)), ran))| Some(self.point(number, value, run, ran?)))
            .collect())
    }

    /// Reruns points that settled before p99 was known. The reruns are long enough for p99.
    fn lengthen(
        &self,
        points: &mut [Point],
        load: &Over,
        known: &Known,
        control: &Control<'_>,
    ) -> Result<(), SweepError> {
        let short: Vec<&mut Point> = points.iter_mut().filter(|point| is_short(point)).collect();
        let longer = |point: &&mut Point| {
            let (name, run) = self.run_of(&[Value::Number(load_of(point, load))])?;
            let (measured, every) = (&point.found.measured, run.signal_every().unwrap_or(1));
            let us = Longer::latencies(Until::P99) * every as f64 / point.found.mops;
            let duration = Duration::new(Span::from_ns((us * 1e3) as u64));
            Ok((name, run.timed_as(&MeasuredTime { duration, ..measured.clone() })))
        };
        let runs = short.iter().map(longer).collect::<Result<Vec<_>, SweepError>>()?;
        let found = self.results(&runs, known, control, &|_, _| ())?;
        for (point, ran) in short.into_iter().zip(found) {
            if let Some(ran) = ran {
                point.found = Found::of(ran, self.explain);
            }
        }
        Ok(())
    }

    fn least_exceeds(&self, sweep: &Sweep, load: &Over, bound: Bound) -> SweepError {
        let least = sweep.points.iter().min_by_key(|point| load_of(point, load));
        let (least, p99) =
            least.map_or((0, 0), |point| (load_of(point, load), point.found.latency_ns.p99.unwrap_or(0)));
        SweepError::Refused(format!(
            "even the lowest load, {}={least}, has a p99 of {p99} ns, which is not under {}: raise the \
             bound, or begin with a lower load",
            load.key(),
            bound.0
        ))
    }
}

/// Whether a point settled without a known p99.
fn is_short(point: &Point) -> bool {
    let found = &point.found;
    found.measured.ended == Ended::Settled && found.latency_ns.p99.is_none() && found.mops > 0.0
}

/// Whether the p99 of a point may be unknown only because the work was cut short: during the point's run, or
/// before a longer run of it had a result.
fn is_cut_short(point: &Point) -> bool {
    !point.found.measured.ended.is_repeatable() || is_short(point)
}

fn is_number(value: &Value) -> bool {
    matches!(value, Value::Number(_))
}

fn load_of(point: &Point, load: &Over) -> u64 {
    point.at.get(load.key()).and_then(serde_json::Value::as_u64).expect("loads are numbers")
}

/// Whether a point stays under the bound.
fn under(point: &Point, load: &Over, bound: Bound) -> Result<bool, SweepError> {
    let why = || {
        format!(
            "at {}={}: p99 is not known, so it cannot be compared with the bound: measure for longer",
            load.key(),
            load_of(point, load)
        )
    };
    // The latencies of a growing backlog exceed any bound.
    if point.found.interval.overload {
        return Ok(false);
    }
    let p99 = point.found.latency_ns.p99.ok_or_else(|| SweepError::Refused(why()))?;
    Ok(u128::from(p99) * 1000 < u128::from(bound.0.span().as_ps()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches from the loads `grid`. Loads up to `knee` stay under the bound. Returns the bracket, and the
    /// number of tried loads.
    fn search(grid: &[u64], knee: u64) -> (Option<u64>, Option<u64>, usize) {
        let mut tried: Tried = grid.iter().map(|load| (*load, *load <= knee)).collect();
        loop {
            let (under, over) = bracket(&tried);
            let (Some(low), Some(high)) = (under, over) else { return (under, over, tried.len()) };
            let next = between(low, high);
            if next.is_empty() {
                return (under, over, tried.len());
            }
            tried.extend(next.into_iter().map(|load| (load, load <= knee)));
        }
    }

    #[test]
    fn the_knee_is_found_between_the_points() {
        for knee in 1..64 {
            let (at, over, tried) = search(&[1, 64], knee);
            assert_eq!((at, over), (Some(knee), Some(knee + 1)));
            assert!(tried <= 2 + 3 * AT_ONCE as usize, "{knee}: {tried}");
        }
        assert_eq!(search(&[1, 2, 4], 4), (Some(4), None, 3));
        assert_eq!(search(&[2, 4], 1), (None, Some(2), 2));
        let (at, over, _) = search(&[1, 100_000], 77_777);
        assert!(at.unwrap() <= 77_777 && over.unwrap() > 77_777 && over.unwrap() - at.unwrap() <= 1000);
    }

    #[test]
    fn a_load_above_one_that_exceeds_is_none() {
        let tried = [(1, true), (2, false), (4, true)].into_iter().collect();
        assert_eq!(bracket(&tried), (Some(1), Some(2)));
    }
}
