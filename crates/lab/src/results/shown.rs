//! Summary of the series that the threads of a run share: latencies, and their confidence intervals.

use super::uses::Latency;
use doorbell_nic::Digits;
use doorbell_programs::steady::{
    CompletionSeries, Course, Drift, Ended, Means, Wanted, Warmed, are_within, quantile, warm_until,
};
use doorbell_programs::worker::Due;
use doorbell_schema::{Duration, Share};
use doorbell_systems::Measurement;
use doorbell_verbs::{Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The measured time of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredTime {
    /// Virtual time of the warm-up, from the start of the threads or clients.
    #[schemars(with = "String")]
    pub warmup: Duration,
    /// Virtual time that was measured.
    #[schemars(with = "String")]
    pub duration: Duration,
    /// Why the measurement ended.
    pub ended: Ended,
    /// Why the warm-up ended; absent if its length was given and not cut short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmed: Option<Warmed>,
    /// Virtual time beyond the given maximum, for a run that ended there, if it is more than 10% of the
    /// maximum. The overrun is the shortest time that can be measured after work that threads had begun by
    /// then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub overrun: Option<Duration>,
}

/// Precision of a result: half-widths of the 95% confidence intervals of means, and 95% confidence intervals
/// of percentiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Certainty {
    /// Half-width for the rate, in millions per second; null if not known.
    pub mops: Option<f64>,
    /// Half-width for the mean latency, in nanoseconds; null if not known.
    pub latency_ns: Option<f64>,
    /// Interval of the median, in nanoseconds; null if not known.
    #[serde(default)]
    pub p50_ns: Option<(u64, u64)>,
    /// Interval of the 99th percentile, in nanoseconds; null if not known.
    #[serde(default)]
    pub p99_ns: Option<(u64, u64)>,
    /// Interval of the 99.9th percentile, in nanoseconds; null if not known.
    #[serde(default)]
    pub p999_ns: Option<(u64, u64)>,
    /// Whether operations are due faster than they complete. The backlog then grows, and no latency is given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overload: bool,
    /// Why the measured rate may differ from the long-run rate, in words; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<String>,
}

/// Summary of the series that all threads of a run share.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) measured: MeasuredTime,
    /// Rate in millions per second from evened completions; `None` if completions are not evened.
    pub(crate) evened: Option<f64>,
    pub(crate) latency: Latency,
    pub(crate) certainty: Certainty,
    /// If nothing completed: why threads were waiting at the end.
    pub(crate) waits: Option<String>,
}

/// At most this share of the measured time may look like warm-up.
const LOOKS_WARM: f64 = 0.1;

impl Certainty {
    /// The precision of an overloaded run. Only the interval of the rate remains.
    fn of_overload(self, due: &Due) -> Certainty {
        let of_class = due.class.as_ref().map(|(_, name)| format!("class {name}: ")).unwrap_or_default();
        let rate = Digits(due.rate as f64 / 1e6, 2);
        let unsettled = format!(
            "{of_class}{rate} million operations are due per second, but fewer complete. The backlog grows, \
             so there is no long-run latency"
        );
        Certainty { mops: self.mops, overload: true, unsettled: Some(unsettled), ..Certainty::default() }
    }
}

/// Summary of the series of a thread class.
#[derive(Clone, Debug)]
pub(crate) struct ShownOfClass {
    pub(crate) latency: Latency,
    pub(crate) certainty: Certainty,
}

impl ShownOfClass {
    /// Summarizes the series of the class with this number.
    pub(crate) fn of(measurement: &Measurement, wanted: &Wanted, number: usize) -> Option<ShownOfClass> {
        let own = |due: &&Due| due.class.as_ref().is_some_and(|(class, _)| *class == number);
        let due = wanted.due.iter().find(own);
        if due.is_some_and(|due| due.is_ahead_of(measurement, measurement.end())) {
            let certainty = Certainty { overload: true, ..Certainty::default() };
            return Some(ShownOfClass { latency: Latency::none(), certainty });
        }
        let series = measurement.series_of(number)?;
        let certainty = intervals(&series.until(measurement.end()));
        Some(ShownOfClass { latency: Latency::from(&*series), certainty })
    }
}

