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
//! Overload, an interrupt and a limit of wall-clock time end a phase earlier. A warm-up ends when two thirds
//! of the wall-clock time after the set-up are over, so that a third remains to measure. Such a run never
//! counts as settled. The run is checked repeatedly. The time between two checks grows with the observed
//! time. Without a limit of wall-clock time, decisions depend only on virtual times and counts.

use super::lead::Lead;
use super::means::{FEWEST, Interval, Means};
use super::pace::Pace;
use super::quantile::{BEYOND, needed, quantile};
use super::tail::Progress;
use super::trend::Drift;
use super::warm::warm_until;
use crate::worker::Due;
use doorbell_schema::{Duration, Share, Until};
use doorbell_sim::{Steer, SteeredRun};
use doorbell_systems::series::{Batch, CompletionSeries};
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
    /// The percentile that the run must know, too, if one was requested.
    pub until: Option<Until>,
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
    /// All reasons.
    pub const ALL: [Ended; 6] = [
        Ended::Duration,
        Ended::Settled,
        Ended::Overload,
        Ended::MaxTime,
        Ended::MaxWall,
        Ended::Interrupted,
    ];

    /// Whether the run ended as intended: at the requested time, or settled.
    pub fn is_as_wanted(self) -> bool {
        matches!(self, Ended::Duration | Ended::Settled)
    }

    /// Whether a limit of time or an interrupt ended the run before its answer was known.
    pub fn is_cut_off(self) -> bool {
        matches!(self, Ended::MaxTime | Ended::MaxWall | Ended::Interrupted)
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
    /// Two thirds of the wall-clock time were over before rate and latency were steady, or before the given
    /// warm-up was over. Another run may end at another virtual time.
    MaxWall,
}

/// External reasons to stop a run, and the run's progress.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Set when the run is interrupted.
    pub interrupt: Arc<AtomicBool>,
    /// Wall-clock time at which the run must stop.
    pub at: Option<Instant>,
    /// Wall-clock time at which the run should stop if its set-up is over, because other runs need the rest.
    pub share: Option<Instant>,
    /// Wall-clock time at which the run should stop if it has measured for half of its warm-up, because other
    /// runs take as long as this one.
    pub early: Option<Instant>,
    /// The progress of the run, which the run writes.
    pub pace: Arc<Pace>,
}

impl Stop {
    /// Why the run must stop now; `None` if it may go on.
    pub fn reason(&self) -> Option<Ended> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Some(Ended::Interrupted);
        }
        is_past(self.at).then_some(Ended::MaxWall)
    }

    /// Why a run whose set-up is over must stop now; `None` if it may go on.
    fn reason_after_set_up(&self) -> Option<Ended> {
        self.reason().or_else(|| is_past(self.share).then_some(Ended::MaxWall))
    }

    /// Wall-clock time at which the warm-up of a run must end whose set-up ends now. `None` without a limit.
    /// If other runs follow, half of the time is theirs, unless this run has a share of its own.
    fn latest_warm(&self) -> Option<Instant> {
        let now = Instant::now();
        let left = self.at.into_iter().chain(self.share).min()?.saturating_duration_since(now);
        let own = if self.share.is_none() && self.early.is_some() { left / 2 } else { left };
        Some(now + own / 3 * 2)
    }
}

fn is_past(time: Option<Instant>) -> bool {
    time.is_some_and(|time| Instant::now() >= time)
}

/// How a run and its warm-up ended.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Why the run ended.
    pub ended: Ended,
    /// Why the warm-up ended; `None` if its length was given.
    pub warmed: Option<Warmed>,
    /// The operations that were due too fast at the last check; `None` if there were none.
    pub overload: Option<Due>,
    /// Whether the run had to stop before anything was measured.
    pub stopped: bool,
    /// In words: why threads were waiting at the end.
    pub waits: String,
    /// Whether a longer measurement had confirmed the intervals.
    pub confirmed: bool,
    /// The requested percentile, if it is not known.
    pub percentile: Option<Until>,
    /// Whether the run did not wait for a latency, because too few operations are signalled.
    pub untimed: bool,
    /// Virtual time at which the intervals were known to be within the precision; `None` if they never were.
    pub known_at: Option<Time>,
    /// Whether the run continued after `known_at` only for a percentile that was not requested.
    pub was_known: bool,
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
/// A run does not wait for latencies any longer after this many checks in a row at which operations had
/// completed, but fewer than [`FEWEST`] had a latency.
const UNTIMED: u32 = 8;
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
/// A mean latency for which the queues settle within one mean latency.
const SHORT_QUEUE: Span = Span::from_us(20);
/// To let queues settle takes at most the maximum time divided by this.
const MOST_OF_TIME: u64 = 16;

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
    /// Virtual time until which the run continues for a percentile that was not requested, once rate and mean
    /// latency are known.
    tail: Option<Time>,
    /// Whether a longer measurement has confirmed the intervals at the last check.
    confirmed: bool,
    /// Virtual time of the first check at which a longer measurement had confirmed the intervals.
    known_at: Option<Time>,
    /// Number of the last checks in a row at which operations had completed, but too few had a latency.
    untimed: u32,
    /// All waiting threads wake by this time, even if an earlier end was decided after they began to wait.
    asleep_until: Time,
    /// Whether the end of the set-up has been noticed.
    is_set_up: bool,
    /// Wall-clock time at which the warm-up ends even if nothing is steady. `None` without a limit of
    /// wall-clock time, and before the end of the set-up.
    warm_by: Option<Instant>,
}

