//! Runs a script with Open MPI over UCX: a ping-pong between two ranks, and sums over all ranks.

use super::{RUN, Ready, Run, pass};

/// The program that all ranks run.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/mpi.py");

macro_rules! mpirun {
    ($ranks:literal) => {
        &[
            "--allow-run-as-root",
            "--oversubscribe",
            "-np",
            $ranks,
            "--mca",
            "pml",
            "ucx",
            "--mca",
            "btl",
            "self",
            "--mca",
            "osc",
            "^ucx",
            "/usr/bin/python3",
            SCRIPT,
        ]
    };
}

const BASE: Run = Run {
    package: "openmpi-bin",
    program: "mpirun",
    env: &[("UCX_TLS", "rc_v,self"), ("UCX_NET_DEVICES", "doorbell0:1")],
    ready: Ready::Alone,
    ..RUN
};

/// Payload bytes of the ping-pong in both directions.
const PINGS: u64 = 2 * 50 * 20_000;

pub(super) const RUNS: [Run; 2] = [
    Run { client: mpirun!("2"), bytes: PINGS + 2 * 10 * 40_000, says: "2 ranks agree", ..BASE },
    // Each of the 10 sums moves the 40000 bytes of each rank at least once.
    Run { client: mpirun!("4"), bytes: PINGS + 4 * 10 * 40_000, says: "4 ranks agree", ..BASE },
];

#[test]
fn programs() {
    pass(&RUNS);
}
