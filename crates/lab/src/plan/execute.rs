//! Executes runs on the cores of this machine: longest first, as many at a time as memory allows.

use super::memory;
use super::run::Run;
use crate::results::Outcome;
use crate::run_error::SimulateError;
use crate::watch::Watch;
use doorbell_programs::steady::{Ended, Stop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Settings for making, watching and stopping simulations.
#[derive(Clone)]
pub struct Control<'a> {
    /// Set to stop. Results computed so far are returned.
    pub interrupt: Arc<AtomicBool>,
    /// Largest number of concurrent runs.
    pub jobs: usize,
    /// Wall-clock time that a run may take. After this time the run ends with the result known so far.
    pub max_wall: Option<Duration>,
    /// Wall-clock time at which all work ends, with the results known so far.
    pub deadline: Option<Instant>,
    /// Wall-clock time at which a run should end, because other runs need the rest of the time to the
    /// deadline. A run is not cut short during its set-up.
    pub share: Option<Instant>,
    /// Wall-clock time at which a run should end if it has measured for half of its warm-up, because reruns
    /// follow that take as long.
    pub early: Option<Instant>,
    /// Receives the progress of the runs.
    pub watch: &'a dyn Watch,
}

impl Control<'static> {
    /// Settings without a watcher or a stop. As many runs at a time as cores.
    pub fn quiet() -> Control<'static> {
        Control {
            interrupt: Arc::default(),
            jobs: cores(),
            max_wall: None,
            deadline: None,
            share: None,
            early: None,
            watch: &(),
        }
    }
}

impl Control<'_> {
    /// The stop conditions of a run that begins now.
    pub(crate) fn stop(&self) -> Stop {
        let at = self.max_wall.map(|wall| Instant::now() + wall).into_iter().chain(self.deadline).min();
        let Control { interrupt, share, early, .. } = self;
        Stop { interrupt: interrupt.clone(), at, share: *share, early: *early, pace: Arc::default() }
    }

    /// Whether no further run may begin, because of an interrupt or the deadline.
    pub fn is_over(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed) || self.is_late()
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// These settings for runs that should end after this share of the time that is left.
    fn within(&self, share: f64) -> Self {
        let now = Instant::now();
        let of = |until: Instant| now + until.saturating_duration_since(now).mul_f64(share);
        let (share, early) = (self.share.or(self.deadline).map(of), self.early.map(of));
        Control { share, early, ..self.clone() }
    }

    /// These settings for a run before this number of reruns, each of which takes as long as the run. The run
    /// ends early if it has measured enough, so that the reruns fit. Otherwise, it continues.
    #[must_use]
    pub fn before_reruns(&self, reruns: usize) -> Self {
        Control { early: self.early(1, reruns), ..self.clone() }
    }

    /// These settings for runs that together should end after half of the time that is left, because each has
    /// this number of reruns. A run ends earlier if it has measured enough, so that the reruns fit.
    pub(crate) fn all_before_reruns(&self, runs: usize, reruns: usize) -> Self {
        Control { early: self.early(runs, reruns), ..self.within(0.5) }
    }

    /// These settings for runs that should end after half of the time that is left, because others follow.
    pub(crate) fn before_others(&self) -> Self {
        self.within(0.5)
    }

    /// Wall-clock time at which these runs should end, so that their reruns fit.
    fn early(&self, runs: usize, reruns: usize) -> Option<Instant> {
        self.within(MARGIN * share_of_runs(runs, reruns, self.jobs)).share
    }
}

/// Reruns may take longer than their runs. So runs end after this part of the time that lets reruns fit.
const MARGIN: f64 = 0.8;

/// Share of the time for runs, if so many reruns of each run follow that take as long each. All of it without
/// runs.
fn share_of_runs(runs: usize, reruns: usize, jobs: usize) -> f64 {
    let jobs = jobs.max(1);
    let (own, other) = (runs.div_ceil(jobs) as f64, (runs * reruns) as f64 / jobs as f64);
    if runs == 0 { 1.0 } else { own / (own + other) }
}

