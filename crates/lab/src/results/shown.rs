//! Summary of the series that the threads of a run share: latencies, and their confidence intervals.

use super::known::{self, AtEnd};
use super::quantiles::{Quantile, quantiles};
use super::uses::Latency;
use doorbell_nic::{Digits, counted};
use doorbell_programs::steady::{
    Batch, CompletionSeries, Course, Drift, Ended, FEWEST, Means, TURNS, Wanted, Warmed, are_within,
    is_overload, lacks_operations, observed, quantile, warm_until,
};
use doorbell_programs::worker::Due;
use doorbell_schema::{Duration, Share, Until};
use doorbell_systems::Measurement;
use doorbell_verbs::{Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::slice;

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
    /// Share within which rate and mean latency are known: the larger half-width divided by its mean, in two
    /// significant digits and rounded up. Absent if one of them has no interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub known_to: Option<Share>,
}

impl MeasuredTime {
    /// Until when a settled run of this requested precision lasted, in words. `percentile` is the requested
    /// percentile.
    pub fn until(&self, precision: Share, percentile: Option<Until>) -> String {
        known::until(precision, self.known_to, percentile)
    }
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
    /// If operations are due faster than they complete: millions of operations that are due per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_mops: Option<f64>,
    /// Why the measured rate may differ from the long-run rate, in words; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<String>,
    /// Why the requested percentile is not known, in words; absent if it is known, or if none was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_percentile: Option<String>,
    /// Why no latency is given, in words; absent if there are latencies, or if operations are due faster than
    /// they complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_latency: Option<String>,
}

/// Summary of the series that all threads of a run share.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) measured: MeasuredTime,
    /// Rate in millions per second from evened completions; `None` if completions are not evened.
    pub(crate) evened: Option<f64>,
    pub(crate) latency: Latency,
    /// Quantiles of the latencies; empty without a latency.
    pub(crate) quantiles: Vec<Quantile>,
    pub(crate) certainty: Certainty,
    /// If nothing completed: why threads were waiting at the end.
    pub(crate) waits: Option<String>,
}

/// In an open loop, a mean latency with an interval that is wider than this share on each side is not
/// reported. The measured time may then be too short to tell a queue from an overload.
const VAGUE: f64 = 0.5;

impl Certainty {
    /// Whether the measured rate may differ from the long-run rate. This is false in an overload, because its
    /// rate is known.
    pub(crate) fn may_differ(&self) -> bool {
        self.unsettled.is_some() && !self.overload
    }

    /// The precision of an overloaded run with this rate, in operations per second. Only the interval of the
    /// rate remains.
    fn of_overload(self, due: &Due, reached: f64) -> Certainty {
        let of_class = due.class.as_ref().map(|(_, name)| format!("class {name}: ")).unwrap_or_default();
        let [asked, reached] = apart(due.rate as f64 / 1e6, reached / 1e6);
        let unsettled = format!(
            "{of_class}{asked} million operations are due per second, but only {reached} complete. The backlog \
             grows, so there is no long-run latency"
        );
        Certainty { mops: self.mops, unsettled: Some(unsettled), ..Certainty::without_latency(due) }
    }

    /// The precision of an open loop whose latencies are too uncertain to report. The doubt about the rate
    /// stays.
    fn of_vague(self, due: &[Due], latency: &Latency) -> Certainty {
        let rates: Vec<String> = due.iter().map(|due| Digits(due.rate as f64 / 1e6, 2).to_string()).collect();
        let vague = match self.latency_ns {
            Some(_) => {
                format!("latencies change so much that their mean is not known within {:.0}%", VAGUE * 100.0)
            }
            None => format!(
                "the mean of {} has no interval",
                if latency.count == 1 {
                    "1 latency".to_owned()
                } else {
                    format!("{} latencies", latency.count)
                }
            ),
        };
        let why = format!(
            "{} million operations are due per second, and {vague}. Measure for longer, to find out whether \
             this is an overload",
            rates.join(" and ")
        );
        let (unsettled, no_latency) = (self.unsettled, Some(why));
        Certainty { mops: self.mops, unsettled, no_latency, ..Certainty::default() }
    }

