//! Executes runs on the cores of this machine: longest first, as many at a time as memory allows.

use super::memory;
use super::run::Run;
use crate::results::Outcome;
use crate::run_error::SimulateError;
use crate::watch::Watch;
use doorbell_programs::steady::Stop;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

/// Settings for making, watching and stopping simulations.
#[derive(Clone)]
pub struct Control<'a> {
    /// Set to stop. Results computed so far are returned.
    pub interrupt: Arc<AtomicBool>,
    /// Largest number of concurrent runs.
    pub jobs: usize,
    /// Wall-clock time that a run may take. After this time the run ends with the result known so far.
    pub max_wall: Option<std::time::Duration>,
    /// Receives the progress of the runs.
    pub watch: &'a dyn Watch,
}

impl Control<'static> {
    /// Settings without a watcher or a stop. As many runs at a time as cores.
    pub fn quiet() -> Control<'static> {
        Control { interrupt: Arc::default(), jobs: cores(), max_wall: None, watch: &() }
    }
}

impl Control<'_> {
    /// The stop conditions of a run that begins now.
    pub(crate) fn stop(&self) -> Stop {
        Stop { interrupt: self.interrupt.clone(), at: self.max_wall.map(|wall| Instant::now() + wall) }
    }
}

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
    /// Indices of runs, the longest last.
    left: Vec<usize>,
    /// Needs of the runs in progress.
    taken: Needs,
    under_way: usize,
}

impl Queue {
    /// Removes the longest run that fits into the budget. If no run is in progress, removes the longest run
    /// of all.
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

/// Makes all runs. Calls `done` from several threads, with the index and the result of each run. A failure or
/// an interrupt keeps further runs from starting.
pub(crate) fn execute(
    runs: &[Run],
    control: &Control<'_>,
    done: &(dyn Fn(usize, Result<Outcome, SimulateError>) + Sync),
) {
    let budget = Needs { bytes: memory::left() / 10 * 8, threads: MOST_THREADS };
    let make = |run: &Run| run.run(&control.stop(), &())?.unless_interrupted();
    execute_by(runs, control, budget, &make, done);
}

fn execute_by(
    runs: &[Run],
    control: &Control<'_>,
    budget: Needs,
    make: &(dyn Fn(&Run) -> Result<Outcome, SimulateError> + Sync),
    done: &(dyn Fn(usize, Result<Outcome, SimulateError>) + Sync),
) {
    let needs: Vec<Needs> = runs.iter().map(Needs::of).collect();
    let costs: Vec<f64> = runs.iter().map(Run::cost).collect();
    let mut left: Vec<usize> = (0..runs.len()).collect();
    left.sort_by(|a, b| costs[*a].total_cmp(&costs[*b]).then(b.cmp(a)));
    let queue = Mutex::new(Queue { left, taken: Needs::NONE, under_way: 0 });
    let changed = Condvar::new();
    let lock = || queue.lock().unwrap_or_else(|e| e.into_inner());
    let work = || {
        let mut held = lock();
        loop {
            if held.left.is_empty() {
                return;
            }
            let Some(number) = held.next(&needs, budget) else {
                held = changed.wait(held).unwrap_or_else(|e| e.into_inner());
                continue;
            };
            drop(held);
            let ended = make(&runs[number]);
            let failed = ended.is_err();
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
        for _ in 0..control.jobs.clamp(1, runs.len().max(1)) {
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
    fn order(runs: &[Run], make: &(dyn Fn(&Run) -> Result<Outcome, SimulateError> + Sync)) -> Vec<usize> {
        let made = Mutex::new(Vec::new());
        let control = Control { jobs: 1, ..Control::quiet() };
        let budget = Needs { bytes: u64::MAX, threads: u64::MAX };
        execute_by(runs, &control, budget, make, &|number, _| made.lock().unwrap().push(number));
        made.into_inner().unwrap()
    }

    fn nothing(run: &Run) -> Result<Outcome, SimulateError> {
        let w = run.as_verbs().expect("a workload of verbs");
        let run = crate::results::RawRun {
            threads: Vec::new(),
            shown: crate::results::Shown::nothing(),
            classes: Vec::new(),
            metrics: doorbell_sim::Metrics::default(),
            wall_seconds: 0.0,
        };
        Ok(Outcome::of_verbs(w, &run))
    }

    #[test]
    fn the_longest_come_first_and_a_failure_is_the_last() {
        let runs = runs(&[(100, 1), (400, 1), (200, 1)]);
        assert_eq!(order(&runs, &nothing), [1, 2, 0]);
        let fails = |_: &Run| Err(SimulateError::Unfinished { machine: 0, thread: 0 });
        assert_eq!(order(&runs, &fails), [1]);
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
        let make = |run: &Run| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(std::time::Duration::from_millis(5));
            now.fetch_sub(1, Ordering::SeqCst);
            nothing(run)
        };
        let made = AtomicUsize::new(0);
        let control = Control { jobs: 6, ..Control::quiet() };
        execute_by(runs, &control, budget, &make, &|_, _| {
            made.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(made.into_inner(), 6);
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)), "no more than two fit");
        // A run that needs more than the whole memory is made alone.
        assert_eq!(order(runs, &make).len(), 6);
    }
}