/// The order in which runs start, and the use of runs that the deadline cuts short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Making {
    /// The longest run starts first. A run that the deadline cuts short has no result, because results are
    /// compared with each other.
    LongestFirst,
    /// Runs start in the given order, but of the next 32 runs, the longest starts first, so that no long run
    /// remains alone at the end. A run that the deadline cuts short has no result.
    InGroups,
    /// Runs start in the given order. A run that the deadline cuts short has the result known so far, if it
    /// has one. Each run gets an even share of the time that is left.
    Shared,
}

/// Number of runs in a group of [`Making::InGroups`].
const GROUP: usize = 32;

/// Number of cores of this machine.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Largest number of simulated threads of all concurrent runs together. It is limited because each thread has
/// a stack. `doorbell_workload` has the limit of one run.
const MOST_THREADS: u64 = 30_000;

/// Resources of this machine that a run needs.
#[derive(Clone, Copy)]
struct Needs {
    bytes: u64,
    threads: u64,
}

impl Needs {
    const NONE: Needs = Needs { bytes: 0, threads: 0 };

    fn of(run: &Run) -> Needs {
        Needs { bytes: run.bytes(), threads: run.threads() }
    }

    /// The sum of both needs.
    fn and(self, other: Needs) -> Needs {
        Needs { bytes: self.bytes + other.bytes, threads: self.threads + other.threads }
    }

    /// The difference of both needs.
    fn without(self, other: Needs) -> Needs {
        Needs { bytes: self.bytes - other.bytes, threads: self.threads - other.threads }
    }
}

/// The runs that are still to be made.
struct Queue {
    /// Indices of runs, the next one last.
    left: Vec<usize>,
    /// Needs of the runs in progress.
    taken: Needs,
    under_way: usize,
}

impl Queue {
    /// Removes the next run that fits into the budget. If no run is in progress, removes the next run.
    fn next(&mut self, needs: &[Needs], budget: Needs) -> Option<usize> {
        let fits = |number: &usize| {
            let all = self.taken.and(needs[*number]);
            all.bytes <= budget.bytes && all.threads <= budget.threads
        };
        let at = match self.under_way {
            0 => self.left.len().checked_sub(1),
            _ => self.left.iter().rposition(fits),
        }?;
        let number = self.left.remove(at);
        self.taken = self.taken.and(needs[number]);
        self.under_way += 1;
        Some(number)
    }
}

/// Makes all runs. Calls `done` from several threads, with the index and the result of each run. A failure,
/// an interrupt or the deadline keeps further runs from starting. `done` is not called for them. A run
/// without a result within its share of the time ends with [`SimulateError::OutOfTime`].
pub(crate) fn execute(
    runs: &[Run],
    control: &Control<'_>,
    making: Making,
    done: &(dyn Fn(usize, Result<Outcome, SimulateError>) + Sync),
) {
    let budget = Needs { bytes: memory::left() / 10 * 8, threads: MOST_THREADS };
    let make = |run: &Run, stop: &Stop| {
        let ran = run.run(stop, &())?.unless_interrupted()?;
        match (making, ran.ended()) {
            (Making::Shared, Ended::MaxWall) if ran.completed() => ran.unless_out_of_time(),
            (Making::Shared, Ended::MaxWall) => Err(SimulateError::OutOfTime),
            (_, Ended::MaxWall) if control.deadline.is_some() => Err(SimulateError::OutOfTime),
            _ => Ok(ran),
        }
    };
    execute_by(runs, control, (budget, making), &make, done);
}

/// Makes a run that must stop under the given conditions.
type Make<'a> = dyn Fn(&Run, &Stop) -> Result<Outcome, SimulateError> + Sync + 'a;

