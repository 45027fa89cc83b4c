//! Runs of systems for the figures of ATC'16, section 4.

use crate::explain::{Control, EXPLAIN_RUNS};
use crate::papers::{Check, Ctx, Curve};
use crate::plan::parallel;
use crate::simulate::SimulateError;
use crate::systems::{self, SystemOutcome, SystemWorkload};
use doorbell_schema::Duration;
use doorbell_verbs::Span;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// A run: its profile, its workload, and whether the bottleneck was observed.
type Key = (String, String, bool);

/// Outcomes of the runs so far.
#[derive(Clone, Default)]
pub(crate) struct SystemRuns(Arc<Mutex<HashMap<Key, SystemOutcome>>>);

impl Ctx<'_> {
    /// Runs each of `all` on `profile` once; the outcomes have their order.
    pub(crate) fn systems(
        &self,
        profile: &str,
        what: &str,
        all: &[SystemWorkload],
    ) -> Result<Vec<SystemOutcome>, SimulateError> {
        parallel::map(all, |w| self.one_system(profile, what, w, false)).into_iter().collect()
    }

    /// Runs `w` and observes what limits it.
    pub(crate) fn explain_system(
        &self,
        profile: &str,
        what: &str,
        w: &SystemWorkload,
    ) -> Result<SystemOutcome, SimulateError> {
        self.one_system(profile, what, w, self.explains)
    }

    fn one_system(
        &self,
        profile: &str,
        what: &str,
        w: &SystemWorkload,
        explained: bool,
    ) -> Result<SystemOutcome, SimulateError> {
        let profile = self.profile(profile);
        let w = &w.lasting(Duration::new(Span::from_ps(w.duration().as_ps() / self.hurry)));
        let key = |explained| (format!("{profile:?}"), format!("{w:?}"), explained);
        let runs = || self.system_runs.0.lock().unwrap_or_else(|e| e.into_inner());
        let known = || {
            let runs = runs();
            // Who asks for no bottleneck is served by a run with one.
            runs.get(&key(explained)).or_else(|| runs.get(&key(true))).cloned()
        };
        if let Some(outcome) = known() {
            for _ in 0..if explained { EXPLAIN_RUNS } else { 1 } {
                (self.control.progress)(what);
            }
            return Ok(outcome);
        }
        let progress = |run: &str| (self.control.progress)(&format!("{what}: {run}"));
        let control = Control { interrupt: self.control.interrupt.clone(), progress: &progress };
        let run = if explained { systems::explain_system } else { systems::simulate_system };
        let outcome = run(profile, w, &control)?;
        runs().insert(key(explained), outcome.clone());
        Ok(outcome)
    }
}

impl Check {
    /// The rate of a system whose bottleneck was observed.
    pub(crate) fn system(claim: &'static str, profile: &'static str, outcome: &SystemOutcome) -> Check {
        Check::number(claim, profile, outcome.mrps).system_limited_by(outcome).note(setting(outcome))
    }

    /// Says what limited `outcome`, which was observed by reruns.
    pub(crate) fn system_limited_by(mut self, outcome: &SystemOutcome) -> Check {
        if !outcome.lift.is_empty() {
            self.bottleneck = Some(outcome.bottleneck.clone());
        }
        self
    }
}

/// What the paper does not state and a run had to choose.
pub(crate) fn setting(outcome: &SystemOutcome) -> String {
    let w = &outcome.workload;
    let how = if w.has("windows") { "in windows of" } else { "with" };
    let setting = format!("{} clients {how} {} outstanding", w.number("clients"), w.number("outstanding"));
    match outcome.lift.is_empty() {
        true => setting,
        false => format!("{}; {setting}", outcome.bottleneck.text),
    }
}

/// A curve of rates.
pub(crate) fn curve(
    experiment: &str,
    name: &str,
    profile: &str,
    x: &str,
    y: &str,
    points: Vec<(f64, f64)>,
) -> Curve {
    Curve {
        experiment: experiment.into(),
        name: name.into(),
        profile: profile.into(),
        x: x.into(),
        y: y.into(),
        points,
    }
}
