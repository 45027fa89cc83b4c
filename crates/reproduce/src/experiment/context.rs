//! An experiment and the context that it runs in.

use super::findings::Findings;
use doorbell_lab::{Control, Known, Making, NotYet, Share, SimulateError, Stored};
use doorbell_nic::Profile;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Receives the index of an experiment, and its findings.
type EachFinding<'a> = dyn Fn(usize, &Findings) + Sync + 'a;

/// Time after which an experiment that lacked runs is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// A table or figure of a paper that Doorbell reproduces.
pub struct Experiment {
    /// Name in selectors, after the paper's name for it: `fig2`, `tab4`, `appA`.
    pub name: &'static str,
    /// Paper with the table or figure: `atc16`, `cluster21` or `conext13`. Otherwise, the name of a set of
    /// measurements.
    pub paper: &'static str,
    /// Title in reports.
    pub title: &'static str,
    /// Ids of the claims that the experiment checks.
    pub claims: &'static [&'static str],
    /// Kind of runs that the experiment asks for.
    pub runs: Runs,
    /// Computes the findings from the results of runs. Returns [`NotYet`] until the context has all results.
    pub run: fn(&Ctx<'_>) -> Result<Findings, NotYet>,
}

/// Kind of runs that an experiment asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// No runs: all claims follow from formulas.
    None,
    /// Workloads of verbs.
    Verbs,
    /// Systems, such as sequencers and stores.
    Systems,
    /// The system `touch`: a server that loads or stores the data it sends. Its rate depends on the host's
    /// caches rather than on the NIC.
    Touch,
}

impl Experiment {
    /// Whether the experiment checks no claim, but compares the model with measurements that no paper prints.
    pub fn is_of_measurements(&self) -> bool {
        self.claims.is_empty()
    }
}

/// Context that experiments run in: profiles, known results and options.
pub struct Ctx<'a> {
    /// Profiles of the clusters.
    pub profiles: Vec<Profile>,
    /// Whether curves are dense, as with `--full`.
    pub full: bool,
    /// Reports progress and allows the user to interrupt.
    pub control: Control<'a>,
    /// Whether reruns observe bottlenecks. If false, bottlenecks stay empty.
    pub(crate) explains: bool,
    /// Divisor of the measured time of runs. Tests shorten runs with it.
    pub(crate) hurry: u64,
    /// If set, each run ends when its result is known to this precision. Otherwise, runs take the times that
    /// experiments state.
    pub(crate) precision: Option<Share>,
    /// Results of runs that are known so far.
    pub(crate) known: Known,
}

impl<'a> Ctx<'a> {
    /// A context on the built-in profiles.
    ///
    /// # Errors
    /// If a built-in profile is malformed. A test checks that none is.
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

