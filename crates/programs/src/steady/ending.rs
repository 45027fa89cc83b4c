//! When a run ends: as soon as it knows its answer.
//!
//! It is looked at again and again, at virtual times that grow by a constant factor. As long as the warm-up is not
//! over nothing is kept; from then on everything is measured, until the intervals of rate and mean latency are
//! within the precision. What decides are virtual times and counts alone.

use super::lead::Lead;
use super::means::{Interval, Means};
use super::warm::warm_until;
use crate::worker::Due;
use doorbell_schema::{Duration, Share};
use doorbell_sim::{Steer, SteeredRun};
use doorbell_systems::series::CompletionSeries;
use doorbell_systems::{Measurement, Round};
use doorbell_verbs::{Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// From when to when is measured, as far as it is said beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// When what is seen begins.
    pub begin: Time,
    /// From then on; else as long as rate and latency are not steady.
    pub warmup: Option<Span>,
    /// After the warm-up; else until the answer is known.
    pub duration: Option<Span>,
    /// How narrow its intervals must be for that.
    pub precision: Share,
    /// After that much time the run ends anyway.
    pub max_time: Span,
    /// What is to be posted, as far as that does not depend on what completes.
    pub due: Vec<Due>,
    /// Time from the end of an operation until the next begins in its place; the shortest of all threads'.
    pub think: Span,
    /// What comes round again and again.
    pub round: Option<Round>,
    /// For how long operations may be held back before they are begun, and the parameter that says so.
    pub held: Option<(&'static str, Span)>,
    /// Whether operations complete that nobody has acknowledged, so that senders may be ahead of receivers.
    pub unacknowledged: bool,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The time that was asked for is over.
    #[default]
    Duration,
    /// The intervals are within the precision.
    Settled,
    /// More operations were due than completed.
    Overload,
    /// Its virtual time is over, and they are not.
    MaxTime,
    /// The wall-clock time is over. Another run may end elsewhere.
    MaxWall,
    /// Somebody stopped it. Another run may end elsewhere.
    Interrupted,
}

impl Ended {
    /// Whether it ended as it was to: at the time that was asked for, or settled.
    pub fn is_as_wanted(self) -> bool {
        matches!(self, Ended::Duration | Ended::Settled)
    }

    /// Whether the same run would end at the same time.
    pub fn is_repeatable(self) -> bool {
        !matches!(self, Ended::MaxWall | Ended::Interrupted)
    }
}

/// Why a warm-up ended that was not said beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Warmed {
    /// Rate and mean latency were steady.
    Steady,
    /// More operations were due than completed.
    Overload,
    /// Two thirds of its virtual time were over, and they were not.
    MaxTime,
    /// The wall-clock time was over, and they were not. Another run may end elsewhere.
    MaxWall,
}

/// What stops a run from outside.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Whether somebody stopped it.
    pub interrupt: Arc<AtomicBool>,
    /// When it has taken as long as it may.
    pub at: Option<Instant>,
}

impl Stop {
    fn reason(&self) -> Option<Ended> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Some(Ended::Interrupted);
        }
        self.at.filter(|at| Instant::now() >= *at).map(|_| Ended::MaxWall)
    }
}

/// How a run went on and ended.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Why it ended.
    pub ended: Ended,
    /// Why its warm-up ended; `None` where that was said beforehand.
    pub warmed: Option<Warmed>,
    /// It was stopped before anything was known.
    pub stopped: bool,
    /// What threads waited for then.
    pub waits: String,
    /// By which part of what ended senders got further ahead of receivers in the measured time.
    pub ahead: f64,
}

/// Virtual time that threads get to come to their end once the measurement is over: they do, but one that posts
/// millions of RECVs first is late.
const GRACE: Span = Span::from_ms(100_000);

