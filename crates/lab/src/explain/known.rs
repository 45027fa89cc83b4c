//! Finds bottlenecks of runs from known results.

use super::asker::Depth;
use super::observe::observed;
use crate::plan::{Control, Key, Known, Making, NotYet, Run};
use crate::results::Outcome;
use crate::run_error::SimulateError;
use std::sync::Mutex;

/// Returns the result of a run with its bottleneck. The bottleneck needs the results of reruns with more of
/// some resources.
///
/// # Errors
/// If a result is not known yet, or a run failed.
pub fn explained(known: &Known, run: &Run, what: &str, depth: Depth) -> Result<Outcome, NotYet> {
    let base = known.of(run, what)?;
    let explained = observed(&base, run, depth, &mut |runs| {
        // Requests all reruns before the first unknown result returns early.
        let all: Vec<_> = runs.iter().map(|(name, run)| known.of(run, &format!("{what}: {name}"))).collect();
        all.into_iter().map(|ran| Ok(Some(Outcome::clone(&*ran?)))).collect()
    });
    explained.map(|explained| explained.outcome)
}

/// Index of the run that failed, and its error.
pub(crate) type Failed = (usize, SimulateError);

/// Receives the index and the result of each run as soon as the result is final. May be called from several
/// threads, but never twice for an index.
pub(crate) type Each<'a> = dyn Fn(usize, &Outcome) + Sync + 'a;

/// Likely number of reruns that explain a run: one for each resource, and some for sets and large caches.
pub(super) const RERUNS: usize = 25;

/// Reruns of one run keep at least this many cores busy.
const CORES_PER_RUN: usize = 8;

/// Returns the results of runs in order, with their bottlenecks if `explain` is set. The runs are made in
/// order, and `each` receives each final result. A result is `None` if the work was cut short before it was
/// known. If it was cut short between a run and its reruns, or before the run settled, the bottleneck is not
/// confirmed.
///
/// # Errors
/// The first failure. No further runs start after it.
pub(crate) fn results(
    runs: &[(String, Run)],
    explain: bool,
    known: &Known,
    control: &Control<'_>,
    each: &Each<'_>,
) -> Result<Vec<Option<Outcome>>, Failed> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let results = Results { runs, known, control };
    let plain = results.plain(explain, each)?;
    match explain {
        true => results.explained(plain, each),
        false => Ok(plain),
    }
}

struct Results<'a> {
    runs: &'a [(String, Run)],
    known: &'a Known,
    control: &'a Control<'a>,
}

impl Results<'_> {
    /// Makes the runs themselves. With `explain`, the results are not final.
    fn plain(&self, explain: bool, each: &Each<'_>) -> Result<Vec<Option<Outcome>>, Failed> {
        let keys: Vec<Key> = self.runs.iter().map(|(_, run)| run.key()).collect();
        self.runs.iter().for_each(|(name, run)| drop(self.known.of(run, name)));
        let told = Mutex::new(vec![explain; keys.len()]);
        let tell = || {
            let mut told = told.lock().unwrap_or_else(|e| e.into_inner());
            for (at, key) in keys.iter().enumerate().filter(|_| !explain) {
                if let (false, Some(Ok(ran))) = (told[at], self.known.get(key)) {
                    told[at] = true;
                    each(at, &ran);
                }
            }
        };
        tell();
        let mut control = self.control.clone();
        if explain {
            control.watch.expected(RERUNS * self.runs.len());
            control = control.all_before_reruns(self.runs.len(), RERUNS);
        }
        self.known.find_out(&control, Making::Shared, &tell);
        let result = |(at, key): (usize, &Key)| match self.known.get(key) {
            Some(Err(error)) if !error.is_cut() => Err((at, error)),
            ran => Ok(ran.and_then(Result::ok).map(|ran| Outcome::clone(&ran))),
        };
        keys.iter().enumerate().map(result).collect()
    }

    /// Adds bottlenecks to the results, a few runs at a time.
    fn explained(
        &self,
        mut all: Vec<Option<Outcome>>,
        each: &Each<'_>,
    ) -> Result<Vec<Option<Outcome>>, Failed> {
        let made: Vec<usize> = (0..all.len()).filter(|at| all[*at].is_some()).collect();
        let mut rest = made.len();
        for some in made.chunks(self.control.jobs.div_ceil(CORES_PER_RUN)) {
            for (at, ran) in some.iter().zip(self.explain(some)?) {
                if let Some(ran) = ran {
                    each(*at, &ran);
                    all[*at] = Some(ran);
                }
            }
            rest -= some.len();
            self.control.watch.expected(RERUNS * rest);
        }
        Ok(all)
    }

    /// Makes the reruns of some runs. Returns `None` for a run whose reruns were cut short.
    fn explain(&self, some: &[usize]) -> Result<Vec<Option<Outcome>>, Failed> {
        loop {
            let ask = |at: &usize| {
                let (name, run) = &self.runs[*at];
                explained(self.known, run, name, Depth::Whole).map(Outcome::doubted)
            };
            let all: Vec<Result<Outcome, NotYet>> = some.iter().map(ask).collect();
            let failure = |(at, ran): (&usize, &Result<Outcome, NotYet>)| match ran {
                Err(NotYet::Failed(error)) if !error.is_cut() => Some((*at, error.clone())),
                _ => None,
            };
            if let Some(failed) = some.iter().zip(&all).find_map(failure) {
                return Err(failed);
            }
            if !self.known.wants() || self.control.is_over() {
                return Ok(all.into_iter().map(Result::ok).collect());
            }
            self.known.find_out(self.control, Making::LongestFirst, &|| ());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// A search without short points, or an empty shard.
    #[test]
    fn no_runs_have_no_results() {
        let deadline = Some(Instant::now() + Duration::from_secs(600));
        let control = Control { deadline, ..Control::quiet() };
        for explain in [false, true] {
            assert_eq!(results(&[], explain, &Known::default(), &control, &|_, _| ()), Ok(Vec::new()));
        }
    }
}
