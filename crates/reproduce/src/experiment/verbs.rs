//! Workloads of verbs that experiments ask a context for.

use super::context::Ctx;
use super::setting::something;
use doorbell_lab::{Depth, NotYet, Outcome, Run, explained};
use doorbell_nic::Profile;
use doorbell_schema::{Duration, Until};
use doorbell_systems::config::Timing;
use doorbell_verbs::Span;
use doorbell_workload::{Operation, Profiles, Resolved, Workload};
use std::sync::Arc;

/// `workload` with 100 us of warm-up and `us` microseconds of measurement. Short runs suffice because rates
/// are steady early. They are needed because there are many runs.
pub(crate) fn briefly(us: u64, workload: Workload) -> Workload {
    let span = |us| Some(Duration::new(Span::from_us(us)));
    Workload { warmup: span(100), duration: span(us), ..workload }
}

/// Default warm-up and measured time of workloads, for experiments that state neither.
const USUAL: (Span, Span) = (Span::from_us(200), Span::from_ms(1));

/// In a context with a precision, a run ends after this virtual time even if it has not settled.
const PATIENCE: Duration = Duration::new(Span::from_ms(5));

impl Ctx<'_> {
    /// Timing of a run. If the context has a precision, the run ends when its result is known to it.
    /// Otherwise the run takes the times that the experiment states, or else `usual`.
    pub(super) fn timing(&self, said: Timing, usual: (Span, Span)) -> Timing {
        if let Some(precision) = self.precision {
            let until = Some(Until::Mean);
            return Timing { warmup: None, duration: None, precision, until, max_time: PATIENCE, ..said };
        }
        let duration = said.duration.map_or(usual.1, Duration::span);
        let hurried = Duration::new(Span::from_ps(duration.as_ps() / self.hurry));
        let warmup = said.warmup.unwrap_or(Duration::new(usual.0));
        Timing { warmup: Some(warmup), duration: Some(hurried), ..said }
    }

    /// Measures each of `workloads` on `profile`. The outcomes are in the order of `workloads`.
    ///
    /// # Errors
    /// If a result is not known yet, or a run fails.
    pub fn measure(
        &self,
        profile: &str,
        what: &str,
        workloads: &[Workload],
    ) -> Result<Vec<Arc<Outcome>>, NotYet> {
        self.measure_on(self.profile(profile), what, workloads)
    }

    /// Like [`Ctx::measure`], for workloads that must first reach a certain state. Measurement starts after
    /// the stated warm-up, even if the context has a precision. A run that ends at a precision cannot detect
    /// a slow change, so it would otherwise measure the warm-up, too.
    ///
    /// # Errors
    /// If a result is not known yet, or a run fails.
    pub(crate) fn measure_warmed(
        &self,
        profile: &str,
        what: &str,
        workloads: &[Workload],
    ) -> Result<Vec<Arc<Outcome>>, NotYet> {
        let profile = self.profile(profile);
        let runs = workloads.iter().map(|w| self.run_warmed(profile, what, w));
        self.outcomes(what, runs.collect())
    }

    /// [`Ctx::measure`] on a profile that may differ from the clusters.
    ///
    /// # Errors
    /// If a result is not known yet, or a run fails.
    pub fn measure_on(
        &self,
        profile: &Profile,
        what: &str,
        workloads: &[Workload],
    ) -> Result<Vec<Arc<Outcome>>, NotYet> {
        self.outcomes(what, workloads.iter().map(|w| self.run_of(profile, what, w)).collect())
    }

    /// The outcomes of runs, in the order of the runs.
    pub(super) fn outcomes(&self, what: &str, runs: Vec<Run>) -> Result<Vec<Arc<Outcome>>, NotYet> {
        // The context learns of all runs before the first unknown result returns.
        let all: Vec<_> = runs.iter().map(|run| self.known.of(run, what)).collect();
        all.into_iter().map(|outcome| something(what, outcome?)).collect()
    }

    /// Measures `workload` on `profile` and observes its limit.
    ///
    /// # Errors
    /// If a result is not known yet, or a run fails.
    pub fn explain(&self, profile: &str, what: &str, workload: &Workload) -> Result<Arc<Outcome>, NotYet> {
        let run = self.run_of(self.profile(profile), what, workload);
        self.limited(&run, what)
    }

    /// The outcome of a run, with its limit if the context observes bottlenecks.
    pub(super) fn limited(&self, run: &Run, what: &str) -> Result<Arc<Outcome>, NotYet> {
        let outcome = match self.explains {
            true => explained(&self.known, run, what, Depth::Tenths).map(Arc::new),
            false => self.known.of(run, what),
        };
        something(what, outcome?)
    }

    fn run_of(&self, profile: &Profile, what: &str, workload: &Workload) -> Run {
        self.run(profile, what, workload, |timing| self.timing(timing, USUAL))
    }

    /// Like [`Ctx::run_of`], but measurement starts after the stated warm-up.
    fn run_warmed(&self, profile: &Profile, what: &str, workload: &Workload) -> Run {
        self.run(profile, what, workload, |said| {
            let warmup = said.warmup;
            let timing = self.timing(said, USUAL);
            let (Some(warmup), None) = (warmup, timing.duration) else { return timing };
            let max_time = Duration::new(warmup.span() + timing.max_time.span());
            Timing { warmup: Some(warmup), max_time, ..timing }
        })
    }

    fn run(
        &self,
        profile: &Profile,
        what: &str,
        workload: &Workload,
        timing: impl Fn(Timing) -> Timing,
    ) -> Run {
        let (profiles, asked) = (Profiles::from(profile), workload);
        let mut workload = workload.resolve(&profiles).unwrap_or_else(|e| panic!("workload of {what}: {e}"));
        assert!(
            states_inline(asked, &workload),
            "the workload of {what} does not state if payload is inline"
        );
        let Resolved { warmup, duration, precision, until, max_time, seed, .. } = workload;
        let timing = timing(Timing { warmup, duration, precision, until, max_time, seed });
        (workload.warmup, workload.duration) = (timing.warmup, timing.duration);
        (workload.precision, workload.max_time) = (timing.precision, timing.max_time);
        workload.until = timing.until;
        Run::verbs(profiles, workload)
    }
}

