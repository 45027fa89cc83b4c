//! A system as the work of a run: estimates of its time and memory.

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
        // The buffers of clients, and a quarter more for data about their cache lines.
        let buffers = self.client_bytes() / 4 * 5;
        self.server_bytes() + CLIENT * u64::from(self.clients().clients) + buffers
    }

    fn threads(&self) -> u64 {
        u64::from(self.clients().clients) + SERVER_THREADS
    }

    fn run(&self, profiles: &Profiles, stop: &Stop, watch: &dyn Watch) -> Result<Outcome, SimulateError> {
        system::run_once(profiles.first(), self, stop, watch)
    }
}
