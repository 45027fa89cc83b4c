//! Results by what was run, and what is asked for and not known.

use super::execute::{Control, execute};
use super::not_yet::NotYet;
use super::run::{Key, Run};
use super::stored::{Stored, Taken};
use crate::results::Outcome;
use crate::run_error::SimulateError;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// What is known, and what is wanted.
#[derive(Clone, Default)]
pub struct Known {
    state: Arc<Mutex<State>>,
    /// Where results are kept from one process to the next, if they are.
    stored: Option<Arc<Stored>>,
}

#[derive(Default)]
struct State {
    known: HashMap<Key, Result<Arc<Outcome>, SimulateError>>,
    /// In the order in which they were asked for.
    wanted: Vec<(Run, String)>,
    keys: HashSet<Key>,
}

impl Known {
    /// What is stored is known.
    pub fn stored_in(stored: Arc<Stored>) -> Known {
        Known { stored: Some(stored), ..Known::default() }
    }

    /// The same, of which nothing is taken from a store or kept there from now on.
    pub fn unstored(&self) -> Known {
        Known { state: self.state.clone(), stored: None }
    }

    /// What was taken from the store, if there is one.
    pub fn taken(&self) -> Option<Taken> {
        self.stored.as_ref().map(|stored| stored.taken())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The result of a run; where it is not known, it is wanted from now on.
    ///
    /// # Errors
    /// That it is not known yet, or why it failed.
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

    /// Runs that have a result, and how many of them were to settle and did not.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        let ran = || state.known.values().flatten();
        (ran().count(), ran().filter(|ran| !ran.ended().is_as_wanted()).count())
    }

    /// Knows nothing any more: who has looked at all results needs them no longer.
    pub fn forget(&self) {
        self.lock().known.clear();
    }

    /// Whether something is wanted.
    pub fn wants(&self) -> bool {
        !self.lock().wanted.is_empty()
    }

    /// What is wanted.
    pub fn wanted(&self) -> Vec<Run> {
        self.lock().wanted.iter().map(|(run, _)| run.clone()).collect()
    }

    /// Makes the runs that are wanted and not stored.
    pub fn find_out(&self, control: &Control<'_>) {
        let wanted = {
            let mut state = self.lock();
            state.keys.clear();
            std::mem::take(&mut state.wanted)
        };
        let (runs, names): (Vec<Run>, Vec<String>) =
            wanted.into_iter().filter(|(run, _)| !self.take_stored(run)).unzip();
        control.watch.planned(runs.len() as u64);
        execute(&runs, control, &|number, ended| {
            let run = &runs[number];
            // What the clock on the wall has cut may be another result the next time.
            if let (Some(stored), Ok(ran)) = (&self.stored, &ended)
                && ran.ended().is_repeatable()
            {
                stored.put(run, ran);
            }
            self.lock().known.insert(run.key(), ended.map(Arc::new));
            control.watch.done(&names[number]);
        });
        if let Some(stored) = &self.stored {
            stored.tidy();
        }
    }

    /// Knows the result of a run if it is stored; whether it is.
    fn take_stored(&self, run: &Run) -> bool {
        let ran = self.stored.as_ref().and_then(|stored| stored.get(run));
        let found = ran.is_some();
        if let Some(ran) = ran {
            self.lock().known.insert(run.key(), Ok(Arc::new(ran)));
        }
        found
    }
}
