//! Experiments: a folder for each paper, in it a file for each table or figure.

pub(crate) mod atc16;
mod cluster21;
mod conext13;
pub(crate) mod measured;
mod rc_swarm;

use crate::judge::measurements::MeasurementReport;
use crate::plan::{Control, NotYet};
use crate::results::{Bottleneck, Known, Outcome, Stored};
use crate::simulate::SimulateError;
use doorbell_nic::Profile;
use doorbell_schema::Share;
use schemars::JsonSchema;
use serde::Serialize;
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

/// All experiments, in the order of the papers; those beyond them, and on measurements that no paper prints, last.
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    let papers = atc16::ALL.iter().chain(cluster21::ALL).chain(conext13::ALL).chain(conext13::BEYOND);
    papers.copied().chain([&rc_swarm::EXPERIMENT, &cluster21::reads::EXPERIMENT])
}

/// The experiment that checks a claim.
pub(crate) fn checking(claim: &str) -> Option<&'static Experiment> {
    all().find(|experiment| experiment.claims.contains(&claim))
}

impl Experiment {
    /// Whether it checks no claim: it sets measurements that no paper prints beside the model.
    pub fn is_of_measurements(&self) -> bool {
        self.claims.is_empty()
    }
}

/// Whether an experiment asks what no paper has measured, of machines that no paper had.
pub fn is_beyond(experiment: &Experiment) -> bool {
    conext13::BEYOND.iter().any(|beyond| (beyond.paper, beyond.name) == (experiment.paper, experiment.name))
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

/// What an experiment found.
#[derive(Default)]
pub struct Findings {
    /// What was found for its claims.
    pub checks: Vec<Check>,
    /// The curves behind that.
    pub curves: Vec<Curve>,
    /// What was found for measurements that are no claims.
    pub measured: Vec<MeasurementReport>,
}

/// What was found for one claim.
pub struct Check {
    pub(crate) claim: &'static str,
    /// The profile it was found on.
    pub(crate) profile: &'static str,
    pub(crate) found: Found,
    pub(crate) bottleneck: Option<Bottleneck>,
    /// It follows from formulas; nothing was simulated for it.
    pub(crate) formula: bool,
    pub(crate) note: String,
    /// The numbers found on the clusters that the claim is about, where it is about several.
    pub(crate) of_each: Vec<(&'static str, f64)>,
}

/// What can be found.
pub enum Found {
    /// A number in the claim's unit.
    Number(f64),
    /// The least and the most of several numbers, of a claim that states both ends; `None` is an end that is exempt.
    Range {
        /// The least.
        low: Option<f64>,
        /// The most.
        high: Option<f64>,
    },
    /// Yes or no.
    Flag(bool),
    /// Whether a statement in words holds, and what was seen.
    Statement {
        /// Whether it holds.
        holds: bool,
        /// What was seen.
        seen: String,
    },
}

impl Found {
    /// Whether all its numbers are numbers.
    pub(crate) fn is_finite(&self) -> bool {
        match self {
            Found::Number(number) => number.is_finite(),
            Found::Range { low, high } => low.iter().chain(high).all(|end| end.is_finite()),
            Found::Flag(_) | Found::Statement { .. } => true,
        }
    }
}

impl Check {
    /// What was found on a profile.
    pub fn new(claim: &'static str, profile: &'static str, found: Found) -> Check {
        Check {
            claim,
            profile,
            found,
            bottleneck: None,
            formula: false,
            note: String::new(),
            of_each: Vec::new(),
        }
    }

    /// A number in the claim's unit.
    pub fn number(claim: &'static str, profile: &'static str, number: impl Into<f64>) -> Check {
        Check::new(claim, profile, Found::Number(number.into()))
    }

    /// Whether a statement in words holds, and what was seen.
    pub fn statement(claim: &'static str, profile: &'static str, holds: bool, seen: String) -> Check {
        Check::new(claim, profile, Found::Statement { holds, seen })
    }

    /// The rate of a run whose bottleneck was observed.
    pub fn rate(claim: &'static str, profile: &'static str, outcome: &Outcome) -> Check {
        Check::number(claim, profile, outcome.mops)
            .limited_by(outcome)
            .note(crate::plan::runs::setting(outcome))
    }

    /// Says what limited `outcome`, which was observed by reruns.
    pub fn limited_by(mut self, outcome: &Outcome) -> Check {
        if !outcome.lift.is_empty() {
            self.bottleneck = Some(outcome.bottleneck.clone());
        }
        self
    }

    /// Says that it follows from formulas.
    pub fn formula(mut self) -> Check {
        self.formula = true;
        self
    }

    /// Says what else is to be known.
    pub fn note(mut self, note: impl Into<String>) -> Check {
        self.note = note.into();
        self
    }
}

/// A curve that can be plotted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Curve {
    /// Paper and table or figure, as `atc16/fig2`.
    pub experiment: String,
    /// Which curve of it.
    pub name: String,
    /// The profile it was found on.
    pub profile: String,
    /// What x is, with its unit.
    pub x: String,
    /// What y is, with its unit.
    pub y: String,
    /// Points, x ascending.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// The same without points that are no numbers.
    pub(crate) fn of_numbers(mut self) -> Curve {
        self.points.retain(|(x, y)| x.is_finite() && y.is_finite());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Run, Work};

    /// As far as they ask before they know any result.
    #[test]
    fn experiments_run_what_they_say() {
        for experiment in all().filter(|experiment| !experiment.is_of_measurements()) {
            let ctx = Ctx::new(false, Control::quiet()).unwrap();
            let found = (experiment.run)(&ctx);
            let of = |run: &Run| match &run.work {
                Work::Verbs(_) => Runs::Verbs,
                Work::System(w) if w.name() == "touch" => Runs::Touch,
                Work::System(_) => Runs::Systems,
            };
            let (paper, name) = (experiment.paper, experiment.name);
            assert_eq!(found.is_ok(), experiment.runs == Runs::None, "{paper}/{name}");
            for run in ctx.known.wanted() {
                assert_eq!(of(&run), experiment.runs, "{paper}/{name}");
            }
        }
    }
}
