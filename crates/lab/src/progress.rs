//! Forecast of the wall-clock time that the announced runs still take.

use doorbell_programs::steady::Pace;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Largest number of samples of a run's progress. When it is reached, every second sample is dropped.
const SAMPLES: usize = 64;

/// Keeps account of announced runs, and forecasts the time until all have ended. The caller supplies the
/// present as time since a fixed start.
///
/// A run's time is forecast from its virtual time, or else from its cost and from the times of other runs.
pub struct Forecast {
    jobs: usize,
    state: Mutex<ForecastState>,
}

#[derive(Default)]
struct ForecastState {
    /// Costs of the planned runs that have not begun.
    waiting: Vec<f64>,
    /// Number of runs that will probably be planned later.
    expected: usize,
    running: Vec<Running>,
    finished: Sum,
}

/// Sum over runs.
#[derive(Clone, Copy, Default)]
struct Sum {
    runs: usize,
    seconds: f64,
    cost: f64,
}

impl Sum {
    fn add(&mut self, seconds: f64, cost: f64) {
        *self = Sum { runs: self.runs + 1, seconds: self.seconds + seconds, cost: self.cost + cost };
    }
}

struct Running {
    cost: f64,
    pace: Arc<Pace>,
    /// Seconds at which the run began.
    began: f64,
    /// Seconds, and seconds of virtual time, in order.
    seen: Vec<(f64, f64)>,
}

impl Running {
    fn look(&mut self, now: f64) {
        let at = self.pace.now().as_secs_f64();
        if at <= 0.0 {
            return;
        }
        if self.seen.len() == SAMPLES {
            let mut number = 0;
            self.seen.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
        self.seen.push((now, at));
    }

    /// Virtual seconds per second in the later half of the run; `None` before any progress is seen. The first
    /// half may be set-up, which takes little virtual time.
    fn speed(&self) -> Option<f64> {
        let (last, at) = *self.seen.last()?;
        let (first, _) = *self.seen.first()?;
        let middle = (first + last) / 2.0;
        let (since, from) = *self.seen.iter().rev().find(|(time, _)| *time <= middle)?;
        (last > since && at > from).then(|| (at - from) / (last - since))
    }

    /// Seconds until the run ends; `None` if it has published no expected end, or no progress.
    fn left(&self) -> Option<f64> {
        Some(self.pace.left()?.as_secs_f64() / self.speed()?)
    }
}

impl Forecast {
    /// A forecast for runs of which so many are made at a time.
    pub fn new(jobs: usize) -> Forecast {
        Forecast { jobs: jobs.max(1), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, ForecastState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds planned runs with these costs. They count as runs that were expected.
    pub fn planned(&self, costs: &[f64]) {
        let mut state = self.lock();
        state.waiting.extend(costs);
        state.expected = state.expected.saturating_sub(costs.len());
    }

    /// Sets the number of runs that will probably be planned later.
    pub fn expected(&self, runs: usize) {
        self.lock().expected = runs;
    }

    /// Moves a planned run of this cost to the runs in progress.
    pub fn began(&self, now: Duration, cost: f64, pace: &Arc<Pace>) {
        let mut state = self.lock();
        if let Some(at) = state.waiting.iter().position(|waiting| *waiting == cost) {
            state.waiting.swap_remove(at);
        }
        let began = now.as_secs_f64();
        state.running.push(Running { cost, pace: pace.clone(), began, seen: Vec::new() });
    }

    /// Moves a run to the finished runs.
    pub fn ended(&self, now: Duration, pace: &Arc<Pace>) {
        let mut state = self.lock();
        if let Some(at) = state.running.iter().position(|run| Arc::ptr_eq(&run.pace, pace)) {
            let run = state.running.swap_remove(at);
            state.finished.add(now.as_secs_f64() - run.began, run.cost);
        }
    }

    /// Samples the progress of the runs. Returns the time until all runs have ended; `None` if it is not
    /// known.
    pub fn left(&self, now: Duration) -> Option<Duration> {
        let mut state = self.lock();
        let now = now.as_secs_f64();
        state.running.iter_mut().for_each(|run| run.look(now));
        let left = state.left(now, self.jobs)?;
        left.is_finite().then(|| Duration::from_secs_f64(left.clamp(0.0, 1e9)))
    }
}

impl ForecastState {
    /// Seconds until all runs have ended.
    fn left(&self, now: f64, jobs: usize) -> Option<f64> {
        let mut all = self.finished;
        let known = self.running.iter().filter_map(|run| Some((run, run.left()?)));
        known.for_each(|(run, left)| all.add(now - run.began + left, run.cost));
        // Without any finished or forecast run, nothing is known.
        let per_cost = (all.runs > 0).then(|| all.seconds / all.cost.max(f64::MIN_POSITIVE))?;
        let of =
            |run: &Running| run.left().unwrap_or_else(|| (per_cost * run.cost - (now - run.began)).max(0.0));
        let running: Vec<f64> = self.running.iter().map(of).collect();
        let waiting = per_cost * self.waiting.iter().sum::<f64>();
        let expected = self.expected as f64 * all.seconds / all.runs as f64;
        let longest = running.iter().copied().fold(0.0, f64::max);
        let work = running.iter().sum::<f64>() + waiting + expected;
        let runs = self.running.len() + self.waiting.len() + self.expected;
        Some(longest.max(work / jobs.min(runs.max(1)) as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn without_progress_nothing_is_known() {
        let forecast = Forecast::new(2);
        forecast.planned(&[5.0, 5.0]);
        assert_eq!(forecast.left(seconds(1.0)), None);
        forecast.began(seconds(1.0), 5.0, &Arc::default());
        assert_eq!(forecast.left(seconds(2.0)), None);
    }

    #[test]
    fn runs_that_wait_take_as_long_as_their_cost_says() {
        let forecast = Forecast::new(1);
        let first = Arc::default();
        forecast.planned(&[5.0, 10.0, 20.0]);
        forecast.began(seconds(0.0), 5.0, &first);
        forecast.ended(seconds(3.0), &first);
        assert_eq!(forecast.left(seconds(3.0)), Some(seconds(18.0)));
        // A run in progress without an expected end takes its cost's time, too.
        forecast.began(seconds(3.0), 10.0, &Arc::default());
        assert_eq!(forecast.left(seconds(7.0)), Some(seconds(14.0)));
        forecast.expected(4);
        assert_eq!(forecast.left(seconds(7.0)), Some(seconds(26.0)));
        // Of expected runs, some are planned now.
        forecast.planned(&[5.0; 3]);
        assert_eq!(forecast.left(seconds(7.0)), Some(seconds(26.0)));
    }

    #[test]
    fn several_runs_at_a_time_take_less_time() {
        let forecast = Forecast::new(2);
        let first = Arc::default();
        forecast.planned(&[1.0; 5]);
        forecast.began(seconds(0.0), 1.0, &first);
        forecast.ended(seconds(2.0), &first);
        assert_eq!(forecast.left(seconds(2.0)), Some(seconds(4.0)));
    }
}