    /// Makes the context read results of the papers' experiments from a store, and write new results to it.
    #[must_use]
    pub fn stored_in(self, stored: Arc<Stored>) -> Ctx<'a> {
        Ctx { known: Known::stored_in(stored), ..self }
    }

    /// Ends each run when its result is known to this precision, instead of after the times that experiments
    /// state.
    #[must_use]
    pub fn with_precision(self, precision: Share) -> Ctx<'a> {
        Ctx { precision: Some(precision), ..self }
    }

    /// A copy of the context that uses no store.
    pub(crate) fn unstored(&self) -> Ctx<'a> {
        let Ctx { full, explains, hurry, precision, .. } = *self;
        let (profiles, control) = (self.profiles.clone(), self.control.clone());
        Ctx { profiles, full, control, explains, hurry, precision, known: self.known.unstored() }
    }

    /// A copy of the context with other profiles, for rates alone: curves are not dense, and bottlenecks are
    /// not observed. Known results on unchanged profiles are used again.
    pub(crate) fn of_rates(&self, profiles: Vec<Profile>) -> Ctx<'a> {
        let control = Control { watch: &(), ..self.control.clone() };
        let (hurry, precision, known) = (self.hurry, self.precision, self.known.clone());
        Ctx { profiles, full: false, control, explains: false, hurry, precision, known }
    }

    /// Asks each experiment until all runs that it needs are known, and returns the findings. An experiment
    /// without result gives `None`: the user stopped it, or no operation completed in one of its runs.
    ///
    /// # Errors
    /// If a run fails.
    pub(crate) fn find(&self, experiments: &[&Experiment]) -> Result<Vec<Option<Findings>>, SimulateError> {
        self.find_each(experiments, &|_, _| ())
    }

    /// Finds as [`Ctx::find`] does. `each` receives the findings of experiments in order, with the index of
    /// the experiment, while other experiments still run. It may be called from several threads, but never
    /// twice for an index, and not for the experiments after one without findings.
    pub(crate) fn find_each(
        &self,
        experiments: &[&Experiment],
        each: &EachFinding<'_>,
    ) -> Result<Vec<Option<Findings>>, SimulateError> {
        let ask = |i: usize| (experiments[i].run)(self);
        let next = Mutex::new((0, Instant::now()));
        let done = || {
            // A thread that finds the lock taken need not ask, because another thread asks.
            let Ok(mut next) = next.try_lock() else { return };
            if next.1 > Instant::now() {
                return;
            }
            while next.0 < experiments.len() {
                let Ok(findings) = ask(next.0) else { break };
                each(next.0, &findings);
                next.0 += 1;
            }
            next.1 = Instant::now() + ASK_AGAIN;
        };
        self.find_all_by(experiments.len(), ask, &done)
    }

    /// Calls `ask` with each number below `n` until it returns a result, as [`Ctx::find`] does for
    /// experiments. `ask` may use this context, or a context that shares its known results.
    pub(crate) fn find_all<T>(
        &self,
        n: usize,
        ask: impl Fn(usize) -> Result<T, NotYet>,
    ) -> Result<Vec<Option<T>>, SimulateError> {
        self.find_all_by(n, ask, &|| ())
    }

    /// Finds as [`Ctx::find_all`] does, and calls `done` after each run, from several threads.
    fn find_all_by<T>(
        &self,
        n: usize,
        ask: impl Fn(usize) -> Result<T, NotYet>,
        done: &(dyn Fn() + Sync),
    ) -> Result<Vec<Option<T>>, SimulateError> {
        let mut found: Vec<Option<T>> = (0..n).map(|_| None).collect();
        loop {
            for (i, found) in found.iter_mut().enumerate().filter(|(_, found)| found.is_none()) {
                match ask(i) {
                    Ok(findings) => *found = Some(findings),
                    Err(NotYet::Wanted | NotYet::Nothing(_)) => {}
                    Err(NotYet::Failed(error)) if error.is_cut() => {}
                    Err(NotYet::Failed(error)) => return Err(error),
                }
            }
            if !self.known.wants() || self.control.is_over() {
                return Ok(found);
            }
            // Nearly in the order of the experiments, so that the first experiments have findings early.
            self.known.find_out(&self.control, Making::InGroups, done);
        }
    }

    /// For tests: calls `asked` until all runs that it needs are known, and returns its result.
    #[cfg(test)]
    pub(crate) fn until_known<T>(&self, asked: impl Fn(&Ctx<'_>) -> Result<T, NotYet>) -> T {
        loop {
            match asked(self) {
                Ok(found) => return found,
                Err(NotYet::Wanted) => self.known.find_out(&self.control, Making::LongestFirst, &|| ()),
                Err(NotYet::Failed(error)) => panic!("{error}"),
                Err(NotYet::Nothing(why)) => panic!("{why}"),
            }
        }
    }

    /// The profile of this name.
    ///
    /// # Panics
    /// If no profile has this name.
    pub fn profile(&self, name: &str) -> &Profile {
        let found = self.profiles.iter().find(|p| p.name == name);
        found.unwrap_or_else(|| panic!("experiments name built-in profiles only, not {name}"))
    }
}
