//! Stands in for the simulator until it is there.

use doorbell_nic::Profile;
use doorbell_sim::{Metrics, SimConfig};
use doorbell_verbs::{Cluster, Mem, PageSize, Program, RunError, Task, VerbsError};

pub(crate) struct SimCluster(u32);

impl SimCluster {
    pub(crate) fn new(_: &Profile, config: SimConfig) -> SimCluster {
        SimCluster(config.machines)
    }
    pub(crate) fn metrics(&self) -> Metrics {
        Metrics::default()
    }
}

impl Cluster for SimCluster {
    fn machines(&self) -> u32 {
        self.0
    }
    fn alloc(&mut self, _: u32, len: u64, _: PageSize) -> Result<Mem, VerbsError> {
        Ok(Mem::new(0, 0, len))
    }
    fn spawn<T: Program>(&mut self, _: u32, _: u32, _: T) -> Task<T::Output> {
        Task::new().0
    }
    fn run(&mut self) -> Result<(), RunError> {
        Err(RunError::Setup("the simulator is not there yet".into()))
    }
}
