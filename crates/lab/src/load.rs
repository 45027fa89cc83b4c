//! Loads: rates of open loops, as shares of a capacity. The capacity is the rate of a closed loop with the
//! same options, which a run measures first.

use crate::asked::{Asked, no_capacity, option};
use crate::explain::results;
use crate::plan::{Control, Known, Run};
use crate::results::{Bottleneck, Certainty};
use crate::run_error::SimulateError;
use doorbell_programs::steady::Ended;
use doorbell_schema::{Arrivals, Given, Share, Until, Value};
use doorbell_workload::{Workload, keys};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use thiserror::Error;

/// Options of an open loop, and of the end of its run, that a closed loop does not have.
const OF_OPEN: [&str; 5] =
    [keys::LOAD, Workload::arrivals.key, Workload::warmup.key, Workload::duration.key, Workload::until.key];

/// Why a load has no rate.
#[derive(Clone, Debug, Error)]
pub enum LoadError {
    /// The request is invalid.
    #[error("{0}")]
    Refused(String),
    /// The capacity could not be measured.
    #[error("{}the capacity: {cause}", at(name))]
    Run {
        /// Name of the request; empty for the only request of a command.
        name: String,
        /// Error of the run.
        cause: SimulateError,
    },
    /// The work was interrupted before the capacity of the named request was known.
    #[error("{}interrupted, so the capacity is not known", at(.0))]
    Interrupted(String),
    /// The share of the wall-clock time was over before the capacity of the named request was known.
    #[error(
        "{}the capacity is not known, because the closed loop did not settle within its share of the \
         wall-clock time (--max-wall): use a longer --max-wall, or give a rate instead of a load",
        at(.0)
    )]
    Cut(String),
}

/// The beginning of a message about the request of this name.
fn at(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("at {name}: ") }
}

impl LoadError {
    /// Whether the request itself causes the error.
    pub fn is_bad_input(&self) -> bool {
        match self {
            LoadError::Refused(_) => true,
            LoadError::Run { cause, .. } => cause.is_bad_input(),
            LoadError::Interrupted(_) | LoadError::Cut(_) => false,
        }
    }
}

/// Rate of a closed loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// Operations per second, in millions.
    pub mops: f64,
    /// Half-width of its 95% interval, in millions; null if not known.
    pub half: Option<f64>,
    /// In words, the window of the closed loop, or its number of outstanding operations.
    pub with: String,
    /// Bottleneck of the closed loop, from its run alone.
    pub bottleneck: Bottleneck,
    /// Why the measured rate may differ from the long-run rate, in words; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<String>,
}

/// A load and its rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loaded {
    /// The load, as a share of the capacity.
    #[schemars(with = "String")]
    pub share: Share,
    /// Operations that are due per second.
    pub rate: u64,
    /// The measured capacity: the rate of a closed loop with the same options.
    pub capacity: Capacity,
}

impl Loaded {
    fn of(share: Share, capacity: Capacity) -> Loaded {
        let rate = ((capacity.mops * 1e6 * share.of_one()).round() as u64).max(1);
        Loaded { share, rate, capacity }
    }
}

/// Measured capacities, by the run that measured them.
#[derive(Clone, Debug, Default)]
pub struct Loads(BTreeMap<Vec<u8>, Capacity>);