impl Shown {
    pub(crate) fn of(measurement: &Measurement, wanted: &Wanted, course: &Course) -> Shown {
        let (from, end) = (measurement.from(), measurement.end());
        let ended = course.ended;
        let overload = wanted.overload(measurement, end);
        let series = measurement.series();
        let seen = series.until(end);
        let nothing = series.batches().iter().all(|batch| batch.completed == 0);
        let overrun = overrun(end, ended, wanted);
        let drift = course.known_at.map(|known| Drift::of(series.until(known).batches()));
        let certainty = certainty(&seen, (end - from, drift), (course, overrun), wanted);
        Shown {
            measured: MeasuredTime {
                warmup: Duration::new(from - wanted.begin),
                duration: Duration::new(end - from),
                ended,
                warmed: course.warmed,
                overrun,
            },
            evened: series.is_evened(end).then(|| seen.rate() * 1e6),
            // While the backlog grows, latencies grow, too, so there is no latency to report.
            latency: if overload.is_some() { Latency::none() } else { Latency::from(&*series) },
            certainty: match (certainty, overload) {
                (certainty, Some(due)) => certainty.of_overload(due),
                (certainty, None) => certainty,
            },
            waits: nothing.then(|| why_nothing(wanted, end - from, course)),
        }
    }

    /// The summary for a run that was not made.
    #[cfg(test)]
    pub(crate) fn nothing() -> Shown {
        let measured = MeasuredTime {
            warmup: Duration::new(Span::ZERO),
            duration: Duration::new(Span::from_us(1)),
            ended: Ended::Duration,
            warmed: None,
            overrun: None,
        };
        let latency = Latency { min: None, mean: None, p50: None, p99: None, p999: None };
        Shown { measured, evened: None, latency, certainty: Certainty::default(), waits: None }
    }

    /// Virtual time that was measured.
    pub(crate) fn span(&self) -> Span {
        self.measured.duration.span()
    }
}

/// An overrun of at most the maximum time divided by this number is ignored. It comes from waiting for the
/// work of ports.
const NEAR: u64 = 10;

/// Overrun of the maximum time, if it is long enough to report.
fn overrun(end: Time, ended: Ended, wanted: &Wanted) -> Option<Duration> {
    let latest = wanted.latest();
    let over = (ended == Ended::MaxTime && end > latest).then(|| end - latest)?;
    (over.as_ps() > wanted.max_time.as_ps() / NEAR).then(|| Duration::new(over))
}

/// Why nothing completed in the measured time.
fn why_nothing(wanted: &Wanted, measured: Span, course: &Course) -> String {
    let waits = Some(course.waits.clone()).filter(|waits| !waits.is_empty());
    let short = || match course.warmed {
        Some(Warmed::MaxWall) => "the warm-up was cut short, and took most of the wall-clock time",
        _ => "an operation takes longer, and no thread waits for anything",
    };
    wanted.why_nothing(measured).or(waits).unwrap_or_else(|| short().to_owned())
}

/// The precision of a result. `drift` is the trend that a settled run had when it settled. The few operations
/// since then are no reason to doubt the decision: a test of a trend that is repeated finds more trends.
fn certainty(
    series: &CompletionSeries,
    (span, drift): (Span, Option<Drift>),
    course: (&Course, Option<Duration>),
    wanted: &Wanted,
) -> Certainty {
    let intervals = intervals(series);
    if nothing(series) {
        // If a run is cut short, its batches may be too long to hold any completion.
        let is_cut = !course.0.ended.is_repeatable();
        let unsettled = if is_cut { unsettled(series, span, None, course, wanted) } else { None };
        return Certainty { unsettled, ..intervals };
    }
    let plain = Means::of(series.batches(), series.length());
    // A run that ends at its answer allows for trends. Otherwise, a trend is reported in words.
    let means = plain.map(|means| drift.map_or(means, |drift| drift.widens(means)));
    let unsettled = unsettled(series, span, means, course, wanted);
    let mops = means.map(|m| m.rate.half * 1e6);
    let latency_ns = means.and_then(|m| m.latency).map(|latency| latency.half / 1e3);
    Certainty { unsettled, mops, latency_ns, ..intervals }
}

