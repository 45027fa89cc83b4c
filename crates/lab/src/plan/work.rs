//! The work of machines in a run: verbs or a system.

use crate::asked::SystemWorkload;
use crate::results::Outcome;
use crate::run_error::SimulateError;
use crate::support::Support;
use crate::watch::Watch;
use doorbell_nic::More;
use doorbell_nic::limits::Limit;
use doorbell_programs::steady::Stop;
use doorbell_schema::Duration;
use doorbell_workload::{Profiles, Resolved};
use std::sync::Arc;

/// The work of machines in a run.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// A workload of verbs.
    Verbs(Arc<Resolved>),
    /// A system.
    System(SystemWorkload),
}

/// The methods that every kind of work has for a run.
pub(super) trait Planned {
    /// The word for this kind of work in messages.
    fn name(&self) -> &'static str;

    /// Seed of the random draws.
    fn seed(&self) -> u64;

    /// The resolved work as JSON: everything that a result depends on, except the machines.
    fn json(&self) -> serde_json::Value;

    /// Value of a numeric option after defaults and limits; `None` if the option is absent or not a number.
    fn number(&self, key: &str) -> Option<u64>;

    /// One of this many operations is signalled; `None` for a system, which decides for itself.
    fn signal_every(&self) -> Option<u64>;

    /// The work with this warm-up and duration.
    fn timed(&self, warmup: Duration, duration: Duration) -> Work;

    /// The work adapted to more of a resource, if an option of the work limits its use of the resource;
    /// `None` if the work stays unchanged.
    fn with(&self, _more: More) -> Option<Work> {
        None
    }

    /// Whether some operations may return data from a peer.
    fn may_read(&self) -> bool {
        true
    }

    /// Number of machines to which a machine posts; `None` for a system, which decides for itself.
    fn reach(&self) -> Option<u32> {
        None
    }

    /// Whether the machines exchange data over kernel TCP instead of QPs.
    fn is_over_tcp(&self) -> bool {
        false
    }

    /// Upper bounds of the rate, lowest first; empty for a system, because the mix of its verbs is unknown.
    fn limits(&self, _profiles: &Profiles) -> Vec<Limit> {
        Vec::new()
    }

    /// The supporting data; see [`crate::Run::supports`].
    fn supports(&self, profiles: &Profiles) -> Vec<Support>;

    /// The parts outside the measurements; see [`crate::Run::extrapolates`].
    fn extrapolates(&self, profiles: &Profiles) -> Vec<String>;

    /// Operations that are due per second; `None` if some threads run a closed loop.
    fn due(&self) -> Option<u64>;

    /// Approximate run time of the simulation, in simulated operations.
    fn cost(&self, profiles: &Profiles) -> f64;

    /// Rough upper bound of this computer's memory for the work, in bytes.
    fn bytes(&self, profiles: &Profiles) -> u64;

    /// Number of simulated threads.
    fn threads(&self) -> u64;

    /// Executes the work.
    fn run(&self, profiles: &Profiles, stop: &Stop, watch: &dyn Watch) -> Result<Outcome, SimulateError>;
}

/// Approximate virtual microseconds of a warm-up or measured time that is not given.
const USUAL_US: f64 = 200.0;

/// Approximate virtual microseconds of a run with these times.
pub(super) fn microseconds(warmup: Option<Duration>, duration: Option<Duration>) -> f64 {
    let us = |time: Option<Duration>| time.map_or(USUAL_US, |time| time.span().as_secs_f64() * 1e6);
    us(warmup) + us(duration)
}