    /// The precision of a run in which so few signalled operations completed.
    fn of_untimed(self, count: u64) -> Certainty {
        let operations = match count {
            0 => "no signalled operation".to_owned(),
            _ => format!("only {}", counted(count, "signalled operation")),
        };
        let few =
            format!("{operations} completed in the measured time, and a latency needs at least {FEWEST}");
        let (unsettled, no_latency) = (self.unsettled, Some(few));
        Certainty { mops: self.mops, unsettled, no_latency, ..Certainty::default() }
    }

    /// The precision with the reason for a missing latency.
    fn explained(self, latency: &Latency) -> Certainty {
        let missing = latency.mean.is_none() && self.no_latency.is_none() && !self.overload;
        let untimed = || "no signalled operation completed in the measured time".to_owned();
        let no_latency = if missing { Some(untimed()) } else { self.no_latency };
        Certainty { no_latency, ..self }
    }

    /// The precision of an overloaded class.
    fn without_latency(due: &Due) -> Certainty {
        Certainty { overload: true, due_mops: Some(due.rate as f64 / 1e6), ..Certainty::default() }
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
        if let Some(due) = due.filter(|due| is_overload(due, measurement, measurement.end())) {
            return Some(ShownOfClass {
                latency: Latency::none(),
                certainty: Certainty::without_latency(due),
            });
        }
        let series = measurement.series_of(number)?;
        let latency = Latency::from(&*series);
        let seen = series.until(measurement.end());
        let certainty = intervals(&seen, Means::of(seen.batches(), seen.length()));
        let (latency, certainty) = match due.map(slice::from_ref) {
            Some(due) if is_vague(&latency, &certainty, due) => {
                (Latency::none(), certainty.of_vague(due, &latency))
            }
            _ => (latency, certainty),
        };
        Some(ShownOfClass { latency, certainty: certainty.explained(&latency) })
    }
}

