//! Results by what was run, and what is asked for and not known.

use super::outcome::Ran;
use crate::explain;
use crate::plan::{Control, Key, NotYet, Run, execute};
use crate::simulate::SimulateError;
use doorbell_nic::Resource;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// What is known, and what is wanted.
#[derive(Clone, Default)]
pub(crate) struct Known(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    known: HashMap<Key, Result<Arc<Ran>, SimulateError>>,
    /// In the order in which they were asked for.
    wanted: Vec<(Run, String)>,
    keys: HashSet<Key>,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The result of a run; where it is not known, it is wanted from now on.
    pub(crate) fn of(&self, run: &Run, what: &str) -> Result<Arc<Ran>, NotYet> {
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

    /// The same with what limits it, for which it is run again with each resource relaxed of which more may
    /// change something.
    pub(crate) fn explained(&self, run: &Run, what: &str) -> Result<Ran, NotYet> {
        let base = self.of(run, what)?;
        let again = Resource::ALL.map(|resource| {
            if base.without_effect.contains(&resource) {
                return (resource, Ok(base.clone()));
            }
            let name = format!("{what}: {}", resource.name());
            (resource, self.of(&run.relaxed(resource), &name))
        });
        let mut lifts = Vec::new();
        for (resource, ran) in again {
            lifts.push((resource, explain::gain(base.rate(), ran?.rate())));
        }
        Ok(explain::explained(&base, lifts))
    }

    /// Whether something is wanted.
    pub(crate) fn wants(&self) -> bool {
        !self.lock().wanted.is_empty()
    }

    /// Makes the runs that are wanted.
    pub(crate) fn find_out(&self, control: &Control<'_>) {
        let wanted = {
            let mut state = self.lock();
            state.keys.clear();
            std::mem::take(&mut state.wanted)
        };
        let (runs, names): (Vec<Run>, Vec<String>) = wanted.into_iter().unzip();
        control.watch.planned(runs.len() as u64);
        execute(&runs, control, &|number, ended| {
            self.lock().known.insert(runs[number].key(), ended.map(Arc::new));
            control.watch.done(&names[number]);
        });
    }
}
