//! The roles of the applications. Checks kill processes of each role, with any number of seeds.

use super::common::{AT_FIRST, KILLED, MACHINES};
use super::{engines, executors, machines, readers, tables};
use crate::check::{Check, Scale};
use doorbell_verbs::Cluster;

/// A role of an application, whose processes are killed.
pub struct KillRole<C> {
    /// The application and the role.
    pub name: &'static str,
    /// Processes that a check kills.
    pub kills: u32,
    machines: (u32, u32),
    run: fn(&mut C, &Scale, u64) -> Result<(), String>,
}

impl<C: Cluster + 'static> KillRole<C> {
    /// The check with this seed.
    pub fn check(&self, seed: u64) -> Check<C> {
        let (run, (all, at_first)) = (self.run, self.machines);
        let name = format!("systems/kills/{}_{seed}", self.name);
        Check::new(name, move |cluster: &mut C, scale: &Scale| run(cluster, scale, seed))
            .of_processes(all, at_first)
    }

    /// The check of this name, if it belongs to this role.
    pub fn named(&self, name: &str) -> Option<Check<C>> {
        let seed = name.strip_prefix("systems/kills/")?.strip_prefix(self.name)?.strip_prefix('_')?;
        seed.parse().ok().map(|seed| self.check(seed))
    }
}

/// All roles.
pub fn roles<C: Cluster>() -> Vec<KillRole<C>> {
    vec![
        KillRole {
            name: "hashtable_front_end",
            kills: KILLED,
            machines: (MACHINES, AT_FIRST),
            run: tables::front_ends,
        },
        KillRole {
            name: "hashtable_back_end",
            kills: 1,
            machines: (tables::MACHINES, tables::MACHINES),
            run: tables::back_end,
        },
        KillRole {
            name: "shuffle_executor",
            kills: 1,
            machines: (executors::MACHINES, executors::MACHINES),
            run: executors::shuffle,
        },
        KillRole {
            name: "join_executor",
            kills: 1,
            machines: (executors::MACHINES, executors::MACHINES),
            run: executors::join,
        },
        KillRole { name: "log_engine", kills: KILLED, machines: (MACHINES, MACHINES), run: engines::engines },
        KillRole {
            name: "log_machine",
            kills: 1,
            machines: (machines::MACHINES, machines::MACHINES),
            run: machines::log_machine,
        },
        KillRole {
            name: "log_reader",
            kills: KILLED,
            machines: (readers::MACHINES, readers::MACHINES),
            run: readers::readers,
        },
    ]
}
