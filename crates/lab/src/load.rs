//! Loads: rates of open loops, as shares of a capacity. The capacity is the rate of a closed loop with the
//! same options, which a run measures first.

use crate::asked::{Asked, option};
use crate::explain::results;
use crate::plan::{Control, Known, Run, Stored};
use crate::run_error::SimulateError;
use doorbell_schema::{Arrivals, Given, Share, Until, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Key of the option.
pub(crate) const LOAD: &str = "load";

/// Options of an open loop, and of the end of its run, that a closed loop does not have.
const OF_OPEN: [&str; 5] = [LOAD, "arrivals", "warmup", "duration", "until"];

/// Why a load has no rate.
#[derive(Clone, Debug, Error)]
pub enum LoadError {
    /// The request is invalid.
    #[error("{0}")]
    Refused(String),
    /// The capacity could not be measured.
    #[error("at {at}: the capacity: {cause}")]
    Run {
        /// Name of the request.
        at: String,
        /// Error of the run.
        cause: SimulateError,
    },
    /// The work was interrupted.
    #[error("at {0}: interrupted, so the capacity is not known")]
    Interrupted(String),
}

/// Rate of a closed loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Operations per second, in millions.
    pub mops: f64,
    /// Half-width of its 95% interval, if it is known.
    pub half: Option<f64>,
}

/// A load and its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loaded {
    /// The load, as a share of the capacity.
    pub load: Share,
    /// The measured capacity.
    pub capacity: Capacity,
}

impl Loaded {
    /// Operations that are due per second.
    pub fn rate(&self) -> u64 {
        ((self.capacity.mops * 1e6 * self.load.of_one()).round() as u64).max(1)
    }
}

/// Measured capacities, by the run that measured them.
#[derive(Clone, Debug, Default)]
pub struct Loads(BTreeMap<Vec<u8>, Capacity>);

impl Loads {
    /// Measures the capacities of all requests with a load. Each request has its name, for messages.
    ///
    /// # Errors
    /// If a load does not fit the other options of its request, or a capacity cannot be measured.
    pub fn measure(
        asked: &[(String, Given)],
        stored: Option<Arc<Stored>>,
        control: &Control<'_>,
    ) -> Result<Loads, LoadError> {
        let mut runs: Vec<(String, Run)> = Vec::new();
        for (name, given) in asked {
            let refused = |why: String| {
                LoadError::Refused(if name.is_empty() { why } else { format!("at {name}: {why}") })
            };
            let Some((_, run)) = closed(given).map_err(refused)? else { continue };
            if runs.iter().all(|(_, other)| other.key() != run.key()) {
                runs.push((name.clone(), run));
            }
        }
        let known = stored.map_or_else(Known::default, Known::stored_in);
        let failed = |(at, cause): (usize, SimulateError)| LoadError::Run { at: runs[at].0.clone(), cause };
        let found = if runs.is_empty() {
            Vec::new()
        } else {
            results(&runs, false, &known, control).map_err(failed)?
        };
        let mut loads = Loads::default();
        for ((name, run), outcome) in runs.iter().zip(found) {
            let outcome = outcome.ok_or_else(|| LoadError::Interrupted(name.clone()))?;
            if let Some(waits) = &outcome.waits {
                let why =
                    format!("the closed loop that measures the capacity completed no operation: {waits}");
                return Err(LoadError::Refused(why));
            }
            let capacity = Capacity { mops: outcome.mops, half: outcome.interval.mops };
            loads.0.insert(run.key().as_bytes().to_vec(), capacity);
        }
        Ok(loads)
    }

    /// The load of a request with its capacity; `None` if the request has no load.
    ///
    /// # Errors
    /// One sentence if the load does not fit the other options, or its capacity was not measured.
    pub fn of(&self, given: &Given) -> Result<Option<Loaded>, String> {
        let Some((load, run)) = closed(given)? else { return Ok(None) };
        let capacity = self.0.get(run.key().as_bytes()).copied();
        let unknown =
            || format!("load is {load}, but this command measures no capacity: give a rate instead");
        Ok(Some(Loaded { load, capacity: capacity.ok_or_else(unknown)? }))
    }