impl Wanted {
    /// A request for a measurement of a closed loop from `begin` on, until its answer is known to 1%.
    #[cfg(test)]
    pub(super) fn from(begin: Time) -> Wanted {
        Wanted {
            begin,
            warmup: None,
            duration: None,
            precision: Share::of_percent(1),
            until: None,
            max_time: Span::from_ms(1000),
            due: Vec::new(),
            think: Span::ZERO,
            round: None,
            held: None,
            unacknowledged: false,
        }
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
                let first = first_look(self.begin).min(self.latest_warm());
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
    pub fn has_turned(&self, turns: u64, ps: u64, seen: &CompletionSeries) -> bool {
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

    /// Whether a warm-up may end now, after these observations: rate and latency are steady, the later half
    /// has no trend that matters, and the warm-up was long enough to show one. With `untimed`, the run does
    /// not wait for a latency.
    pub(super) fn is_warm(&self, now: Time, seen: &CompletionSeries, untimed: bool) -> bool {
        let all = seen.batches();
        let has_turned = |warm: u64| self.has_turned(TURNS / 2, now.as_ps() - warm, seen);
        // Before the first latency, it is unknown how long operations take.
        let is_timed = seen.longest() > 0 || untimed;
        is_timed
            && warm_until(seen).is_some_and(has_turned)
            && now - self.begin >= self.queues_settle(all)
            && Drift::of(&all[all.len() / 2..]).is_within(self.precision)
    }

    /// Whether rate and mean latency are known after a measured time of this length, even if their trends
    /// continue. With `untimed`, the rate alone counts.
    pub(super) fn is_known(&self, since: Span, seen: &CompletionSeries, untimed: bool) -> bool {
        self.has_turned(TURNS, since.as_ps(), seen)
            && (untimed || since >= self.queues_settle(seen.batches()))
            && are_within(long_run(seen), self.precision, untimed)
    }

    /// The time that shows how the queues in the system change. It grows with the square of the mean latency,
    /// because an operation passes a queue of double length in double time, and a longer queue takes more
    /// passes to change. At most a small part of the maximum time.
    fn queues_settle(&self, batches: &[Batch]) -> Span {
        let all = Batch::all(batches);
        let mean = u128::from(all.latency.checked_div(all.timed).unwrap_or(0));
        let square = u64::try_from(mean * mean / u128::from(SHORT_QUEUE.as_ps())).unwrap_or(u64::MAX);
        Span::from_ps(square.min(self.max_time.as_ps() / MOST_OF_TIME))
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
pub(super) fn least(warmup: Span) -> Span {
    FIRST_LOOK.max(Span::from_ps(warmup.as_ps() / 2))
}

/// Log2 of a batch length in picoseconds that divides `time` into at least [`BATCHES`] batches.
pub(super) fn log_batch(time: Span) -> u32 {
    (time.as_ps() / BATCHES).max(1).ilog2()
}

/// Time of the first check of a run that begins at `begin`.
pub(super) fn first_look(begin: Time) -> Time {
    begin + FIRST_LOOK
}

/// Time of the check after `now`, if the observed time is `since`.
pub(super) fn look_after(now: Time, since: Span) -> Time {
    let (times, parts) = LATER;
    now + Span::from_ps(since.as_ps() / parts * times).max(FIRST_LOOK)
}

/// Time of the check that confirms an answer. Intervals of few batches can be narrow by chance.
pub(super) fn confirm_after(now: Time, since: Span) -> Time {
    now + Span::from_ps(since.as_ps() / CONFIRMED).max(Span::from_ps(1))
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
        let ending = Ending {
            wanted,
            stop,
            measurement,
            state,
            course: course.clone(),
            lead,
            tail: None,
            confirmed: false,
            known_at: None,
            untimed: 0,
            asleep_until,
            is_set_up: false,
            warm_by: None,
        };
        let has_end = ending.measurement.end() != Time::NEVER;
        let first =
            if has_end { ending.sample(ending.measurement.from()) } else { ending.measurement.look() };
        (first, Box::new(ending), course)
    }

    /// Time of the next check, if the observed time began at `since` and should end at `latest`.
    fn later(&self, now: Time, since: Time, latest: Time) -> Time {
        // Only a run with a given duration continues past the latest time.
        let next = look_after(now, now - since);
        let next = if now < latest { next.min(latest) } else { next };
        self.measurement.look_at(next);
        next
    }

    /// Time of the check that confirms the answer.
    fn confirm(&self, now: Time, since: Time) -> Time {
        let next = confirm_after(now, now - since);
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

    /// Whether the run is overloaded for certain. Notes the operations that are due too fast.
    fn is_overload(&mut self, now: Time) -> bool {
        let is_warm = matches!(self.state, State::Measuring | State::Known);
        let due = self.wanted.sure_overload(&self.measurement, now, is_warm).cloned();
        let is_overload = due.is_some();
        self.course().overload = due;
        is_overload
    }

    fn warming(&mut self, run: &mut SteeredRun<'_>) -> Time {
        let now = run.now();
        let seen = self.measurement.series().until(now);
        let latest = self.wanted.latest_warm();
        self.count_untimed(&seen);
        let warm = self.wanted.is_warm(now, &seen, self.is_untimed()) && self.is_level(self.lead.lately());
        match (warm, self.state) {
            // An overloaded run never becomes steady.
            _ if self.is_overload(now) => self.begin(run, Warmed::Overload),
            (true, State::Warm) => self.begin(run, Warmed::Steady),
            // The run is not steady by now. The rest of the time is measured, and the result is marked as
            // unsettled.
            _ if now >= latest => self.begin(run, Warmed::MaxTime),
            (warm, _) => {
                self.state = if warm { State::Warm } else { State::Warming };
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
        // A run that is out of wall-clock time may end long before the given duration.
        let measured = if why == Warmed::MaxWall { span.min(least(warmup)) } else { span };
        self.measurement.measure_from(from, log_batch(measured));
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
        let is_known = self.is_known(now);
        self.confirmed = is_known && self.state == State::Known;
        if self.confirmed {
            self.known_at.get_or_insert(now);
        }
        let is_settled = self.confirmed || self.was_known();
        match (is_known, self.state) {
            _ if is_settled && self.has_percentile(run, now) => {
                self.end_at(run.horizon(), run, Ended::Settled)
            }
            _ if now >= self.wanted.latest() => self.end_at(run.horizon(), run, Ended::MaxTime),
            _ if is_settled => {
                let latest = self.wanted.latest();
                self.later(now, from, self.tail.map_or(latest, |tail| tail.min(latest)))
            }
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

    /// Whether the answer was known earlier, and the run continues only for a percentile that was not
    /// requested. Later observations then cannot take the answer back.
    fn was_known(&self) -> bool {
        self.wanted.until.is_none() && self.known_at.is_some()
    }

    /// Counts a check at which too few of these operations have a latency.
    fn count_untimed(&mut self, seen: &CompletionSeries) {
        let all = Batch::all(seen.batches());
        let is_untimed = all.completed > 0 && all.timed < FEWEST;
        self.untimed = if is_untimed { self.untimed.saturating_add(1) } else { 0 };
    }

    /// Whether so few operations are signalled that the run does not wait for their latencies.
    fn is_untimed(&self) -> bool {
        self.untimed >= UNTIMED
    }

    fn is_known(&mut self, now: Time) -> bool {
        let seen = self.measurement.series().until(now);
        self.count_untimed(&seen);
        let since = now - self.measurement.from();
        let is_known = self.wanted.is_known(since, &seen, self.is_untimed());
        is_known && self.is_level(self.lead.grown())
    }

    /// Whether the percentile of this run is known, or costs too much if it was not requested.
    fn has_percentile(&mut self, run: &SteeredRun<'_>, now: Time) -> bool {
        match self.wanted.until {
            Some(until) => self.knows(until),
            None => self.knows(Until::P99) || now >= self.tail(run, now).min(self.wanted.latest()),
        }
    }

    /// Whether the percentile has an interval.
    fn knows(&self, until: Until) -> bool {
        let Some(q) = until.quantile() else { return true };
        let seen = self.measurement.series();
        let enough = Batch::all(seen.batches()).timed as f64 * (1.0 - q) >= BEYOND;
        enough && quantile(&seen, q).is_some()
    }

    /// Virtual time until which the run continues for the usual percentile. Decided at the first call.
    fn tail(&mut self, run: &SteeredRun<'_>, now: Time) -> Time {
        let timed = || Batch::all(self.measurement.series().batches()).timed;
        let decide = || self.progress(now, run.events(), timed()).continue_until();
        let decided = self.tail.unwrap_or_else(decide);
        self.tail = Some(decided);
        decided
    }

    /// The progress at `now`, with so many events and latencies.
    fn progress(&self, now: Time, events: u64, timed: u64) -> Progress {
        let (begin, from) = (self.wanted.begin, self.measurement.from());
        Progress { begin, from, now, events, timed }
    }

    /// Ends the measurement and the threads at `end`.
    fn end_at(&mut self, end: Time, run: &mut SteeredRun<'_>, why: Ended) -> Time {
        self.state = State::Ending;
        self.measurement.end_at(end);
        run.meter_until(end);
        let mut course = self.course();
        // Another run may cut its warm-up short at another time, so this end is not repeatable.
        course.ended = match (course.warmed, why) {
            (Some(Warmed::MaxWall), why) if why != Ended::Interrupted => Ended::MaxWall,
            (_, why) => why,
        };
        course.untimed = self.is_untimed();
        course.was_known = self.was_known() && !self.confirmed;
        course.known_at = match why {
            Ended::Settled if self.confirmed => Some(run.now()),
            _ => self.known_at.filter(|_| course.was_known),
        };
        course.confirmed = self.confirmed || course.was_known;
        course.percentile = self.wanted.until.filter(|until| !self.knows(*until));
        course.waits = run.waits();
        course.ahead = self.lead.grown().filter(|_| !self.is_level(self.lead.grown())).unwrap_or(0.0);
        drop(course);
        end.max(self.asleep_until) + GRACE
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// The means of a series with intervals that hold the long-run means, even if trends continue.
pub(super) fn long_run(seen: &CompletionSeries) -> Option<Means> {
    let means = Means::of(seen.batches(), seen.length())?;
    Some(Drift::of(seen.batches()).widens(means))
}

/// The half-width of the widest interval, relative to its mean and the precision: 1 if it just settles.
fn width(means: Means, precision: Share) -> f64 {
    let of = |interval: Interval| interval.half / (precision.of_one() * interval.mean);
    of(means.rate).max(means.latency.map_or(0.0, of))
}

/// Whether the intervals of these means are within the precision. A latency without an interval is not known,
/// so it is not within any precision. With `untimed`, the latency does not count.
pub fn are_within(means: Option<Means>, precision: Share, untimed: bool) -> bool {
    let narrow = |interval: Interval| interval.half <= precision.of_one() * interval.mean;
    means.is_some_and(|means| {
        means.rate.mean > 0.0 && narrow(means.rate) && (untimed || means.latency.is_some_and(narrow))
    })
}

impl Steer for Ending {
    fn look(&mut self, run: &mut SteeredRun<'_>) -> Time {
        self.lead.saw(run.now(), run.ahead());
        self.asleep_until = self.asleep_until.max(self.measurement.look());
        self.notice_set_up(run.now());
        let next = self.decide(run);
        self.expect(run.now(), run.events());
        next
    }

    fn is_called(&mut self, now: Time) -> bool {
        self.stop.pace.is_at(now);
        self.notice_set_up(now);
        if matches!(self.state, State::Warming | State::Warm) {
            // The number of events does not matter before the measurement.
            self.expect(now, 0);
        }
        !matches!(self.state, State::Ending)
            && self.is_limited_now()
            && (self.reason(now).is_some() || self.must_measure(now))
    }
}

impl Ending {
    /// Decides at a check how the run continues. Returns the time of the next check.
    fn decide(&mut self, run: &mut SteeredRun<'_>) -> Time {
        match (self.state, self.reason(run.now())) {
            // The threads' time to finish is over.
            (State::Ending, _) => run.now(),
            (_, Some(why)) if run.now() >= self.measurement.from() => self.end_at(run.horizon(), run, why),
            // Nothing has been measured yet.
            (_, Some(_)) => {
                self.course().stopped = true;
                run.now()
            }
            (_, None) if self.must_measure(run.now()) => self.begin(run, Warmed::MaxWall),
            (State::Measuring | State::Known, None) => self.measuring(run),
            (State::Warming | State::Warm, None) => self.warming(run),
        }
    }

    /// Whether an interrupt has come or a limit of wall-clock time has passed. Reads the clock at most once.
    fn is_limited_now(&self) -> bool {
        let Stop { interrupt, at, share, early, .. } = &self.stop;
        let first = [*at, *share, *early, self.warm_by].into_iter().flatten().min();
        interrupt.load(Ordering::Relaxed) || is_past(first)
    }

    /// Sets the latest end of the warm-up when the set-up of the threads is over.
    fn notice_set_up(&mut self, now: Time) {
        if !self.is_set_up && now > self.wanted.begin {
            self.is_set_up = true;
            self.warm_by = self.stop.latest_warm();
        }
    }

    /// Whether the warm-up must end now, because the rest of the wall-clock time is needed to measure.
    fn must_measure(&self, now: Time) -> bool {
        now < self.measurement.from() && is_past(self.warm_by) && self.course().warmed.is_none()
    }

    /// Why the run must stop now.
    fn reason(&self, now: Time) -> Option<Ended> {
        let why = if self.is_set_up { self.stop.reason_after_set_up() } else { self.stop.reason() };
        why.or_else(|| self.may_stop_early(now).then_some(Ended::MaxWall))
    }

    /// Whether the run has measured enough, and other runs need the time.
    fn may_stop_early(&self, now: Time) -> bool {
        let from = self.measurement.from();
        // Before the measurement has its times, `from` is far in the future.
        self.stop.early.is_some()
            && now > from
            && now - from >= least(from - self.wanted.begin)
            && is_past(self.stop.early)
    }

    /// Publishes the expected end of the run, which had so many events.
    fn expect(&self, now: Time, events: u64) {
        self.stop.pace.is_at(now);
        self.stop.pace.ends_at(self.expected_end(now, events));
    }

    /// The expected end of the run. A warm-up without a given length is expected to be half over. If the
    /// measured time is given, the warm-up is expected to be two thirds over: then the forecast is wrong by
    /// less than a factor of two even if a warm-up of twice the measured time is over now. The width of an
    /// interval falls with the root of the measured time.
    fn expected_end(&self, now: Time, events: u64) -> Time {
        let (from, end) = (self.measurement.from(), self.measurement.end());
        match self.state {
            _ if end != Time::NEVER => end,
            State::Warming | State::Warm => {
                let so_far = now - self.wanted.begin;
                let (more, measured) = match self.wanted.duration {
                    Some(duration) => (Span::from_ps(so_far.as_ps() / 2), duration),
                    None => (so_far, Span::ZERO),
                };
                let warm = (now + more).min(self.wanted.latest_warm().max(now));
                (warm + measured).max(now)
            }
            State::Ending => now,
            State::Measuring | State::Known => {
                let seen = self.measurement.series().until(now);
                let part = long_run(&seen).map_or(1.0, |means| width(means, self.wanted.precision));
                let settled = if self.was_known() { now } else { self.check_after(now, from, part * part) };
                let timed = Batch::all(seen.batches()).timed;
                self.end_of_percentile(settled, self.progress(now, events, timed))
            }
        }
    }

    /// The expected end of a run that knows rate and mean latency at `settled`, and then continues for its
    /// percentile.
    fn end_of_percentile(&self, settled: Time, so_far: Progress) -> Time {
        let enough = |q: f64| {
            let times = needed(q) as f64 / so_far.timed.max(1) as f64;
            self.check_after(so_far.now, so_far.from, times).max(settled)
        };
        let end_for = |until: Until| until.quantile().map_or(settled, enough);
        match self.wanted.until {
            Some(until) => end_for(until),
            None => {
                let tail = self.tail.unwrap_or_else(|| so_far.at(settled).continue_until());
                end_for(Until::P99).min(tail.max(settled))
            }
        }
    }

    /// The time of the first check at which the measured time, which began at `from`, is `times` as long as
    /// `now`. At the latest, the time at which the run ends without an answer.
    fn check_after(&self, now: Time, from: Time, times: f64) -> Time {
        let latest = self.wanted.latest().max(self.measurement.look());
        let needed = (now - from).as_ps() as f64 * times;
        let mut check = self.measurement.look();
        while check < latest && ((check - from).as_ps() as f64) < needed {
            check = look_after(check, check - from);
        }
        check.min(latest)
    }
}