impl Shown {
    pub(crate) fn of(measurement: &Measurement, wanted: &Wanted, course: &Course) -> Shown {
        let (from, end) = (measurement.from(), measurement.end());
        let ended = course.ended;
        // A run that ended because of an overload is overloaded, even if its last operations leave a doubt.
        let was_overloaded =
            |due: &&Due| course.warmed == Some(Warmed::Overload) && lacks_operations(due, measurement, end);
        let noted = || course.overload.as_ref().filter(|due| ended == Ended::Overload || was_overloaded(due));
        let overload = wanted.overload(measurement, end, ended == Ended::Settled).or_else(noted);
        let reached = overload.map_or(0.0, |due| reached(due, measurement));
        let series = measurement.series();
        let seen = series.until(end);
        let nothing = nothing(&series);
        let overrun = overrun(end, ended, wanted);
        // A run that ends at its answer allows for the trend that it had then. The operations since then are
        // no reason to doubt the decision: a test of a trend that is repeated finds more trends. The trend of
        // another run is reported in words.
        let trend = course.known_at.map(|known| Drift::of(series.until(known).batches()));
        let long_run = |seen: &CompletionSeries| {
            let means = Means::of(seen.batches(), seen.length())?;
            Some(trend.map_or(means, |trend| trend.widens(means)))
        };
        // If the answer was known shortly before the end, the last operations cannot make it less precise.
        // Nor can the operations that came while the run continued only for a percentile.
        let is_late = |known: Time| (end - known) * LAST <= known - from;
        let is_within = || are_within(long_run(&seen), wanted.precision, course.untimed);
        let known = course.known_at.filter(|known| is_late(*known) || course.was_known && !is_within());
        let judged = known.map_or_else(|| seen.clone(), |known| series.until(known));
        let means = long_run(&judged);
        // In a run that was cut short, batches may be too long for `seen` to have any completion.
        let nothing_seen = self::nothing(&seen);
        let at_end = AtEnd {
            ended,
            warmed: course.warmed,
            precision: wanted.precision,
            means,
            completed: if nothing_seen { completed(&series) } else { completed(&seen) },
            span: end - from,
            max_time: (Duration::new(wanted.max_time), overrun),
            has_turned: wanted.has_turned(TURNS, (end - from).as_ps(), &seen),
            confirmed: course.confirmed,
            percentile: course.percentile,
            untimed: course.untimed,
            ahead: course.ahead,
            drift: Drift::clear(seen.batches()),
            straight: Drift::straight(seen.batches()),
            warm: warm_until(&seen).map(|warm| Span::from_ps(warm - seen.start())),
        };
        let unsettled = at_end.doubt().filter(|_| !nothing);
        let latency = Latency::from(&*series);
        let no_percentile = at_end.no_percentile(latency.count).filter(|_| latency.mean.is_some());
        let certainty = Certainty { unsettled, no_percentile, ..intervals(&judged, means) };
        let (latency, certainty) = match overload {
            // While the backlog grows, latencies grow, too, so there is no latency to report.
            Some(due) => (Latency::none(), certainty.of_overload(due, reached)),
            None if course.untimed && latency.count < FEWEST => {
                (Latency::none(), certainty.of_untimed(latency.count))
            }
            None if is_vague(&latency, &certainty, &wanted.due) => {
                (Latency::none(), certainty.of_vague(&wanted.due, &latency))
            }
            None => (latency, certainty),
        };
        let quantiles = latency.mean.map_or_else(Vec::new, |_| quantiles(&series.latency()));
        let waits = nothing.then(|| why_nothing(wanted, end - from, course));
        let certainty = match &waits {
            Some(waits) => {
                Certainty { no_latency: Some(format!("no operation completed: {waits}")), ..certainty }
            }
            None => certainty.explained(&latency),
        };
        Shown {
            measured: MeasuredTime {
                warmup: Duration::new(from - wanted.begin),
                duration: Duration::new(end - from),
                ended,
                warmed: course.warmed,
                overrun,
                known_to: known::known_to(means),
            },
            evened: series.is_evened(end).then(|| seen.rate() * 1e6),
            latency,
            quantiles,
            certainty,
            waits,
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
            known_to: None,
        };
        let (latency, quantiles, certainty) = (Latency::none(), Vec::new(), Certainty::default());
        Shown { measured, evened: None, latency, quantiles, certainty, waits: None }
    }

    /// Virtual time that was measured.
    pub(crate) fn span(&self) -> Span {
        self.measured.duration.span()
    }
}

/// Whether the mean latency of an open loop with these due operations is too uncertain to report.
fn is_vague(latency: &Latency, certainty: &Certainty, due: &[Due]) -> bool {
    let is_wide = |mean: f64| certainty.latency_ns.is_none_or(|half| half > VAGUE * mean);
    !due.is_empty() && latency.mean.is_some_and(is_wide)
}

/// Completions per second of the threads whose operations are due.
fn reached(due: &Due, measurement: &Measurement) -> f64 {
    observed(due, measurement, measurement.end()).map_or(0.0, |seen| seen.rate() * 1e12)
}

/// Maximum number of decimals of a rate.
const DECIMALS: usize = 9;

/// Two numbers with at least two decimals, and with more if they would look equal.
fn apart(one: f64, other: f64) -> [String; 2] {
    let shown = |decimals: usize| [one, other].map(|number| Digits(number, decimals).to_string());
    (2..DECIMALS).map(shown).find(|[one, other]| one != other).unwrap_or_else(|| shown(DECIMALS))
}

/// The time from the decision to end a run to its end is short if the measured time is this many times
/// longer.
const LAST: u64 = 8;

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

