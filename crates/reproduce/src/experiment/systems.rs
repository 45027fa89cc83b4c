//! What experiments ask of a context: systems.

use super::context::Ctx;
use super::setting::something;
use doorbell_lab::{NotYet, Outcome, Run, SystemWorkload};
use doorbell_nic::Profile;
use doorbell_verbs::Span;

/// Warm-up and measured time of systems for which an experiment says none.
const USUAL: (Span, Span) = (Span::from_us(100), Span::from_us(150));

impl Ctx<'_> {
    /// Each of `all` on `profile`; the outcomes have their order.
    ///
    /// # Errors
    /// Where a run is not known yet, or fails.
    pub fn systems(&self, profile: &str, what: &str, all: &[SystemWorkload]) -> Result<Vec<Outcome>, NotYet> {
        self.systems_on(self.profile(profile), what, all)
    }

    /// The same on a profile that is none of the clusters.
    ///
    /// # Errors
    /// Where a run is not known yet, or fails.
    pub fn systems_on(
        &self,
        profile: &Profile,
        what: &str,
        all: &[SystemWorkload],
    ) -> Result<Vec<Outcome>, NotYet> {
        self.outcomes_of_systems(what, all.iter().map(|w| self.run_of_system(profile, w)).collect())
    }

    /// The same of systems that are measured for the times that they say, also where runs end when they know their answer: of those whose operations are whole
    /// jobs, each of them longer than such runs, and of those in which something comes round more slowly than such runs can tell.
    ///
    /// # Errors
    /// Where a run is not known yet, or fails.
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
        // All are asked for before the first that is not known ends this.
        let all: Vec<_> = runs.iter().map(|run| self.known.of(run, what)).collect();
        all.into_iter().map(|outcome| Ok(Outcome::clone(&*something(what, outcome?)?))).collect()
    }

    /// `w` on `profile`, with what limits it.
    ///
    /// # Errors
    /// Where a run is not known yet, or fails.
    pub fn explain_system(&self, profile: &str, what: &str, w: &SystemWorkload) -> Result<Outcome, NotYet> {
        self.explained(&self.run_of_system(self.profile(profile), w), what)
    }

    /// The same of one whose operations are whole jobs, as [`Ctx::jobs`] has them.
    ///
    /// # Errors
    /// Where a run is not known yet, or fails.
    pub(crate) fn explain_job(
        &self,
        profile: &str,
        what: &str,
        w: &SystemWorkload,
    ) -> Result<Outcome, NotYet> {
        self.explained(&Run::system(self.profile(profile), w.clone()), what)
    }

    fn explained(&self, run: &Run, what: &str) -> Result<Outcome, NotYet> {
        Ok(Outcome::clone(&*something(what, self.limited(run, what)?)?))
    }

    fn run_of_system(&self, profile: &Profile, w: &SystemWorkload) -> Run {
        let w = w.timed(self.timing(w.timing().clone(), USUAL));
        Run::system(profile, w)
    }
}