/// Whether a workload states if its payload is copied into WQEs. A default that depends on the model must not
/// change the numbers of an experiment.
fn states_inline(asked: &Workload, resolved: &Resolved) -> bool {
    let carries = |operation: &Operation| operation.verb.has_payload(operation.size);
    let of_memory = asked.local_region.is_some() || asked.sges.is_some_and(|sges| sges > 1);
    let states = asked.inline.is_some() || asked.inline_up_to.is_some();
    states || of_memory || !resolved.operations().iter().any(carries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_lab::Control;

    #[test]
    fn experiments_state_if_payload_is_inline() {
        let states = |toml: &str| {
            let workload = Workload::from_toml("w.toml", toml).unwrap();
            states_inline(&workload, &workload.resolve(&workload.load_profiles().unwrap()).unwrap())
        };
        for stated in [
            "verb = \"write\"\ninline = false",
            "mix = \"write/32:1,read/64:1\"\ninline_up_to = 32",
            "verb = \"read\"",
            "verb = \"send\"\nsize = 0",
            "verb = \"write\"\nlocal_region = 65536",
        ] {
            assert!(states(stated), "{stated}");
        }
        assert!(!states("verb = \"write\"") && !states("mix = \"write/32:1,read/64:1\""));
    }

    #[test]
    fn what_a_warm_up_brings_about_is_waited_for_to_any_precision() {
        let said = Duration::new(Span::from_ms(15));
        let workload =
            Workload { warmup: Some(said), duration: Some(said), inline: Some(true), ..Workload::default() };
        let precise = Ctx::new(false, Control::quiet()).unwrap().with_precision("3%".parse().unwrap());
        let of = |run: Run| {
            let w = run.as_verbs().expect("a workload of verbs");
            (w.warmup, w.duration, w.max_time.span())
        };
        let profile = precise.profile("cx3");
        assert_eq!(of(precise.run_of(profile, "it", &workload)), (None, None, PATIENCE.span()));
        let longer = said.span() + PATIENCE.span();
        assert_eq!(of(precise.run_warmed(profile, "it", &workload)), (Some(said), None, longer));
        let own = Ctx::new(false, Control::quiet()).unwrap();
        let timed = of(own.run_warmed(profile, "it", &workload));
        assert_eq!(timed, of(own.run_of(profile, "it", &workload)));
        assert_eq!((timed.0, timed.1), (Some(said), Some(said)));
    }
}
