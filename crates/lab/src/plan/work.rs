//! What machines do in a run, be it verbs or a system.

use crate::asked::SystemWorkload;
use crate::results::Outcome;
use crate::run_error::SimulateError;
use crate::watch::Watch;
use doorbell_nic::More;
use doorbell_programs::steady::Stop;
use doorbell_schema::Duration;
use doorbell_workload::{Profiles, Resolved};
use std::sync::Arc;

/// What machines do.
#[derive(Clone, Debug)]
pub enum Work {
    /// A workload of verbs.
    Verbs(Arc<Resolved>),
    /// A system.
    System(SystemWorkload),
}

/// What a run asks of what its machines do.
pub(super) trait Planned {
    /// What it is called in messages.
    fn name(&self) -> &'static str;

    /// With which draws begin.
    fn seed(&self) -> u64;

    /// It as JSON, resolved: all that a result depends on, the machines apart.
    fn json(&self) -> serde_json::Value;

    /// The value of a number option after defaults and limits; `None` for an option that is absent or not a number.
    fn number(&self, key: &str) -> Option<u64>;

    /// The number of operations of a QP per signalled one; `None` for a system without the option `signal_every`.
    fn signal_every(&self) -> Option<u64>;

    /// It, warmed up and measured for so long.
    fn timed(&self, warmup: Duration, duration: Duration) -> Work;

    /// It where it asks for as much of what there is more of; `None` where it stays as it is.
    fn with(&self, _more: More) -> Option<Work> {
        None
    }

    /// Whether some of its operations may read data of others.
    fn may_read(&self) -> bool {
        true
    }

    /// Operations that are due in a second; `None` where some threads post as earlier ones end.
    fn due(&self) -> Option<u64>;

    /// How long it takes beside others: roughly the operations that it simulates.
    fn cost(&self, profiles: &Profiles) -> f64;

    /// Bytes of memory that it takes at most, roughly.
    fn bytes(&self, profiles: &Profiles) -> u64;

    /// Threads that it starts.
    fn threads(&self) -> u64;

    /// Runs it.
    fn run(&self, profiles: &Profiles, stop: &Stop, watch: &dyn Watch) -> Result<Outcome, SimulateError>;
}

/// Virtual microseconds that warm-up and measured time take, about, where they are not said.
const USUAL_US: f64 = 200.0;

/// About how long a run with these times is, in microseconds.
pub(super) fn microseconds(warmup: Option<Duration>, duration: Option<Duration>) -> f64 {
    let us = |time: Option<Duration>| time.map_or(USUAL_US, |time| time.span().as_secs_f64() * 1e6);
    us(warmup) + us(duration)
}
