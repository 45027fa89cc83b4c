//! A system as the work of a run: estimates of its time and memory.

use super::memory;
use super::work::{Planned, Work, microseconds};
use crate::asked::SystemWorkload;
use crate::extrapolation;
use crate::results::Outcome;
use crate::run_error::SimulateError;
use crate::simulate::system;
use crate::support::{self, Support};
use crate::watch::Watch;
use doorbell_programs::steady::Stop;
use doorbell_schema::Duration;
use doorbell_systems::config::Timing;
use doorbell_workload::Profiles;

/// Bytes of this computer's memory for a client and its part of the server, rounded up.
const CLIENT: u64 = 400_000;
/// Largest number of threads of a server.
const SERVER_THREADS: u64 = 256;

/// Approximate upper bound of the messages that a system exchanges in a microsecond.
const SYSTEM_RATE: f64 = 200.0;

/// Bytes of the memories of a system: the store and the buffers of its threads.
fn memories(system: &SystemWorkload) -> u64 {
    system.server_bytes().saturating_add(system.client_bytes())
}

impl SystemWorkload {
    /// Refuses to run the system on this machine itself if its memories are larger than the machine's memory.
    ///
    /// # Errors
    /// If they are larger.
    pub fn check_memory(&self) -> Result<(), SimulateError> {
        let (needed, memory) = (memories(self), memory::of_machine());
        if needed > memory { Err(SimulateError::TooLarge { needed, memory }) } else { Ok(()) }
    }
}

impl Planned for SystemWorkload {
    fn name(&self) -> &'static str {
        "system"
    }

    fn seed(&self) -> u64 {
        self.timing().seed
    }

    fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("a run is JSON")
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.get(key)
    }

    fn signal_every(&self) -> Option<u64> {
        None
    }

    fn timed(&self, warmup: Duration, duration: Duration) -> Work {
        let timing = self.timing().clone();
        let timed = Timing { warmup: Some(warmup), duration: Some(duration), until: None, ..timing };
        Work::System(SystemWorkload::timed(self, timed))
    }

    fn is_over_tcp(&self) -> bool {
        SystemWorkload::is_over_tcp(self)
    }

    fn supports(&self, profiles: &Profiles) -> Vec<Support> {
        support::of_system(profiles.first(), self)
    }

    fn extrapolates(&self, profiles: &Profiles) -> Vec<String> {
        extrapolation::of_run_of_system(profiles.first(), self)
    }

    fn due(&self) -> Option<u64> {
        self.rate()
    }

    fn cost(&self, _profiles: &Profiles) -> f64 {
        let Timing { warmup, duration, .. } = self.timing();
        SYSTEM_RATE * (self.set_up().as_secs_f64() * 1e6 + microseconds(*warmup, *duration))
    }

    fn bytes(&self, _profiles: &Profiles) -> u64 {
        // A quarter more for data about the cache lines of all memories.
        memories(self) / 4 * 5 + CLIENT * u64::from(self.clients().clients)
    }

    fn threads(&self) -> u64 {
        u64::from(self.clients().clients) + SERVER_THREADS
    }

    fn run(&self, profiles: &Profiles, stop: &Stop, watch: &dyn Watch) -> Result<Outcome, SimulateError> {
        system::run_once(profiles.first(), self, stop, watch)
    }
}
