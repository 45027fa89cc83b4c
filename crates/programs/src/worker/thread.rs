//! One thread of a workload.

use super::tally::Tally;
use doorbell_systems::Measurement;
use doorbell_verbs::{Mem, Span};
use doorbell_workload::{Resolved, topology};
use std::sync::Arc;

/// One thread of a workload.
#[derive(Clone, Debug)]
pub struct Worker {
    /// What to do: what its class does.
    pub workload: Arc<Resolved>,
    /// From when to when is measured, and what all threads see.
    pub measurement: Measurement,
    /// Its machine.
    pub machine: u32,
    /// Its number on that machine, from 0.
    pub thread: u32,
    /// Its number among those of its class on that machine, from 0.
    pub number: u32,
    /// Threads of that machine.
    pub threads: u32,
    /// The NIC that it uses.
    pub device: u32,
    /// A core at whose socket its memory is, where that is not its own.
    pub memory_near: Option<u32>,
    /// What it does for each operation beside its verbs, in virtual time.
    pub own_work: Span,
    /// Ports that every machine has and uses; the thread uses the one of its number modulo these.
    pub ports: u32,
    /// The counters of its machine that all its threads share, for atomics.
    pub counters: Option<Mem>,
    /// What all threads know of each kind of operations.
    pub tally: Tally,
}

impl Worker {
    /// A number of its own among all threads that post.
    pub(super) fn place(&self) -> u64 {
        let before = (0..self.machine).filter(|machine| topology::requests(&self.workload, *machine)).count();
        before as u64 * u64::from(self.threads) + u64::from(self.thread)
    }
}