/// Picoseconds of the first batches of what is seen before measuring begins: 2 to this power, a quarter of a
/// microsecond.
const LOG_FIRST_BATCH: u32 = 18;
/// The first look at a run, after it has begun.
const FIRST_LOOK: Span = Span::from_us(24);
/// Looks are that much later than the last, in parts of what was seen by then.
const LATER: (u64, u64) = (2, 5);
/// Batches that the least measured time is cut into.
const BATCHES: u64 = 128;
/// An answer must hold for so large a part of the measured time.
const CONFIRMED: u64 = 8;
/// That fewer operations than so many are due on average may mean none.
const RARE: f64 = 5.0;
/// The part of the precision within which senders may get further ahead of receivers: little of it, as latencies change by
/// more than the rate does when the room between them is full.
const AHEAD: f64 = 0.25;
/// Looks at that in a measured time that is said beforehand.
const SAMPLES: u64 = 8;
/// So many times the longest latency is to be seen, as an operation that takes that long may come again, and what comes round in a system.
pub const TURNS: u64 = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// What is seen does not count yet.
    Warming,
    /// It looked as if the warm-up were over, at one look.
    Warm,
    Measuring,
    /// It looked as if the answer were known, at one look.
    Known,
    /// The end is set.
    Ending,
}

/// Who ends a run.
pub struct Ending {
    wanted: Wanted,
    stop: Stop,
    measurement: Measurement,
    state: State,
    course: Arc<Mutex<Course>>,
    lead: Lead,
    /// No thread that waits sleeps longer, whatever was decided since it fell asleep.
    asleep_until: Time,
}

impl Wanted {
    /// Of what more operations were due than completed by a time, so that more and more wait, if of something.
    pub fn overload(&self, measurement: &Measurement, until: Time) -> Option<&Due> {
        self.due.iter().find(|due| due.is_ahead_of(measurement, until))
    }

    /// From when to when is measured, as far as that is known; threads measure by it.
    pub fn measurement(&self) -> Measurement {
        match (self.warmup, self.duration) {
            (Some(warmup), Some(duration)) => Measurement::fixed(self.begin + warmup, duration),
            (Some(warmup), None) => {
                let from = self.begin + warmup;
                let measurement = Measurement::open(from, LOG_FIRST_BATCH, from + least(warmup));
                measurement.measure_from(from, log_batch(least(warmup)));
                measurement
            }
            (None, _) => {
                let first = (self.begin + FIRST_LOOK).min(self.latest_warm());
                Measurement::open(self.begin, LOG_FIRST_BATCH, first)
            }
        }
    }

    /// Why nothing completed in so long a time, where what was asked for has operations rarer than that.
    pub fn why_nothing(&self, measured: Span) -> Option<String> {
        if measured <= self.think {
            let think = Duration::new(self.think);
            return Some(format!("threads think {think} before an operation, and all of them did so"));
        }
        if let Some((key, held)) = self.held.filter(|(_, held)| measured <= *held) {
            let held = Duration::new(held);
            return Some(format!("operations are held back for up to {held} ({key}), and all of them were"));
        }
        let rare = self.due.first().filter(|_| self.due.iter().all(|due| due.within(measured) <= RARE))?;
        Some(format!("operations are due {} times in a second, and none may have been", rare.rate))
    }

    /// Whether so many turns of whatever comes round can be in so many picoseconds, the last that were seen: of the longest operation,
    /// and of what is known beforehand.
    fn has_turned(&self, turns: u64, ps: u64, seen: &CompletionSeries) -> bool {
        let has_come = match self.round {
            None => true,
            Some(Round::Time(span)) => ps >= turns.saturating_mul(span.as_ps()),
            Some(Round::Operations(count)) => {
                let completed: u64 = seen.batches().iter().map(|batch| batch.completed).sum();
                completed >= turns.saturating_mul(count)
            }
        };
        has_come && ps >= turns.saturating_mul(seen.longest())
    }

    /// When a run ends anyway for which no duration is given.
    pub fn latest(&self) -> Time {
        self.begin + self.max_time
    }

    /// When its warm-up is taken for over anyway: of a run that does not become steady a third is measured.
    fn latest_warm(&self) -> Time {
        self.begin + Span::from_ps(self.max_time.as_ps() / 3 * 2)
    }

