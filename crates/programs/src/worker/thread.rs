//! Parameters of one workload thread.

use super::tally::Tally;
use doorbell_systems::Measurement;
use doorbell_verbs::{Mem, Span};
use doorbell_workload::{Resolved, topology};
use std::sync::Arc;

/// One thread of a workload.
#[derive(Clone, Debug)]
pub struct Worker {
    /// Workload of the thread's class.
    pub workload: Arc<Resolved>,
    /// The measured time, and the observations of all threads.
    pub measurement: Measurement,
    /// Machine of the thread.
    pub machine: u32,
    /// Number of the thread on its machine, from 0.
    pub thread: u32,
    /// Number of the thread among the threads of its class on its machine, from 0.
    pub number: u32,
    /// Number of threads on the thread's machine.
    pub threads: u32,
    /// NIC that the thread uses.
    pub device: u32,
    /// A core of the socket that holds the thread's memory; `None` for the thread's own core.
    pub memory_near: Option<u32>,
    /// Virtual time of the thread's work for each operation, in addition to its verbs.
    pub own_work: Span,
    /// Number of ports in use on every machine. The thread uses port `thread` modulo `ports`.
    pub ports: u32,
    /// Counters for atomics, shared by all threads of the machine.
    pub counters: Option<Mem>,
    /// The buffer that all operations of peers access, shared by all threads of the machine; `None` if each
    /// thread has buffers of its own.
    pub shared: Option<Mem>,
    /// Counts and latencies per operation kind, shared by all threads.
    pub tally: Tally,
}

impl Worker {
    /// Number of the thread among all threads that post.
    pub(super) fn place(&self) -> u64 {
        let before = (0..self.machine).filter(|machine| topology::requests(&self.workload, *machine)).count();
        before as u64 * u64::from(self.threads) + u64::from(self.thread)
    }
}
