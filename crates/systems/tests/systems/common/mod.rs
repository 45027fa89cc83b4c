//! Running systems in virtual time.
#![allow(dead_code, reason = "each test uses some of it")]

use doorbell_nic::Profile;
use doorbell_sim::{SimCluster, SimConfig};
use doorbell_systems::{Interval, SystemError};
use doorbell_verbs::{Cluster, Mem, PageSize, Program, Span, Task, Time};

/// Time after which threads give up.
pub(crate) const PATIENCE: Span = Span::from_ms(50);
/// End of all runs.
pub(crate) const END: Time = Time::from_ps(PATIENCE.as_ps());

pub(crate) fn interval() -> Interval {
    Interval::new(Time::START, END.since(Time::START))
}

pub(crate) fn cluster(profile: &str, machines: u32, change: impl FnOnce(&mut SimConfig)) -> SimCluster {
    let mut config = SimConfig { end: END + Span::from_ms(10), ..SimConfig::new(machines) };
    change(&mut config);
    SimCluster::new(&Profile::named(profile).expect("a built-in profile"), config)
}

pub(crate) fn alloc(cluster: &mut SimCluster, machine: u32, len: u64) -> Mem {
    cluster.alloc(machine, len, PageSize::Huge).expect("memory")
}

/// Machine and core of client `c`, with four machines.
pub(crate) fn place(c: u32) -> (u32, u32) {
    (1 + c % 3, c / 3)
}

/// Starts the clients that `make` makes.
pub(crate) fn spawn<T: Program>(
    cluster: &mut SimCluster,
    clients: u32,
    make: impl Fn(u32) -> T,
) -> Vec<Task<T::Output>> {
    (0..clients)
        .map(|c| {
            let (machine, core) = place(c);
            cluster.spawn(machine, core, make(c))
        })
        .collect()
}

/// Results of threads. Panics if a thread has failed.
pub(crate) fn results<T>(tasks: Vec<Task<Result<T, SystemError>>>) -> Vec<T> {
    let result = |(i, t): (usize, Task<Result<T, SystemError>>)| {
        t.take()
            .unwrap_or_else(|| panic!("thread {i} did not end"))
            .unwrap_or_else(|e| panic!("thread {i}: {e}"))
    };
    tasks.into_iter().enumerate().map(result).collect()
}
