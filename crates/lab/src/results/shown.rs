//! What the threads of a run saw together: how long operations took, and how sure that is.

use super::uses::Latency;
use doorbell_nic::Digits;
use doorbell_programs::steady::{
    CompletionSeries, Course, Ended, Means, Wanted, Warmed, are_within, quantile, warm_until,
};
use doorbell_programs::worker::Due;
use doorbell_schema::Duration;
use doorbell_systems::Measurement;
use doorbell_verbs::{Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// From when to when a run was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredTime {
    /// Virtual time before, since threads or clients began.
    #[schemars(with = "String")]
    pub warmup: Duration,
    /// Virtual time measured.
    #[schemars(with = "String")]
    pub duration: Duration,
    /// Why it ended.
    pub ended: Ended,
    /// Why the warm-up ended; absent where it was said beforehand and not cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmed: Option<Warmed>,
    /// Virtual time after the latest that was asked for, of a run that ends then, where it is more than a tenth of that: it is
    /// the least that can be measured after what threads had begun by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub overrun: Option<Duration>,
}

/// How sure means are: half of the intervals around them that hold the true ones in 95 of 100 cases; and intervals
/// of percentiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Certainty {
    /// Of the rate, in millions per second; absent where it is not known.
    pub mops: Option<f64>,
    /// Of the mean latency in nanoseconds; absent where it is not known.
    pub latency_ns: Option<f64>,
    /// From where to where the median is, in nanoseconds; absent where that is not known.
    #[serde(default)]
    pub p50_ns: Option<(u64, u64)>,
    /// The same of the 99th percentile.
    #[serde(default)]
    pub p99_ns: Option<(u64, u64)>,
    /// The same of the 99.9th percentile.
    #[serde(default)]
    pub p999_ns: Option<(u64, u64)>,
    /// Whether operations are due faster than they complete: more and more wait, and no latency is given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overload: bool,
    /// Why the measured time does not tell the rate in the long run, in words; absent where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<String>,
}

/// What the threads of a run saw together.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) measured: MeasuredTime,
    /// Operations per second in millions, where those that completed are not as many as were under way and ended.
    pub(crate) evened: Option<f64>,
    pub(crate) latency: Latency,
    pub(crate) certainty: Certainty,
    /// What threads waited for at the end, where nothing completed.
    pub(crate) waits: Option<String>,
}

/// Part of the measured time that may look like warm-up.
const LOOKS_WARM: f64 = 0.1;

impl Certainty {
    /// Where more is due than completes.
    fn of_overload(self, due: &Due) -> Certainty {
        let of_class = due.class.as_ref().map(|(_, name)| format!("class {name}: ")).unwrap_or_default();
        let rate = Digits(due.rate as f64 / 1e6, 2);
        let unsettled = format!(
            "{of_class}{rate} million operations are due in a second, and not as many complete: more and more wait, and no latency is one in the long run"
        );
        Certainty { mops: self.mops, overload: true, unsettled: Some(unsettled), ..Certainty::default() }
    }
}

/// What the threads of a class saw.
#[derive(Clone, Debug)]
pub(crate) struct ShownOfClass {
    pub(crate) latency: Latency,
    pub(crate) certainty: Certainty,
}

impl ShownOfClass {
    /// Of the class of this number.
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
        Shown {
            measured: MeasuredTime {
                warmup: Duration::new(from - wanted.begin),
                duration: Duration::new(end - from),
                ended,
                warmed: course.warmed,
                overrun,
            },
            evened: series.is_evened(end).then(|| seen.rate() * 1e6),
            // Of what waits longer and longer no time is one in the long run.
            latency: if overload.is_some() { Latency::none() } else { Latency::from(&*series) },
            certainty: match (certainty(&seen, end - from, (course, overrun), wanted), overload) {
                (certainty, Some(due)) => certainty.of_overload(due),
                (certainty, None) => certainty,
            },
            waits: nothing.then(|| why_nothing(wanted, end - from, course)),
        }
    }

    /// Of a run that was not made.
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

    /// Virtual time measured.
    pub(crate) fn span(&self) -> Span {
        self.measured.duration.span()
    }
}

/// What is no overrun: such a part of the time that a run may take, what ports have taken on being waited for.
const NEAR: u64 = 10;

/// By how much a run took longer than it was to.
fn overrun(end: Time, ended: Ended, wanted: &Wanted) -> Option<Duration> {
    let latest = wanted.latest();
    let over = (ended == Ended::MaxTime && end > latest).then(|| end - latest)?;
    (over.as_ps() > wanted.max_time.as_ps() / NEAR).then(|| Duration::new(over))
}

/// Why nothing completed in so long a time.
fn why_nothing(wanted: &Wanted, measured: Span, course: &Course) -> String {
    let waits = Some(course.waits.clone()).filter(|waits| !waits.is_empty());
    let short = || "it takes longer, and no thread waits for anything";
    wanted.why_nothing(measured).or(waits).unwrap_or_else(|| short().to_owned())
}

fn certainty(
    series: &CompletionSeries,
    span: Span,
    course: (&Course, Option<Duration>),
    wanted: &Wanted,
) -> Certainty {
    let intervals = intervals(series);
    if nothing(series) {
        return intervals;
    }
    let means = Means::of(series.batches(), series.length());
    Certainty { unsettled: unsettled(series, span, means, course, wanted), ..intervals }
}

fn nothing(series: &CompletionSeries) -> bool {
    series.batches().iter().all(|batch| batch.completed == 0)
}

/// How sure the answers of a series are.
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

/// Why a measured time does not tell the rate in the long run.
fn unsettled(
    series: &CompletionSeries,
    span: Span,
    means: Option<Means>,
    (course, overrun): (&Course, Option<Duration>),
    wanted: &Wanted,
) -> Option<String> {
    let within =
        |what: &str| Some(format!("rate and mean latency are not known to {} when {what}", wanted.precision));
    let max_time = Duration::new(wanted.max_time);
    match course.ended {
        Ended::Overload => return None,
        Ended::Settled if are_within(means, wanted.precision) => return None,
        // What was under way when the end was decided has changed them.
        Ended::Settled => return within("it ends"),
        Ended::MaxTime => {
            let later = |over: Duration| {
                let us = over.span().as_ns() / 1000;
                format!(
                    ", and {us} us more, the least that can be measured after what threads had begun by then"
                )
            };
            let later = overrun.map_or_else(String::new, later);
            return within(&format!("{max_time} of virtual time (--max-time) are over{later}"));
        }
        Ended::MaxWall => return within("the wall-clock time (--max-wall) is over"),
        Ended::Interrupted => return within("it is interrupted"),
        Ended::Duration => {}
    }
    if course.ahead > 0.0 {
        let percent = Digits(course.ahead * 100.0, 1);
        return Some(format!(
            "{percent}% of what is sent piles up on its way, until there is no more room for it"
        ));
    }
    match warm_until(series).map(|warm| warm - series.start()) {
        None => Some("the rate still changes".to_owned()),
        Some(warm) if warm as f64 > LOOKS_WARM * span.as_ps() as f64 => {
            Some(format!("its first {:.0} us look like warm-up", warm as f64 / 1e6))
        }
        Some(_) if means.is_none() => Some("it changes too slowly for so short a time".to_owned()),
        Some(_) => None,
    }
}
