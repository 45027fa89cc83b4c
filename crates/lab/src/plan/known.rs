//! Known results by run, and the runs that are still wanted.

use super::execute::{Control, Making, execute};
use super::not_yet::NotYet;
use super::run::{Key, Run};
use super::stored::{Stored, Taken};
use crate::results::Outcome;
use crate::run_error::SimulateError;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// Known results, and runs that are wanted. Clones share their state.
#[derive(Clone, Default)]
pub struct Known {
    state: Arc<Mutex<KnownState>>,
    /// Store that keeps results between processes, if there is one.
    stored: Option<Arc<Stored>>,
}

#[derive(Default)]
struct KnownState {
    known: HashMap<Key, Result<Arc<Outcome>, SimulateError>>,
    /// Wanted runs with their names, in the order of the requests.
    wanted: Vec<(Run, String)>,
    keys: HashSet<Key>,
}

impl Known {
    /// Knows the results in this store.
    pub fn stored_in(stored: Arc<Stored>) -> Known {
        Known { stored: Some(stored), ..Known::default() }
    }

    /// A view of the known results that neither reads nor writes the store.
    pub fn unstored(&self) -> Known {
        Known { state: self.state.clone(), stored: None }
    }

    /// Statistics of the store, if there is one.
    pub fn taken(&self) -> Option<Taken> {
        self.stored.as_ref().map(|stored| stored.taken())
    }

    fn lock(&self) -> MutexGuard<'_, KnownState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the result of a run. If the result is not known, the run is wanted from now on. `what` names
    /// the run.
    ///
    /// # Errors
    /// If the result is not known yet, or the run failed.
    pub fn of(&self, run: &Run, what: &str) -> Result<Arc<Outcome>, NotYet> {
        let key = run.key();
        let mut state = self.lock();
        if let Some(known) = state.known.get(&key) {
            return known.clone().map_err(NotYet::Failed);
        }
        if state.keys.insert(key) {
            state.wanted.push((run.clone(), what.to_owned()));
        }
        Err(NotYet::Wanted)
    }

    /// Number of runs with a result, and how many of these runs did not end as intended.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        let ran = || state.known.values().flatten();
        (ran().count(), ran().filter(|ran| !ran.ended().is_as_wanted()).count())
    }

    /// Forgets all results, for a caller that has used them all.
    pub fn forget(&self) {
        self.lock().known.clear();
    }

    /// Whether any run is wanted.
    pub fn wants(&self) -> bool {
        !self.lock().wanted.is_empty()
    }

    /// The wanted runs.
    pub fn wanted(&self) -> Vec<Run> {
        self.lock().wanted.iter().map(|(run, _)| run.clone()).collect()
    }

    /// The result of the run with this key; `None` if it is not known.
    pub(crate) fn get(&self, key: &Key) -> Option<Result<Arc<Outcome>, SimulateError>> {
        self.lock().known.get(key).cloned()
    }

    /// Makes the runs that are wanted and not stored. Calls `done` once all stored results are known, and
    /// from several threads after each run.
    pub fn find_out(&self, control: &Control<'_>, making: Making, done: &(dyn Fn() + Sync)) {
        let wanted = {
            let mut state = self.lock();
            state.keys.clear();
            std::mem::take(&mut state.wanted)
        };
        let (runs, names): (Vec<Run>, Vec<String>) =
            wanted.into_iter().filter(|(run, _)| !self.knows(run) && !self.take_stored(run)).unzip();
        control.watch.planned(&runs.iter().map(Run::cost).collect::<Vec<_>>());
        done();
        execute(&runs, control, making, &|number, ended| {
            let run = &runs[number];
            // Results that another run may not repeat are not stored, such as those of runs cut short by
            // wall-clock time.
            if let (Some(stored), Ok(ran)) = (&self.stored, &ended)
                && ran.ended().is_repeatable()
            {
                stored.put(run, ran);
            }
            self.lock().known.insert(run.key(), ended.map(Arc::new));
            control.watch.done(&names[number]);
            done();
        });
        if let Some(stored) = &self.stored {
            stored.tidy();
        }
    }

    /// Whether the result of a run is known. While runs are made, a caller may want one that is in progress.
    fn knows(&self, run: &Run) -> bool {
        self.lock().known.contains_key(&run.key())
    }

    /// Takes the result of a run from the store. Returns whether it was stored.
    fn take_stored(&self, run: &Run) -> bool {
        let ran = self.stored.as_ref().and_then(|stored| stored.get(run));
        let found = ran.is_some();
        if let Some(ran) = ran {
            self.lock().known.insert(run.key(), Ok(Arc::new(ran)));
        }
        found
    }
}