fn execute_by(
    runs: &[Run],
    control: &Control<'_>,
    (budget, making): (Needs, Making),
    make: &Make<'_>,
    done: &(dyn Fn(usize, Result<Outcome, SimulateError>) + Sync),
) {
    let needs: Vec<Needs> = runs.iter().map(Needs::of).collect();
    let costs: Vec<f64> = runs.iter().map(Run::cost).collect();
    let jobs = control.jobs.clamp(1, runs.len().max(1));
    let mut left: Vec<usize> = (0..runs.len()).collect();
    let group = match making {
        Making::LongestFirst => runs.len().max(1),
        Making::InGroups => GROUP,
        Making::Shared => 1,
    };
    for some in left.chunks_mut(group) {
        some.sort_by(|a, b| costs[*b].total_cmp(&costs[*a]).then(a.cmp(b)));
    }
    left.reverse();
    let queue = Mutex::new(Queue { left, taken: Needs::NONE, under_way: 0 });
    let changed = Condvar::new();
    let lock = || queue.lock().unwrap_or_else(|e| e.into_inner());
    let work = || {
        let mut held = lock();
        loop {
            if control.is_over() {
                held.left.clear();
            }
            if held.left.is_empty() {
                return;
            }
            let Some(number) = held.next(&needs, budget) else {
                held = changed.wait(held).unwrap_or_else(|e| e.into_inner());
                continue;
            };
            let rounds = (held.left.len() + 1).div_ceil(jobs);
            drop(held);
            let stop = match making {
                Making::LongestFirst | Making::InGroups => control.stop(),
                Making::Shared => control.within(1.0 / rounds as f64).stop(),
            };
            control.watch.began(costs[number], &stop.pace);
            let ended = make(&runs[number], &stop);
            control.watch.ended(&stop.pace);
            // A run that only had no result within its share of the time keeps no other run from starting.
            let failed = ended.as_ref().is_err_and(|error| !error.is_cut());
            done(number, ended);
            held = lock();
            held.taken = held.taken.without(needs[number]);
            held.under_way -= 1;
            if failed {
                held.left.clear();
            }
            changed.notify_all();
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    use doorbell_workload::{Resolved, Verb, Workload};
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn workload(us: u64, qps: u32) -> Resolved {
        let span = doorbell_schema::Duration::new(doorbell_verbs::Span::from_us(us));
        let given =
            Workload { verb: Some(Verb::Read), qps: Some(qps), duration: Some(span), ..Workload::default() };
        given.resolve(&given.load_profiles().unwrap()).unwrap()
    }

    fn runs(all: &[(u64, u32)]) -> Vec<Run> {
        let profiles = Workload::default().load_profiles().unwrap();
        all.iter().map(|(us, qps)| Run::verbs(profiles.clone(), workload(*us, *qps))).collect()
    }

    /// Indices of the runs in the order in which they are made, one at a time.
    fn order(runs: &[Run], making: Making, make: &Make<'_>) -> Vec<usize> {
        let made = Mutex::new(Vec::new());
        let control = Control { jobs: 1, ..Control::quiet() };
        let budget = Needs { bytes: u64::MAX, threads: u64::MAX };
        let done = |number, _: Result<Outcome, SimulateError>| made.lock().unwrap().push(number);
        execute_by(runs, &control, (budget, making), make, &done);
        made.into_inner().unwrap()
    }

    fn nothing(run: &Run, _: &Stop) -> Result<Outcome, SimulateError> {
        let w = run.as_verbs().expect("a workload of verbs");
        let run = crate::results::RawRun {
            threads: Vec::new(),
            shown: crate::results::Shown::nothing(),
            classes: Vec::new(),
            metrics: doorbell_sim::Metrics::default(),
            wall_seconds: 0.0,
        };
        Ok(Outcome::of_verbs(w, &run, crate::results::Bottleneck::none(String::new())))
    }

    #[test]
    fn the_longest_come_first_and_a_failure_is_the_last() {
        let runs = runs(&[(100, 1), (400, 1), (200, 1)]);
        assert_eq!(order(&runs, Making::LongestFirst, &nothing), [1, 2, 0]);
        assert_eq!(order(&runs, Making::Shared, &nothing), [0, 1, 2]);
        let fails = |_: &Run, _: &Stop| Err(SimulateError::Unfinished { machine: 0, thread: 0 });
        assert_eq!(order(&runs, Making::LongestFirst, &fails), [1]);
        // The share of each run is over before its set-up is.
        let late = |_: &Run, _: &Stop| Err(SimulateError::OutOfTime);
        assert_eq!(order(&runs, Making::Shared, &late), [0, 1, 2]);
    }

    #[test]
    fn the_longest_of_each_group_comes_first() {
        let mut all = [(100, 1); GROUP + 1];
        (all[2].0, all[GROUP].0) = (200, 400);
        let order = order(&runs(&all), Making::InGroups, &nothing);
        assert_eq!((&order[..3], order[GROUP]), (&[2, 0, 1][..], GROUP));
    }

    #[test]
    fn runs_share_the_time_to_the_deadline() {
        let runs = runs(&[(100, 1); 4]);
        let shares = |making| {
            let begin = Instant::now();
            let deadline = begin + Duration::from_secs(1000);
            let control = Control { jobs: 2, deadline: Some(deadline), ..Control::quiet() };
            let budget = Needs { bytes: u64::MAX, threads: u64::MAX };
            let ends = Mutex::new(Vec::new());
            let make = |run: &Run, stop: &Stop| {
                let at = stop.share.or(stop.at).expect("there is a deadline").duration_since(begin);
                ends.lock().unwrap().push((at.as_secs_f64() / 100.0).round() as u32);
                nothing(run, stop)
            };
            execute_by(&runs, &control, (budget, making), &make, &|_, _| ());
            let mut ends = ends.into_inner().unwrap();
            ends.sort_unstable();
            ends
        };
        // Four runs of two threads: half of the time for the first two, and what is left for the last two.
        assert_eq!(shares(Making::Shared), [5, 5, 10, 10]);
        assert_eq!(shares(Making::LongestFirst), [10; 4]);
    }

    #[test]
    fn runs_leave_time_for_their_reruns() {
        let begin = Instant::now();
        let control =
            Control { jobs: 1, deadline: Some(begin + Duration::from_secs(1000)), ..Control::quiet() };
        let seconds = |at: Option<Instant>| at.map(|at| (at - begin).as_secs_f64().round() as u32);
        let one = control.before_reruns(9);
        assert_eq!((seconds(one.early), seconds(one.share)), (Some(80), None));
        let four = control.all_before_reruns(4, 9);
        assert_eq!((seconds(four.early), seconds(four.share)), (Some(80), Some(500)));
        // Each of the four runs has a quarter of both.
        let first = four.within(0.25);
        assert_eq!((seconds(first.early), seconds(first.share)), (Some(20), Some(125)));
        assert_eq!(seconds(control.all_before_reruns(0, 9).early), Some(800));
        assert_eq!(Control::quiet().before_reruns(9).early, None);
    }

    #[test]
    fn no_run_starts_after_the_deadline() {
        let control = Control { deadline: Some(Instant::now()), ..Control::quiet() };
        for making in [Making::LongestFirst, Making::Shared] {
            execute(&runs(&[(100, 1)]), &control, making, &|_, _| panic!("it started"));
        }
    }

    #[test]
    fn runs_wait_for_memory_and_stacks() {
        let runs = runs(&[(100, 1000); 6]);
        let one = Needs::of(&runs[0]);
        let all = Needs { bytes: u64::MAX, threads: u64::MAX };
        for budget in [Needs { bytes: 2 * one.bytes, ..all }, Needs { threads: 2 * one.threads, ..all }] {
            wait(&runs, budget);
        }
    }

    fn wait(runs: &[Run], budget: Needs) {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let make = |run: &Run, stop: &Stop| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(5));
            now.fetch_sub(1, Ordering::SeqCst);
            nothing(run, stop)
        };
        let made = AtomicUsize::new(0);
        let control = Control { jobs: 6, ..Control::quiet() };
        execute_by(runs, &control, (budget, Making::LongestFirst), &make, &|_, _| {
            made.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(made.into_inner(), 6);
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)), "no more than two fit");
        // A run that needs more than the whole memory is made alone.
        assert_eq!(order(runs, Making::LongestFirst, &make).len(), 6);
    }
}
