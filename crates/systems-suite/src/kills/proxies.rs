//! A killed proxy answers no more requests. Clients that do not need it have all their READs.

use super::common::LOOKS;
use crate::check::{Check, MACHINES, Scale};
use crate::faults::Faults;
use crate::kill::{DEAD, Kill, KillWay};
use crate::stage::{self, text};
use doorbell_systems::proxy::{Path, Proxy, put_up};
use doorbell_systems::{Measured, System, SystemError};
use doorbell_verbs::{Cluster, Program, Provider, Span};

/// Two machines with a thread at each of two sockets. The threads of a machine are each other's proxies, and
/// all READs go by a proxy.
#[derive(Clone, Copy, Debug)]
pub struct ProxyKills {
    /// READs of each client.
    pub reads: u64,
    /// Killed clients, on the second machine: the first, and how many.
    pub clients: (u32, u32),
    /// How the clients are killed.
    pub way: KillWay,
    /// Seed of the random draws.
    pub seed: u64,
}

/// The machine of the killed clients.
const MACHINE: u32 = 2;

/// Clients of each machine.
pub const OF_A_MACHINE: u32 = 2;

impl ProxyKills {
    /// Runs the case. Returns how many READs each client had that was not killed. Returns nothing if machine
    /// 0 is in another process.
    ///
    /// # Errors
    /// If a READ had wrong bytes, or a verb fails.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<Vec<u64>, String> {
        let mut config =
            Proxy { path: Path::Proxy, read_bytes: 200, unmatched_permille: 1000, ..Proxy::usual() };
        (config.clients.clients, config.clients.clients_per_machine) = (2 * OF_A_MACHINE, OF_A_MACHINE);
        let kill = Some(Kill::new(self.clients, (0, self.reads), self.way));
        let faults = Faults { kill, seed: self.seed, ..Faults::default() };
        let mut stage = stage::stage::<C, Measured>(cluster, faults, patience)?;
        put_up(&mut stage, &config, self.reads).map_err(text)?;
        stage.add_client(LOOKS, Looker);
        let mut done: Vec<u64> = stage::run(stage)?.iter().map(|client| client.done).collect();
        done.pop();
        Ok(done)
    }
}

/// Ends once a client is dead, so that the run does not end before the kill.
struct Looker;

impl Program for Looker {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        p.lookup(&format!("{DEAD}{MACHINE}"));
        Ok(Measured::default())
    }
}

/// Kills the process of a machine, with both its threads and the requests in their queues. The other machine
/// must have all its READs.
fn run<C: Cluster>(cluster: &mut C, scale: &Scale, seed: u64) -> Result<(), String> {
    let reads = u64::from(scale.requests) / 4;
    let case = ProxyKills { reads, clients: (OF_A_MACHINE, OF_A_MACHINE), way: KillWay::Process, seed };
    let done = case.run(cluster, scale.patience)?;
    match done.iter().all(|done| *done == reads) {
        true => Ok(()),
        false => Err(format!("clients completed {done:?} READs, not {reads} each")),
    }
}

/// The checks of killed proxies.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let check = |seed| {
        let run = move |cluster: &mut C, scale: &Scale| run(cluster, scale, seed);
        Check::new(format!("systems/kills/proxy_{seed}"), run).of_processes(MACHINES, MACHINES)
    };
    (1..=2).map(check).collect()
}
