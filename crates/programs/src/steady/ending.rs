//! Decides when a run ends: as soon as its answer is known. The answer is known when the intervals of rate
//! and mean latency are within the precision.
//!
//! A run has these phases:
//! 1. *Warm-up.* It begins at [`Wanted::begin`]. It ends after [`Wanted::warmup`], or else when two checks in
//!    a row find rate and latency steady. Then it takes at most two thirds of [`Wanted::max_time`]. The
//!    observations of the warm-up are discarded.
//! 2. *Measurement.* It begins after the warm-up. It ends after [`Wanted::duration`], or else when two checks
//!    in a row find that the answer is known. Then it takes at most until [`Wanted::max_time`] has passed
//!    since [`Wanted::begin`].
//! 3. *End.* The threads of the run get time to finish ([`GRACE`]).
//!
//! Overload, an interrupt and a limit of wall-clock time end a phase earlier. The run is checked repeatedly.
//! The time between two checks grows with the observed time. Decisions depend only on virtual times and
//! counts.

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

/// The request for a measurement: times, precision, and facts about the workload that affect the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Start of observation. Earlier operations are ignored.
    pub begin: Time,
    /// Warm-up, from `begin` on. If absent, it lasts until rate and latency are steady.
    pub warmup: Option<Span>,
    /// Measured time after the warm-up. If absent, the run is measured until its answer is known.
    pub duration: Option<Span>,
    /// An answer is known if the half-widths of its 95% intervals, divided by their means, are at most this
    /// share.
    pub precision: Share,
    /// Virtual time after which the run ends even without an answer.
    pub max_time: Span,
    /// The due operations of open loops.
    pub due: Vec<Due>,
    /// Shortest think time of all threads. A think time begins at the end of an operation. It ends at the
    /// start of the operation that replaces it.
    pub think: Span,
    /// An event of the system that recurs.
    pub round: Option<Round>,
    /// The longest time for which operations may be held back before they begin, and the name of the
    /// parameter that sets this time.
    pub held: Option<(&'static str, Span)>,
    /// Whether operations complete without an acknowledgement, so that more can complete than have arrived.
    pub unacknowledged: bool,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The requested time is over.
    #[default]
    Duration,
    /// The intervals are within the precision.
    Settled,
    /// More operations were due than completed.
    Overload,
    /// The virtual time is over before the intervals are within the precision.
    MaxTime,
    /// The wall-clock time is over. Another run may end at another virtual time.
    MaxWall,
    /// The run was interrupted. Another run may end at another virtual time.
    Interrupted,
}

impl Ended {
    /// Whether the run ended as intended: at the requested time, or settled.
    pub fn is_as_wanted(self) -> bool {
        matches!(self, Ended::Duration | Ended::Settled)
    }

    /// Whether a repeated run would end at the same virtual time.
    pub fn is_repeatable(self) -> bool {
        !matches!(self, Ended::MaxWall | Ended::Interrupted)
    }
}

/// Why a warm-up without a given length ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Warmed {
    /// Rate and mean latency were steady.
    Steady,
    /// More operations were due than completed.
    Overload,
    /// Two thirds of the virtual time were over before rate and latency were steady.
    MaxTime,
    /// The wall-clock time was over before rate and latency were steady. Another run may end at another
    /// virtual time.
    MaxWall,
}

/// External reasons to stop a run.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Set when the run is interrupted.
    pub interrupt: Arc<AtomicBool>,
    /// Wall-clock time at which the run must stop.
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

/// How a run and its warm-up ended.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Why the run ended.
    pub ended: Ended,
    /// Why the warm-up ended; `None` if its length was given.
    pub warmed: Option<Warmed>,
    /// Whether the run was interrupted before anything was measured.
    pub stopped: bool,
    /// In words: why threads were waiting at the end.
    pub waits: String,
    /// Growth of the senders' lead over receivers in the measured time, as a share of the operations that
    /// ended. 0 if the growth is small enough to be ignored.
    pub ahead: f64,
}