fn nothing(series: &CompletionSeries) -> bool {
    series.batches().iter().all(|batch| batch.completed == 0)
}

/// Confidence intervals of the rate and the latencies of a series.
fn intervals(series: &CompletionSeries) -> Certainty {
    if nothing(series) {
        return Certainty::default();
    }
    let means = Means::of(series.batches(), series.length());
    Certainty {
        mops: means.map(|m| m.rate.half * 1e6),
        latency_ns: means.and_then(|m| m.latency).map(|latency| latency.half / 1e3),
        p50_ns: quantile(series, 0.5),
        p99_ns: quantile(series, 0.99),
        p999_ns: quantile(series, 0.999),
        overload: false,
        unsettled: None,
    }
}

/// Why the measured rate may differ from the long-run rate.
fn unsettled(
    series: &CompletionSeries,
    span: Span,
    means: Option<Means>,
    (course, overrun): (&Course, Option<Duration>),
    wanted: &Wanted,
) -> Option<String> {
    let drift = Drift::clear(series.batches());
    let within = |what: &str| {
        let precision = wanted.precision;
        let drifts = drifts(drift, precision).map_or(String::new(), |drifts| format!(": {drifts}"));
        Some(format!("rate and mean latency are not known to {precision} when {what}{drifts}"))
    };
    let max_time = Duration::new(wanted.max_time);
    match course.ended {
        Ended::Overload => return None,
        Ended::Settled if are_within(means, wanted.precision) => return None,
        // The intervals were narrow when the end was decided. Operations that were outstanding then may have
        // widened them.
        Ended::Settled => return within("the run ends"),
        Ended::MaxTime => {
            let later = |over: Duration| {
                let us = over.span().as_ns() / 1000;
                format!(
                    ", plus {us} us, the shortest time that can be measured after the work that threads had \
                     begun"
                )
            };
            let later = overrun.map_or_else(String::new, later);
            return within(&format!("the {max_time} of virtual time (--max-time) are over{later}"));
        }
        Ended::MaxWall => {
            let is_cut = course.warmed == Some(Warmed::MaxWall);
            let cut = if is_cut { ", and the warm-up was cut short" } else { "" };
            return within(&format!("the run's share of the wall-clock time (--max-wall) is over{cut}"));
        }
        Ended::Interrupted => return within("the run is interrupted"),
        Ended::Duration => {}
    }
    if course.ahead > 0.0 {
        let percent = Digits(course.ahead * 100.0, 1);
        return Some(format!(
            "{percent}% of the sent data queues up in flight, until no buffer space is left"
        ));
    }
    match warm_until(series).map(|warm| warm - series.start()) {
        None => Some("the rate still changes".to_owned()),
        Some(warm) if warm as f64 > LOOKS_WARM * span.as_ps() as f64 => {
            Some(format!("the first {:.0} us look like warm-up", warm as f64 / 1e6))
        }
        Some(_) if means.is_none() => {
            Some("the rate changes too slowly for such a short measurement".to_owned())
        }
        // A short measurement of a given length may show a weak trend by chance.
        Some(_) => Some(Drift::straight(series.batches()))
            .filter(|straight| straight.largest() >= wanted.precision.of_one())
            .and_then(|straight| drifts(straight, wanted.precision)),
    }
}

/// Says by how much the levels drift, if this may change a level by more than the precision.
fn drifts(drift: Drift, precision: Share) -> Option<String> {
    let (what, change) = match drift.rate.abs() >= drift.latency.abs() {
        true => ("rate", drift.rate),
        false => ("mean latency", drift.latency),
    };
    let way = if change > 0.0 { "rose" } else { "fell" };
    let percent = Digits(change.abs() * 100.0, 1);
    (!drift.is_within(precision))
        .then(|| format!("the {what} drifts: it {way} by {percent}% during the measured time"))
}
