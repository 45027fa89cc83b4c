//! CLUSTER'21, Table II: memory bandwidth at the thread's own socket and at the other one. Doorbell reads it
//! as the bandwidth of a thread that has equally many outstanding lines at either socket
//! (docs/notes/cluster21.md, Local memory).

use super::cluster::CLUSTER;
use super::local::{Home, LINE, Walk, rates};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_systems::local_memory::{Addresses, Op};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tab2-bandwidth",
    paper: "cluster21",
    title: "bandwidth of a thread's memory, at its own socket and at the other",
    claims: &["cluster21-tab2-local-bw", "cluster21-tab2-remote-bw", "cluster21-tab2-bw-63"],
    runs: Runs::Systems,
    run,
};

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let walk = |home| Walk { op: Op::Read, addresses: Addresses::Sequential, home, size: LINE };
    let found = rates(ctx, "tab2", &[Home::Own, Home::Other].map(walk))?;
    let [own, other] = [found[0], found[1]].map(|rate| rate * f64::from(LINE) / 1e3);
    let checks = vec![
        Check::number("cluster21-tab2-local-bw", CLUSTER, own),
        Check::number("cluster21-tab2-remote-bw", CLUSTER, other),
        Check::number("cluster21-tab2-bw-63", CLUSTER, (own / other - 1.0) * 100.0),
    ];
    Ok(Findings { checks, ..Findings::default() })
}