/// Virtual time for threads to finish after the measurement. Threads need little of this time, except a
/// thread that still posts its first millions of RECVs.
const GRACE: Span = Span::from_ms(100_000);

/// Log2 of the length of a batch in picoseconds during the warm-up: about a quarter of a microsecond.
const LOG_FIRST_BATCH: u32 = 18;
/// Virtual time from the start of a run to the first check.
const FIRST_LOOK: Span = Span::from_us(24);
/// Time from one check to the next, as a fraction of the observed time: two fifths.
const LATER: (u64, u64) = (2, 5);
/// Least number of batches in the shortest measured time.
const BATCHES: u64 = 128;
/// An answer must still hold when the measured time is longer by this fraction: one eighth.
const CONFIRMED: u64 = 8;
/// If at most this many operations are due on average, it is plausible that no operation was due.
const RARE: f64 = 5.0;
/// The senders' lead over receivers (`lead`) may grow by this share of the precision. The share is small,
/// because full buffers between sender and receiver change the latencies more than the rate.
const AHEAD: f64 = 0.25;
/// Number of checks of the senders' lead in a measured time of given length.
const SAMPLES: u64 = 8;
/// The measured time must be at least this many times the longest latency. It must also contain this many
/// periods of a recurring event. The reason is that such a long operation may come again.
pub const TURNS: u64 = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The warm-up is not over.
    Warming,
    /// At the last check, the warm-up seemed to be over for the first time.
    Warm,
    Measuring,
    /// At the last check, the answer seemed to be known for the first time.
    Known,
    /// The end time is set.
    Ending,
}

/// Steers a run and decides when it ends.
pub struct Ending {
    wanted: Wanted,
    stop: Stop,
    measurement: Measurement,
    state: State,
    course: Arc<Mutex<Course>>,
    lead: Lead,
    /// All waiting threads wake by this time, even if an earlier end was decided after they began to wait.
    asleep_until: Time,
}

impl Wanted {
    /// Returns the due operations of an overloaded class, or of all threads if they are overloaded: their
    /// completions lag ever further behind. The observations until `until` decide this.
    pub fn overload(&self, measurement: &Measurement, until: Time) -> Option<&Due> {
        self.due.iter().find(|due| due.is_ahead_of(measurement, until))
    }

    /// Returns the measurement that threads record in. Its times are set if they are known beforehand.
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

    /// Explains why nothing completed in the measured time. Returns `None` unless operations are so rare that
    /// this is plausible.
    pub fn why_nothing(&self, measured: Span) -> Option<String> {
        if measured <= self.think {
            let think = Duration::new(self.think);
            return Some(format!(
                "threads think for {think} before an operation, and all threads were \
                 thinking"
            ));
        }
        if let Some((key, held)) = self.held.filter(|(_, held)| measured <= *held) {
            let held = Duration::new(held);
            return Some(format!(
                "operations are held back for up to {held} ({key}), and all operations were \
                 held back"
            ));
        }
        let rare = self.due.first().filter(|_| self.due.iter().all(|due| due.within(measured) <= RARE))?;
        Some(format!("operations are due {} times per second, so none may have been due", rare.rate))
    }

    /// Whether the last `ps` picoseconds contain `turns` periods of the recurring event, and `turns` times
    /// the longest latency. `seen` has the observations.
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

    /// Virtual time at which a run without a given duration ends even if it is not settled.
    pub fn latest(&self) -> Time {
        self.begin + self.max_time
    }

    /// Virtual time at which the warm-up ends even if nothing is steady. A third of the run remains to
    /// measure.
    fn latest_warm(&self) -> Time {
        self.begin + Span::from_ps(self.max_time.as_ps() / 3 * 2)
    }

    /// Start and length of the time in which resources are metered, as far as they are known beforehand.
    pub fn window(&self) -> (Time, Span) {
        match (self.warmup, self.duration) {
            (Some(warmup), Some(duration)) => (self.begin + warmup, duration),
            (Some(warmup), None) => (self.begin + warmup, Time::NEVER - (self.begin + warmup)),
            (None, _) => (Time::NEVER, Span::ZERO),
        }
    }
}

