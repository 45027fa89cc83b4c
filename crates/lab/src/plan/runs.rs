//! What experiments ask for: workloads of verbs.

use super::{NotYet, Run};
use crate::explain::Depth;
use crate::judge::claims;
use crate::papers::{Check, Ctx, Found};
use crate::results::Outcome;
use doorbell_nic::Profile;
use doorbell_schema::Duration;
use doorbell_systems::config::Timing;
use doorbell_verbs::Span;
use doorbell_workload::{Profiles, Resolved, Workload};
use std::sync::Arc;

/// A workload measured for so many microseconds after 100 of warm-up: rates are steady early, and
/// runs are many.
pub(crate) fn briefly(us: u64, workload: Workload) -> Workload {
    let span = |us| Some(Duration::new(Span::from_us(us)));
    Workload { warmup: span(100), duration: span(us), ..workload }
}

/// What the paper does not state and a run had to choose.
pub(crate) fn setting(outcome: &Outcome) -> String {
    let Resolved { machines, threads, qps, .. } = outcome.workload;
    let window = outcome.workload.window().operations();
    let setting = format!("{machines} machines of {threads} threads with {qps} QPs each, window {window}");
    match outcome.lift.is_empty() {
        true => setting,
        false => format!("{}; {setting}", outcome.bottleneck.text),
    }
}

/// Warm-up and measured time of runs for which an experiment says none.
const USUAL: (Span, Span) = (Span::from_us(200), Span::from_ms(1));

/// Virtual time after which a run of an experiment ends that does not settle, where it is to.
const PATIENCE: Duration = Duration::new(Span::from_ms(5));

impl Ctx<'_> {
    /// From when to when a run is measured: as said, else as usual; or until it knows its answer.
    pub(super) fn timing(&self, said: Timing, usual: (Span, Span)) -> Timing {
        if let Some(precision) = self.precision {
            return Timing { warmup: None, duration: None, precision, max_time: PATIENCE, ..said };
        }
        let duration = said.duration.map_or(usual.1, Duration::span);
        let hurried = Duration::new(Span::from_ps(duration.as_ps() / self.hurry));
        let warmup = said.warmup.unwrap_or(Duration::new(usual.0));
        Timing { warmup: Some(warmup), duration: Some(hurried), ..said }
    }

    /// Each of `workloads` on `profile`; the outcomes have their order.
    ///
    /// # Errors
    /// Where a run is not known yet, or fails.
    pub fn measure(
        &self,
        profile: &str,
        what: &str,
        workloads: &[Workload],
    ) -> Result<Vec<Arc<Outcome>>, NotYet> {
        self.measure_on(self.profile(profile), what, workloads)
    }

    /// The same on a profile that is none of the clusters.
    ///
    /// # Errors
    /// Where a run is not known yet, or fails.
    pub fn measure_on(
        &self,
        profile: &Profile,
        what: &str,
        workloads: &[Workload],
    ) -> Result<Vec<Arc<Outcome>>, NotYet> {
        // All are asked for before the first that is not known ends this.
        let all: Vec<_> =
            workloads.iter().map(|w| self.known.of(&self.run_of(profile, what, w), what)).collect();
        all.into_iter().map(|ran| Ok(ran?.verbs())).collect()
    }

    /// `workload` on `profile`, with what limits it.
    ///
    /// # Errors
    /// Where a run is not known yet, or fails.
    pub fn explain(&self, profile: &str, what: &str, workload: &Workload) -> Result<Arc<Outcome>, NotYet> {
        let run = self.run_of(self.profile(profile), what, workload);
        if self.explains {
            Ok(self.known.explained(&run, what, Depth::Tenths)?.verbs())
        } else {
            Ok(self.known.of(&run, what)?.verbs())
        }
    }

    fn run_of(&self, profile: &Profile, what: &str, workload: &Workload) -> Run {
        let profiles = Profiles::from(profile);
        let mut workload = workload.resolve(&profiles).unwrap_or_else(|e| panic!("workload of {what}: {e}"));
        let Resolved { warmup, duration, precision, max_time, seed, .. } = workload;
        let timing = self.timing(Timing { warmup, duration, precision, max_time, seed }, USUAL);
        (workload.warmup, workload.duration) = (timing.warmup, timing.duration);
        (workload.precision, workload.max_time) = (timing.precision, timing.max_time);
        Run::verbs(profiles, workload)
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
        Found::Number(n) => claims::find(c.claim).and_then(|claim| claim.error(n)),
        _ => None,
    };
    let number = |c: &Check| match c.found {
        Found::Number(n) => Some((c.profile, n)),
        _ => None,
    };
    let of_each = checks.iter().filter_map(number).collect();
    let worst = checks.into_iter().max_by(|a, b| error(a).unwrap_or(0.0).total_cmp(&error(b).unwrap_or(0.0)));
    Check { of_each, ..worst.expect("a claim is about at least one cluster") }
}