impl Loads {
    /// Measures the capacities of all requests with a load. Each request has its name, for messages. This
    /// takes at most half of the time to the deadline, because the runs of the requests follow.
    ///
    /// # Errors
    /// If a load does not fit the other options of its request, or a capacity cannot be measured.
    pub fn measure(
        asked: &[(String, Given)],
        known: &Known,
        control: &Control<'_>,
    ) -> Result<Loads, LoadError> {
        let mut runs: Vec<(String, Run)> = Vec::new();
        for (name, given) in asked {
            let refused = |why: String| LoadError::Refused(at(name) + &why);
            let Some((_, run)) = closed(given).map_err(refused)? else { continue };
            if runs.iter().all(|(_, other)| other.key() != run.key()) {
                runs.push((name.clone(), run));
            }
        }
        if runs.is_empty() {
            return Ok(Loads::default());
        }
        let failed = |(number, cause): (usize, SimulateError)| {
            let name = runs[number].0.clone();
            LoadError::Run { name, cause }
        };
        control.watch.expected(runs.len() + asked.len());
        let found = results(&runs, false, known, &control.before_others(), &|_, _| ()).map_err(failed)?;
        control.watch.expected(0);
        let unknown = |name: &String| match control.interrupt.load(Ordering::Relaxed) {
            true => LoadError::Interrupted(name.clone()),
            false => LoadError::Cut(name.clone()),
        };
        let mut loads = Loads::default();
        for ((name, run), outcome) in runs.iter().zip(found) {
            let outcome = outcome.ok_or_else(|| unknown(name))?;
            // Another run would end at another virtual time, and so have another rate.
            if outcome.measured.ended == Ended::MaxWall {
                return Err(LoadError::Cut(name.clone()));
            }
            if let Some(waits) = &outcome.waits {
                let why = "the closed loop that measures the capacity completed no operation";
                return Err(LoadError::Refused(format!("{}{why}: {waits}", at(name))));
            }
            let with = outcome.latency_with();
            let Certainty { mops: half, unsettled, .. } = outcome.interval;
            let (mops, bottleneck) = (outcome.mops, outcome.bottleneck);
            let capacity = Capacity { mops, half, with, bottleneck, unsettled };
            loads.0.insert(run.key().as_bytes().to_vec(), capacity);
        }
        Ok(loads)
    }

    /// Whether no request had a load.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The load of a request with its capacity; `None` if the request has no load.
    ///
    /// # Errors
    /// One sentence if the load does not fit the other options, or its capacity was not measured.
    pub fn of(&self, given: &Given) -> Result<Option<Loaded>, String> {
        let Some((load, run)) = closed(given)? else { return Ok(None) };
        let capacity = self.0.get(run.key().as_bytes()).cloned();
        Ok(Some(Loaded::of(load, capacity.ok_or_else(|| no_capacity(load))?)))
    }

    /// The request with a rate in place of its load.
    ///
    /// # Errors
    /// As for [`Loads::of`].
    pub fn applied(&self, given: Given) -> Result<Given, String> {
        match self.of(&given)? {
            Some(loaded) => at_rate(given, loaded.rate),
            None => Ok(given),
        }
    }
}

/// The request with some rate in place of its load. It shows whether the other options are valid, before the
/// capacity is measured.
///
/// # Errors
/// One sentence if the load does not fit the other options.
pub fn at_some_rate(given: Given) -> Result<Given, String> {
    if closed(&given)?.is_some() { at_rate(given, 1) } else { Ok(given) }
}

fn at_rate(given: Given, rate: u64) -> Result<Given, String> {
    let mut rated = given;
    rated.remove(keys::LOAD);
    rated.set(option(Workload::rate.key)?, Value::Number(rate))?;
    Ok(rated)
}