    /// The metering window, as far as it is known.
    pub fn window(&self) -> (Time, Span) {
        match (self.warmup, self.duration) {
            (Some(warmup), Some(duration)) => (self.begin + warmup, duration),
            (Some(warmup), None) => (self.begin + warmup, Time::NEVER - (self.begin + warmup)),
            (None, _) => (Time::NEVER, Span::ZERO),
        }
    }
}

/// The least time that is measured after a warm-up.
fn least(warmup: Span) -> Span {
    FIRST_LOOK.max(Span::from_ps(warmup.as_ps() / 2))
}

/// The length of batches of which that time has enough.
fn log_batch(time: Span) -> u32 {
    (time.as_ps() / BATCHES).max(1).ilog2()
}

/// The last moment before an end, at which threads end.
fn before(end: Time) -> Time {
    Time::from_ps(end.as_ps() - 1)
}

impl Ending {
    /// Of a run that measures by `measurement`, with when to look first and how it goes on.
    pub fn new(
        wanted: Wanted,
        stop: Stop,
        measurement: Measurement,
    ) -> (Time, Box<Ending>, Arc<Mutex<Course>>) {
        let course: Arc<Mutex<Course>> = Arc::default();
        let state = if wanted.warmup.is_some() { State::Measuring } else { State::Warming };
        let lead = Lead::default();
        let asleep_until = measurement.look();
        let ending = Ending { wanted, stop, measurement, state, course: course.clone(), lead, asleep_until };
        let has_end = ending.measurement.end() != Time::NEVER;
        let first =
            if has_end { ending.sample(ending.measurement.from()) } else { ending.measurement.look() };
        (first, Box::new(ending), course)
    }

    /// The time of the next look, where what is looked at began at `since` and is to be over at `latest`.
    fn later(&self, now: Time, since: Time, latest: Time) -> Time {
        let (times, parts) = LATER;
        let step = Span::from_ps((now - since).as_ps() / parts * times).max(FIRST_LOOK);
        // Past the latest only what has a duration goes on.
        let next = now + step;
        let next = if now < latest { next.min(latest) } else { next };
        self.measurement.look_at(next);
        next
    }

    /// The time at which an answer must still be known: intervals of few batches are narrow by chance, too.
    fn confirm(&self, now: Time, since: Time) -> Time {
        let step = Span::from_ps((now - since).as_ps() / CONFIRMED).max(Span::from_ps(1));
        let next = now + step;
        self.measurement.look_at(next);
        next
    }

    /// The time of the next look after `now` in a measured time that is said beforehand: its last moment, and others before it
    /// only where something is to be seen there.
    fn sample(&self, now: Time) -> Time {
        let (from, end) = (self.measurement.from(), self.measurement.end());
        let step = Span::from_ps(((end - from).as_ps() / SAMPLES).max(1));
        match self.wanted.unacknowledged {
            true => (now + step).min(before(end)),
            false => before(end),
        }
    }

    /// Whether senders are no further ahead, as what was last seen of that says.
    fn is_level(&self, grown: Option<f64>) -> bool {
        let most = AHEAD * self.wanted.precision.of_one();
        !self.wanted.unacknowledged || grown.is_some_and(|grown| grown <= most)
    }

    fn is_overload(&self, now: Time) -> bool {
        self.wanted.overload(&self.measurement, now).is_some()
    }

    fn warming(&mut self, run: &mut SteeredRun<'_>) -> Time {
        let now = run.now();
        let seen = self.measurement.series().until(now);
        let latest = self.wanted.latest_warm();
        let warm = warm_until(&seen).filter(|warm| {
            let since = now.as_ps() - warm;
            self.wanted.has_turned(TURNS / 2, since, &seen) && self.is_level(self.lead.lately())
        });
        match (warm, self.state) {
            // No time would make that steady.
            _ if self.is_overload(now) => self.begin(run, Warmed::Overload),
            (Some(_), State::Warm) => self.begin(run, Warmed::Steady),
            // Nothing is steady: what comes is measured, and said to be unsettled.
            _ if now >= latest => self.begin(run, Warmed::MaxTime),
            (warm, _) => {
                self.state = if warm.is_some() { State::Warm } else { State::Warming };
                self.later(now, self.wanted.begin, latest)
            }
        }
    }