/// Number of operations that completed.
fn completed(series: &CompletionSeries) -> u64 {
    Batch::all(series.batches()).completed
}

fn nothing(series: &CompletionSeries) -> bool {
    completed(series) == 0
}

/// Confidence intervals of the rate and the latencies of a series with these means.
fn intervals(series: &CompletionSeries, means: Option<Means>) -> Certainty {
    if nothing(series) {
        return Certainty::default();
    }
    Certainty {
        mops: means.map(|m| m.rate.half * 1e6),
        latency_ns: means.and_then(|m| m.latency).map(|latency| latency.half / 1e3),
        p50_ns: quantile(series, 0.5),
        p99_ns: quantile(series, 0.99),
        p999_ns: quantile(series, 0.999),
        ..Certainty::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_systems::series::SeriesPoint;

    fn wanted(due: Vec<Due>) -> Wanted {
        Wanted {
            begin: Time::START,
            warmup: None,
            duration: None,
            precision: Share::of_percent(1),
            until: None,
            max_time: Span::from_ms(1),
            due,
            think: Span::ZERO,
            round: None,
            held: None,
            unacknowledged: false,
        }
    }

    /// 200 us in which an operation of 1 us completes every 10 ns. In the second half, one of ten is missing.
    fn slower() -> Measurement {
        let measurement = Measurement::fixed(Time::START, Span::from_us(200));
        for n in (0..20_000u64).filter(|n| *n < 10_000 || n % 10 > 0) {
            let at = Time::from_ps(n * 10_000);
            measurement.saw(SeriesPoint { at, completed: 1, since: None, latency: Some(Span::from_us(1)) });
        }
        measurement
    }

    #[test]
    fn operations_for_a_percentile_do_not_take_back_a_known_answer() {
        let (measurement, wanted) = (slower(), wanted(Vec::new()));
        let shown = |was_known: bool| {
            let known_at = Some(Time::from_ps(100_000_000));
            let course =
                Course { ended: Ended::Settled, known_at, was_known, confirmed: true, ..Course::default() };
            Shown::of(&measurement, &wanted, &course)
        };
        let kept = shown(true);
        assert_eq!(kept.certainty.unsettled, None);
        assert!(kept.measured.known_to.is_some_and(|known| known <= wanted.precision), "{kept:?}");
        assert!(shown(false).certainty.unsettled.is_some());
    }

    #[test]
    fn an_open_loop_has_no_latency_that_may_be_wrong_by_half() {
        let open = [Due { class: None, rate: 2_500_000, under_way: 16 }];
        let latency = Latency { mean: Some(100.0), ..Latency::none() };
        let within =
            |half: f64| Certainty { latency_ns: Some(half), mops: Some(0.1), ..Certainty::default() };
        assert!(is_vague(&latency, &within(51.0), &open) && !is_vague(&latency, &within(49.0), &open));
        assert!(!is_vague(&latency, &within(51.0), &[]), "a closed loop has no overload");
        let told = within(51.0).of_vague(&open, &latency);
        assert_eq!((told.latency_ns, told.mops), (None, Some(0.1)));
        assert_eq!(told.unsettled, None, "the rate may be known all the same");
        // A mean without an interval is no better.
        let (few, nothing) = (Latency { count: 7, ..latency }, Certainty::default());
        assert!(is_vague(&few, &nothing, &open));
        assert!(nothing.of_vague(&open, &few).no_latency.unwrap().contains("the mean of 7 latencies has no"));
        let why = told.no_latency.unwrap();
        assert!(why.starts_with("2.50 million operations are due per second"), "{why}");
        assert!(!told.overload);
    }

    #[test]
    fn rates_of_an_overload_look_different() {
        assert_eq!(apart(2.5, 2.41), ["2.50", "2.41"]);
        assert_eq!(apart(2.5, 2.496), ["2.500", "2.496"]);
        assert_eq!(apart(2.5, 2.5), ["2.500000000", "2.500000000"]);
    }
}
