//! An experiment, and what it is run on.

use super::findings::Findings;
use doorbell_lab::{Control, Known, NotYet, Share, SimulateError, Stored};
use doorbell_nic::Profile;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A table or figure of a paper that Doorbell reproduces.
pub struct Experiment {
    /// Its name as a selector, after the paper's: `fig2`, `tab4`, `appA`.
    pub name: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Claims that it checks.
    pub claims: &'static [&'static str],
    /// What its runs are of.
    pub runs: Runs,
    /// What it finds, from runs that it asks for.
    pub run: fn(&Ctx<'_>) -> Result<Findings, NotYet>,
}

/// What an experiment's runs are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// There are none: all its claims follow from formulas.
    None,
    /// Verbs.
    Verbs,
    /// Systems, as sequencers and stores.
    Systems,
    /// The system of which the host's caches matter, not the NIC: a server that touches what it sends.
    Touch,
}

impl Experiment {
    /// Whether it checks no claim: it sets measurements that no paper prints beside the model.
    pub fn is_of_measurements(&self) -> bool {
        self.claims.is_empty()
    }
}

/// What an experiment runs on.
pub struct Ctx<'a> {
    /// The clusters.
    pub profiles: Vec<Profile>,
    /// Whether curves are to be dense.
    pub full: bool,
    /// Progress and interruption.
    pub control: Control<'a>,
    /// Whether bottlenecks are observed by reruns; else they stay empty.
    pub(crate) explains: bool,
    /// Rates are measured for so much less time than usual.
    pub(crate) hurry: u64,
    /// Runs end when they know their answer to this precision, in place of times that experiments say.
    pub(crate) precision: Option<Share>,
    /// What is known of runs.
    pub(crate) known: Known,
}

impl<'a> Ctx<'a> {
    /// On the built-in profiles.
    ///
    /// # Errors
    /// If one of them is malformed; a test sees to it that none is.
    pub fn new(full: bool, control: Control<'a>) -> Result<Ctx<'a>, doorbell_nic::ProfileError> {
        let profiles = Profile::names().map(Profile::named).collect::<Result<_, _>>()?;
        Ok(Ctx {
            profiles,
            full,
            control,
            explains: true,
            hurry: 1,
            precision: None,
            known: Known::default(),
        })
    }

    /// The same, with results of the papers' experiments taken from a store, and kept there.
    #[must_use]
    pub fn stored_in(self, stored: Arc<Stored>) -> Ctx<'a> {
        Ctx { known: Known::stored_in(stored), ..self }
    }

    /// The same, where runs end when they know their answer, rather than after the times that experiments say.
    #[must_use]
    pub fn with_precision(self, precision: Share) -> Ctx<'a> {
        Ctx { precision: Some(precision), ..self }
    }

    /// The same, whatever store there is.
    pub(crate) fn unstored(&self) -> Ctx<'a> {
        let Ctx { full, explains, hurry, precision, .. } = *self;
        let (profiles, control) = (self.profiles.clone(), self.control.clone());
        Ctx { profiles, full, control, explains, hurry, precision, known: self.known.unstored() }
    }

    /// The same on other profiles, for rates alone: not dense, without bottlenecks. What was run on
    /// unchanged profiles is not run again.
    pub(crate) fn of_rates(&self, profiles: Vec<Profile>) -> Ctx<'a> {
        let control = Control { watch: &(), ..self.control.clone() };
        let (hurry, precision, known) = (self.hurry, self.precision, self.known.clone());
        Ctx { profiles, full: false, control, explains: false, hurry, precision, known }
    }

    /// What experiments find: each is asked until it has all the runs that it needs. Nothing of one that had
    /// not when somebody stopped it.
    ///
    /// # Errors
    /// If a run fails.
    pub(crate) fn find(&self, experiments: &[&Experiment]) -> Result<Vec<Option<Findings>>, SimulateError> {
        self.find_all(experiments.len(), |i| (experiments[i].run)(self))
    }

    /// The same of whatever is found by asking for a number below `n`, of this or of others that know what this one does.
    pub(crate) fn find_all<T>(
        &self,
        n: usize,
        ask: impl Fn(usize) -> Result<T, NotYet>,
    ) -> Result<Vec<Option<T>>, SimulateError> {
        let mut found: Vec<Option<T>> = (0..n).map(|_| None).collect();
        loop {
            for (i, found) in found.iter_mut().enumerate().filter(|(_, found)| found.is_none()) {
                match ask(i) {
                    Ok(findings) => *found = Some(findings),
                    Err(NotYet::Wanted | NotYet::Nothing(_)) => {}
                    Err(NotYet::Failed(error)) if error.is_interrupt() => {}
                    Err(NotYet::Failed(error)) => return Err(error),
                }
            }
            if !self.known.wants() || self.control.interrupt.load(Ordering::Relaxed) {
                return Ok(found);
            }
            self.known.find_out(&self.control);
        }
    }

    /// For tests: what `asked` finds, once it has all the runs that it needs.
    #[cfg(test)]
    pub(crate) fn until_known<T>(&self, asked: impl Fn(&Ctx<'_>) -> Result<T, NotYet>) -> T {
        loop {
            match asked(self) {
                Ok(found) => return found,
                Err(NotYet::Wanted) => self.known.find_out(&self.control),
                Err(NotYet::Failed(error)) => panic!("{error}"),
                Err(NotYet::Nothing(why)) => panic!("{why}"),
            }
        }
    }

    /// One of the clusters.
    ///
    /// # Panics
    /// If none of them has this name.
    pub fn profile(&self, name: &str) -> &Profile {
        let found = self.profiles.iter().find(|p| p.name == name);
        found.unwrap_or_else(|| panic!("experiments name built-in profiles only, not {name}"))
    }
}
