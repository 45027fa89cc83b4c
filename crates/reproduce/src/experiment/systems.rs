//! Runs of systems that experiments ask a context for.

use super::context::Ctx;
use doorbell_lab::{NotYet, Outcome, Run, SystemWorkload};
use doorbell_nic::Profile;
use doorbell_verbs::Span;

/// Default warm-up and measured time of systems, for experiments that state neither.
const USUAL: (Span, Span) = (Span::from_us(100), Span::from_us(150));

impl Ctx<'_> {
    /// Runs each of `all` on `profile`. The outcomes are in the order of `all`.
    ///
    /// # Errors
    /// If a result is not known yet, or a run fails.
    pub fn systems(&self, profile: &str, what: &str, all: &[SystemWorkload]) -> Result<Vec<Outcome>, NotYet> {
        self.systems_on(self.profile(profile), what, all)
    }

    /// Like [`Ctx::systems`], on a profile that may differ from the clusters.
    ///
    /// # Errors
    /// If a result is not known yet, or a run fails.
    pub fn systems_on(
        &self,
        profile: &Profile,
        what: &str,
        all: &[SystemWorkload],
    ) -> Result<Vec<Outcome>, NotYet> {
        self.outcomes_of_systems(what, all.iter().map(|w| self.run_of_system(profile, w)).collect())
    }

    /// Like [`Ctx::systems`], but each system runs for the times that it states, even if the context has a
    /// precision. Experiments use it for systems whose operations are whole jobs, if a job takes longer than
    /// a run that ends at a precision. They also use it for systems with a cycle that such a run is too short
    /// to see.
    ///
    /// # Errors
    /// If a result is not known yet, or a run fails.
    pub(crate) fn timed(
        &self,
        profile: &str,
        what: &str,
        all: &[SystemWorkload],
    ) -> Result<Vec<Outcome>, NotYet> {
        let profile = self.profile(profile);
        self.outcomes_of_systems(what, all.iter().map(|w| Run::system(profile, w.clone())).collect())
    }

    fn outcomes_of_systems(&self, what: &str, runs: Vec<Run>) -> Result<Vec<Outcome>, NotYet> {
        Ok(self.outcomes(what, runs)?.iter().map(|outcome| Outcome::clone(outcome)).collect())
    }

    /// Runs `w` on `profile` and observes its limit.
    ///
    /// # Errors
    /// If a result is not known yet, or a run fails.
    pub fn explain_system(&self, profile: &str, what: &str, w: &SystemWorkload) -> Result<Outcome, NotYet> {
        self.explained(&self.run_of_system(self.profile(profile), w), what)
    }

    /// Like [`Ctx::explain_system`], but the system runs for the times that it states, as in [`Ctx::timed`].
    ///
    /// # Errors
    /// If a result is not known yet, or a run fails.
    pub(crate) fn explain_job(
        &self,
        profile: &str,
        what: &str,
        w: &SystemWorkload,
    ) -> Result<Outcome, NotYet> {
        self.explained(&Run::system(self.profile(profile), w.clone()), what)
    }

    fn explained(&self, run: &Run, what: &str) -> Result<Outcome, NotYet> {
        Ok(Outcome::clone(&*self.limited(run, what)?))
    }

    fn run_of_system(&self, profile: &Profile, w: &SystemWorkload) -> Run {
        let w = w.timed(self.timing(w.timing().clone(), USUAL));
        Run::system(profile, w)
    }
}