    /// The request with a rate in place of its load.
    ///
    /// # Errors
    /// As for [`Loads::of`].
    pub fn applied(&self, given: Given) -> Result<Given, String> {
        let Some(loaded) = self.of(&given)? else { return Ok(given) };
        let mut rated = given;
        rated.remove(LOAD);
        rated.set(option("rate")?, Value::Number(loaded.rate()))?;
        Ok(rated)
    }
}

/// The load of a request, and the run of a closed loop with the same options; `None` if the request has no
/// load.
fn closed(given: &Given) -> Result<Option<(Share, Run)>, String> {
    let Some(load) = given.read::<Share>(LOAD)? else { return Ok(None) };
    if !given.read::<Arrivals>("arrivals")?.is_some_and(Arrivals::is_open) {
        return Err(format!(
            "load is {load}, but arrivals are closed: a load applies to fixed and poisson only"
        ));
    }
    if let Some(rate) = given.get("rate") {
        return Err(format!("load is {load}, but rate is {rate}: give one of them"));
    }
    if given.get("class").is_some() {
        return Err(format!("load is {load}, but threads are in classes: give the rate of each class"));
    }
    let mut closed = given.clone();
    OF_OPEN.iter().for_each(|key| drop(closed.remove(key)));
    closed.set(option("until")?, Value::Text(Until::Mean.name().to_owned()))?;
    // An open loop signals each operation, unless the request differs.
    if given.get("system").is_none() && given.get("signal_every").is_none() {
        closed.set(option("signal_every")?, Value::Number(1))?;
    }
    let run = Asked::of(&closed).and_then(Run::asked).map_err(|error| error.to_string())?;
    Ok(Some((load, run)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields;

    fn given(toml: &str) -> Given {
        Given::from_toml("w.toml", toml, &fields()).unwrap()
    }

    fn measured(toml: &str) -> Loads {
        Loads::measure(&[("w".to_owned(), given(toml))], None, &Control::quiet()).unwrap()
    }

    #[test]
    fn a_load_is_a_share_of_the_closed_loop() {
        let few = "verb = \"read\"\nmachines = 3\nthreads = 2\n";
        let open = format!("{few}arrivals = \"poisson\"\nload = \"70%\"\nduration = \"100us\"");
        let loads = measured(&open);
        let loaded = loads.of(&given(&open)).unwrap().unwrap();
        assert!((20.0..23.0).contains(&loaded.capacity.mops), "{loaded:?}");
        let rate = loaded.capacity.mops * 0.7e6;
        let rated = loads.applied(given(&open)).unwrap();
        assert_eq!((rated.get("load"), rated.read::<u64>("rate")), (None, Ok(Some(rate.round() as u64))));
        let run = Run::asked(Asked::of(&rated).unwrap()).unwrap();
        let outcome = crate::simulate(&run, &Control::quiet()).unwrap();
        assert!(!outcome.interval.overload && outcome.latency_ns.mean.is_some(), "{outcome:?}");
        // Other loads of one workload have the same capacity.
        let other = given(&open.replace("70%", "120%"));
        assert_eq!(loads.of(&other).unwrap().unwrap().capacity, loaded.capacity);
        assert_eq!(loads.of(&given(few)).unwrap(), None);
    }

    #[test]
    fn a_load_that_does_not_fit_is_refused() {
        for (toml, said) in [
            (
                "load = \"70%\"",
                "load is 70%, but arrivals are closed: a load applies to fixed and poisson only",
            ),
            (
                "load = \"70%\"\narrivals = \"fixed\"\nrate = 5",
                "load is 70%, but rate is 5: give one of them",
            ),
            (
                "load = \"70%\"\narrivals = \"fixed\"",
                "load is 70%, but this command measures no capacity: give a rate instead",
            ),
        ] {
            assert_eq!(Loads::default().of(&given(toml)).unwrap_err(), said);
        }
    }
}
