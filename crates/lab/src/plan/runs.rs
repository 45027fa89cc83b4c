//! Runs of workloads for experiments; what several experiments need is run once.

use crate::explain::{self, Control, EXPLAIN_RUNS};
use crate::papers::{Check, Ctx};
use crate::plan::parallel;
use crate::results::outcome::Outcome;
use crate::simulate::SimulateError;
use doorbell_nic::Profile;
use doorbell_schema::Duration;
use doorbell_verbs::Span;
use doorbell_workload::Profiles;
use doorbell_workload::{Resolved, Workload};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Which profile, which workload, with or without reruns for its bottleneck.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    profile: String,
    workload: String,
    explained: bool,
}

/// Outcomes by what was run.
#[derive(Clone, Default)]
pub(crate) struct Runs(Arc<Mutex<HashMap<Key, Arc<Outcome>>>>);

impl Runs {
    fn find(&self, key: &Key) -> Option<Arc<Outcome>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).get(key).cloned()
    }

    fn keep(&self, key: Key, outcome: Outcome) -> Arc<Outcome> {
        let outcome = Arc::new(outcome);
        self.0.lock().unwrap_or_else(|e| e.into_inner()).insert(key, outcome.clone());
        outcome
    }
}

/// A workload measured for so many microseconds after 100 of warm-up: rates are steady early, and
/// runs are many.
pub(crate) fn briefly(us: u64, workload: Workload) -> Workload {
    let span = |us| Some(Duration::new(Span::from_us(us)));
    Workload { warmup: span(100), duration: span(us), ..workload }
}

/// What the paper does not state and a run had to choose.
pub(crate) fn setting(outcome: &Outcome) -> String {
    let Resolved { machines, threads, qps, window, .. } = outcome.workload;
    let setting = format!("{machines} machines of {threads} threads with {qps} QPs each, window {window}");
    match outcome.lift.is_empty() {
        true => setting,
        false => format!("{}; {setting}", outcome.bottleneck.text),
    }
}

impl Ctx<'_> {
    /// Runs each of `workloads` on `profile` once; the outcomes have their order.
    pub(crate) fn measure(
        &self,
        profile: &str,
        what: &str,
        workloads: &[Workload],
    ) -> Result<Vec<Arc<Outcome>>, SimulateError> {
        self.measure_on(self.profile(profile), what, workloads)
    }

    /// The same on a profile that is none of the clusters.
    pub(crate) fn measure_on(
        &self,
        profile: &Profile,
        what: &str,
        workloads: &[Workload],
    ) -> Result<Vec<Arc<Outcome>>, SimulateError> {
        parallel::map(workloads, |w| self.one(profile, what, w, false)).into_iter().collect()
    }

    /// Runs `workload` on `profile` and observes what limits it.
    pub(crate) fn explain(
        &self,
        profile: &str,
        what: &str,
        workload: &Workload,
    ) -> Result<Arc<Outcome>, SimulateError> {
        self.one(self.profile(profile), what, workload, self.explains)
    }

    fn one(
        &self,
        profile: &Profile,
        what: &str,
        workload: &Workload,
        explained: bool,
    ) -> Result<Arc<Outcome>, SimulateError> {
        let profiles = Profiles::from(profile);
        let mut workload = workload.resolve(&profiles).unwrap_or_else(|e| panic!("workload of {what}: {e}"));
        workload.duration = Duration::new(Span::from_ps(workload.duration.span().as_ps() / self.hurry));
        let key = |explained| Key {
            // Everything that the outcome depends on.
            profile: format!("{profile:?}"),
            workload: format!("{workload:?}"),
            explained,
        };
        let known = self.runs.find(&key(true)).or_else(|| self.runs.find(&key(explained)));
        if let Some(outcome) = known.filter(|o| !explained || !o.lift.is_empty()) {
            for _ in 0..if explained { EXPLAIN_RUNS } else { 1 } {
                (self.control.progress)(what);
            }
            return Ok(outcome);
        }
        let control = Control {
            interrupt: self.control.interrupt.clone(),
            progress: &|run| (self.control.progress)(&format!("{what}: {run}")),
        };
        let outcome = match explained {
            true => explain::explain(&profiles, &workload, &control)?,
            false => explain::simulate(&profiles, &workload, &control)?,
        };
        Ok(self.runs.keep(key(explained), outcome))
    }
}

/// More of `to` than of `from`, in percent.
pub(crate) fn percent_more(from: f64, to: f64) -> f64 {
    (to / from - 1.0) * 100.0
}

/// The check whose number errs most: what a claim about several clusters says is as true as its
/// worst case.
pub(crate) fn worst(checks: Vec<Check>) -> Check {
    let error = |c: &Check| match c.found {
        crate::papers::Found::Number(n) => {
            crate::judge::claims::find(c.claim).and_then(|claim| claim.error(n))
        }
        _ => None,
    };
    let worst = checks.into_iter().max_by(|a, b| error(a).unwrap_or(0.0).total_cmp(&error(b).unwrap_or(0.0)));
    worst.expect("a claim is about at least one cluster")
}