/// The load of a request, and the run of a closed loop with the same options; `None` if the request has no
/// load.
fn closed(given: &Given) -> Result<Option<(Share, Run)>, String> {
    let Some(load) = given.read::<Share>(keys::LOAD)? else { return Ok(None) };
    if !given.read::<Arrivals>(Workload::arrivals.key)?.is_some_and(Arrivals::is_open) {
        return Err(format!(
            "load is {load}, but arrivals are closed: a load applies to fixed and poisson only"
        ));
    }
    if let Some(rate) = given.get(Workload::rate.key) {
        return Err(format!("load is {load}, but rate is {rate}: give one of them"));
    }
    if given.get(Workload::class.key).is_some() {
        return Err(format!("load is {load}, but threads are in classes: give the rate of each class"));
    }
    let mut closed = given.clone();
    OF_OPEN.iter().for_each(|key| drop(closed.remove(key)));
    closed.set(option(Workload::until.key)?, Value::Text(Until::Mean.name().to_owned()))?;
    // An open loop signals each operation, unless the request differs.
    if given.get(keys::SYSTEM).is_none() && given.get(Workload::signal_every.key).is_none() {
        closed.set(option(Workload::signal_every.key)?, Value::Number(1))?;
    }
    let run = Asked::of(&closed).and_then(Run::asked).map_err(|error| error.to_string())?;
    Ok(Some((load, run)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields;
    use std::sync::Arc;

    fn given(toml: &str) -> Given {
        Given::from_toml("w.toml", toml, &fields()).unwrap()
    }

    fn measured(toml: &str) -> Loads {
        Loads::measure(&[("w".to_owned(), given(toml))], &Known::default(), &Control::quiet()).unwrap()
    }

    #[test]
    fn a_load_is_a_share_of_the_closed_loop() {
        let few = "verb = \"read\"\nmachines = 3\nthreads = 2\n";
        let open = format!("{few}arrivals = \"poisson\"\nload = \"70%\"\nduration = \"100us\"");
        let loads = measured(&open);
        let loaded = loads.of(&given(&open)).unwrap().unwrap();
        assert!((20.0..23.0).contains(&loaded.capacity.mops), "{loaded:?}");
        // With few threads, the windows limit the closed loop.
        assert_eq!(loaded.capacity.with, "a full window: 16 outstanding per thread");
        assert!(loaded.capacity.bottleneck.class.is_some(), "{loaded:?}");
        let rate = loaded.capacity.mops * 0.7e6;
        let rated = loads.applied(given(&open)).unwrap();
        assert_eq!((rated.get("load"), rated.read::<u64>("rate")), (None, Ok(Some(rate.round() as u64))));
        let run = Run::asked(Asked::of(&rated).unwrap()).unwrap();
        let outcome = crate::simulate(&run, &Control::quiet()).unwrap();
        assert!(!outcome.interval.overload && outcome.latency_ns.mean.is_some(), "{outcome:?}");
        assert_eq!((loaded.rate, &loaded.capacity.unsettled), (rate.round() as u64, &None));
        // Other loads of one workload have the same capacity.
        let other = given(&open.replace("70%", "120%"));
        assert_eq!(loads.of(&other).unwrap().unwrap().capacity, loaded.capacity);
        assert_eq!(loads.of(&given(few)).unwrap(), None);
    }

    #[test]
    fn a_capacity_that_did_not_settle_says_so_or_is_refused() {
        let long = "verb = \"write\"\ntransport = \"rc\"\nsize = 65536\nmachines = 2\nthreads = 1\n";
        let open = format!("{long}arrivals = \"poisson\"\nload = \"70%\"");
        let early = given(&format!("{open}\nmax_time = \"1ms\""));
        let asked = [(String::new(), early.clone())];
        let loads = Loads::measure(&asked, &Known::default(), &Control::quiet()).unwrap();
        let capacity = loads.of(&early).unwrap().unwrap().capacity;
        assert!(capacity.unsettled.as_ref().is_some_and(|why| why.contains("--max-time")), "{capacity:?}");
        assert!(capacity.bottleneck.not_confirmed, "{capacity:?}");
        let asked = [("size=65536".to_owned(), given(&open))];
        let cut = Control { max_wall: Some(std::time::Duration::ZERO), ..Control::quiet() };
        let error = Loads::measure(&asked, &Known::default(), &cut).unwrap_err();
        assert!(
            error.to_string().starts_with("at size=65536: the capacity is not known, because"),
            "{error}"
        );
        assert!(!error.is_bad_input());
        let stopped = Control { interrupt: Arc::new(true.into()), ..Control::quiet() };
        let asked = [(String::new(), given(&open))];
        let error = Loads::measure(&asked, &Known::default(), &stopped).unwrap_err();
        assert_eq!(error.to_string(), "interrupted, so the capacity is not known");
    }

    #[test]
    fn options_are_checked_before_the_capacity_is_known() {
        let open = "verb = \"read\"\nmachines = 2\nthreads = 1\narrivals = \"fixed\"\nload = \"70%\"";
        assert_eq!(at_some_rate(given(open)).unwrap().read::<u64>("rate"), Ok(Some(1)));
        assert!(
            at_some_rate(given(&format!("{open}\nthreads = 99").replacen("threads = 1\n", "", 1))).is_err()
        );
        assert_eq!(at_some_rate(given("verb = \"read\"")).unwrap().get("rate"), None);
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