    /// The warm-up is over.
    fn begin(&mut self, run: &mut SteeredRun<'_>, why: Warmed) -> Time {
        self.course().warmed = Some(why);
        let from = run.horizon();
        let warmup = from - self.wanted.begin;
        let span = self.wanted.duration.unwrap_or(least(warmup));
        run.meter_from(from);
        self.lead.forget();
        self.lead.saw(run.now(), run.ahead());
        self.measurement.measure_from(from, log_batch(span));
        self.state = State::Measuring;
        let end = from + span;
        if self.wanted.duration.is_some() {
            self.measurement.end_at(end);
            run.meter_until(end);
            return self.sample(from);
        }
        let latest = self.wanted.latest();
        let look = if from < latest { end.min(latest) } else { end };
        self.measurement.look_at(look);
        look
    }

    fn measuring(&mut self, run: &mut SteeredRun<'_>) -> Time {
        let (now, from) = (run.now(), self.measurement.from());
        if self.wanted.duration.is_some() {
            return match self.sample(now) {
                next if next > now => next,
                _ => self.end_at(self.measurement.end(), run, Ended::Duration),
            };
        }
        if self.is_overload(now) {
            return self.end_at(run.horizon(), run, Ended::Overload);
        }
        match (self.is_known(now), self.state) {
            (true, State::Known) => self.end_at(run.horizon(), run, Ended::Settled),
            _ if now >= self.wanted.latest() => self.end_at(run.horizon(), run, Ended::MaxTime),
            (true, _) => {
                self.state = State::Known;
                self.confirm(now, from)
            }
            (false, _) => {
                self.state = State::Measuring;
                self.later(now, from, self.wanted.latest())
            }
        }
    }

    fn is_known(&self, now: Time) -> bool {
        let seen = self.measurement.series().until(now);
        let since = now - self.measurement.from();
        let is_long = self.wanted.has_turned(TURNS, since.as_ps(), &seen);
        is_long && self.is_level(self.lead.grown()) && is_within(&seen, self.wanted.precision)
    }

    /// Ends the measurement; threads end then, too.
    fn end_at(&mut self, end: Time, run: &mut SteeredRun<'_>, why: Ended) -> Time {
        self.state = State::Ending;
        self.measurement.end_at(end);
        run.meter_until(end);
        let mut course = self.course();
        course.ended = why;
        course.waits = run.waits();
        course.ahead = self.lead.grown().filter(|_| !self.is_level(self.lead.grown())).unwrap_or(0.0);
        drop(course);
        end.max(self.asleep_until) + GRACE
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Whether rate and mean latency are known to this precision.
fn is_within(seen: &CompletionSeries, precision: Share) -> bool {
    are_within(Means::of(seen.batches(), seen.length()), precision)
}

/// Whether these means are known to this precision.
pub fn are_within(means: Option<Means>, precision: Share) -> bool {
    let narrow = |interval: Interval| interval.half <= precision.of_one() * interval.mean;
    means.is_some_and(|means| means.rate.mean > 0.0 && narrow(means.rate) && means.latency.is_none_or(narrow))
}

impl Steer for Ending {
    fn look(&mut self, run: &mut SteeredRun<'_>) -> Time {
        self.lead.saw(run.now(), run.ahead());
        self.asleep_until = self.asleep_until.max(self.measurement.look());
        match (self.state, self.stop.reason()) {
            // Everything of it is over.
            (State::Ending, _) => run.now(),
            (_, Some(why)) if run.now() >= self.measurement.from() => self.end_at(run.horizon(), run, why),
            // Nothing is known yet, in a warm-up that was said beforehand or not.
            (_, Some(Ended::Interrupted)) => {
                self.course().stopped = true;
                run.now()
            }
            (_, Some(why)) => {
                self.begin(run, Warmed::MaxWall);
                self.end_at(run.horizon() + FIRST_LOOK, run, why)
            }
            (State::Measuring | State::Known, None) => self.measuring(run),
            (State::Warming | State::Warm, None) => self.warming(run),
        }
    }

    fn is_called(&mut self) -> bool {
        !matches!(self.state, State::Ending) && self.stop.reason().is_some()
    }
}
