//! Starts a thread of a workload on a simulated machine.

use crate::worker::{ProgramError, ThreadResult, Worker};
use doorbell_sim::SimCluster;
use doorbell_verbs::{Cluster, Task};

/// A started thread. Its result is its measurements, or the error that stopped it.
pub type WorkerTask = Task<Result<ThreadResult, ProgramError>>;

/// Starts a thread on a core of its machine. This function is not generic, so that the thread's program is
/// compiled in this crate.
pub fn spawn(cluster: &mut SimCluster, core: u32, worker: Worker) -> WorkerTask {
    cluster.spawn(worker.machine, core, worker)
}