/// Shortest time to measure after a warm-up.
fn least(warmup: Span) -> Span {
    FIRST_LOOK.max(Span::from_ps(warmup.as_ps() / 2))
}

/// Log2 of a batch length in picoseconds that divides `time` into at least [`BATCHES`] batches.
fn log_batch(time: Span) -> u32 {
    (time.as_ps() / BATCHES).max(1).ilog2()
}

/// The last picosecond before `end`. At `end` itself, threads have ended.
fn before(end: Time) -> Time {
    Time::from_ps(end.as_ps() - 1)
}

impl Ending {
    /// Steers a run that records in `measurement`. Also returns the time of the first check, and the course
    /// of the run. The course is filled in at the end of the run.
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

    /// Time of the next check, if the observed time began at `since` and should end at `latest`.
    fn later(&self, now: Time, since: Time, latest: Time) -> Time {
        let (times, parts) = LATER;
        let step = Span::from_ps((now - since).as_ps() / parts * times).max(FIRST_LOOK);
        // Only a run with a given duration continues past the latest time.
        let next = now + step;
        let next = if now < latest { next.min(latest) } else { next };
        self.measurement.look_at(next);
        next
    }

    /// Time of the check that confirms the answer. Intervals of few batches can be narrow by chance.
    fn confirm(&self, now: Time, since: Time) -> Time {
        let step = Span::from_ps((now - since).as_ps() / CONFIRMED).max(Span::from_ps(1));
        let next = now + step;
        self.measurement.look_at(next);
        next
    }

    /// Time of the next check after `now` in a measured time of given length. The last check is just before
    /// the end. Earlier checks happen only if senders can get ahead of receivers.
    fn sample(&self, now: Time) -> Time {
        let (from, end) = (self.measurement.from(), self.measurement.end());
        let step = Span::from_ps(((end - from).as_ps() / SAMPLES).max(1));
        match self.wanted.unacknowledged {
            true => (now + step).min(before(end)),
            false => before(end),
        }
    }

    /// Whether the senders' lead has grown little enough, given its growth; `None` for an unknown growth.
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
            // An overloaded run never becomes steady.
            _ if self.is_overload(now) => self.begin(run, Warmed::Overload),
            (Some(_), State::Warm) => self.begin(run, Warmed::Steady),
            // The run is not steady by now. The rest of the time is measured, and the result is marked as
            // unsettled.
            _ if now >= latest => self.begin(run, Warmed::MaxTime),
            (warm, _) => {
                self.state = if warm.is_some() { State::Warm } else { State::Warming };
                self.later(now, self.wanted.begin, latest)
            }
        }
    }

    /// Ends the warm-up and begins to measure.
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

    /// Ends the measurement and the threads at `end`.
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

/// Whether rate and mean latency of a series have intervals within the precision.
fn is_within(seen: &CompletionSeries, precision: Share) -> bool {
    are_within(Means::of(seen.batches(), seen.length()), precision)
}

/// Whether the intervals of these means are within the precision.
pub fn are_within(means: Option<Means>, precision: Share) -> bool {
    let narrow = |interval: Interval| interval.half <= precision.of_one() * interval.mean;
    means.is_some_and(|means| means.rate.mean > 0.0 && narrow(means.rate) && means.latency.is_none_or(narrow))
}

impl Steer for Ending {
    fn look(&mut self, run: &mut SteeredRun<'_>) -> Time {
        self.lead.saw(run.now(), run.ahead());
        self.asleep_until = self.asleep_until.max(self.measurement.look());
        match (self.state, self.stop.reason()) {
            // The threads' time to finish is over.
            (State::Ending, _) => run.now(),
            (_, Some(why)) if run.now() >= self.measurement.from() => self.end_at(run.horizon(), run, why),
            // Nothing has been measured yet.
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
