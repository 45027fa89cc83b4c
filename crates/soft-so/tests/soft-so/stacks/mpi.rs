//! Runs scripts with Open MPI and MPICH over UCX: a ping-pong between two ranks, sums over all ranks, and
//! puts and gets of OpenSHMEM.

use super::{RUN, Ready, Run, pass};

/// The program that all ranks run.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/mpi.py");

const SHMEM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/shmem.py");

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

pub(super) const RUNS: [Run; 4] = [
    Run { client: mpirun!("2"), bytes: PINGS + 2 * 10 * 40_000, says: "2 ranks agree", ..BASE },
    // Each of the 10 sums moves the 40000 bytes of each rank at least once.
    Run { client: mpirun!("4"), bytes: PINGS + 4 * 10 * 40_000, says: "4 ranks agree", ..BASE },
    Run {
        program: "oshrun",
        client: &[
            "--allow-run-as-root",
            "--oversubscribe",
            "-np",
            "3",
            "--mca",
            "pml",
            "ucx",
            "--mca",
            "spml",
            "ucx",
            "--mca",
            "btl",
            "self",
            "--mca",
            "osc",
            "^ucx",
            // Else Open MPI 4.1.4 calls a hook of an unloaded module at the end.
            "--mca",
            "memory",
            "^patcher",
            "/usr/bin/python3",
            SHMEM,
        ],
        bytes: 3 * 2 * 20 * 65536,
        says: "3 PEs agree",
        ..BASE
    },
    Run {
        package: "mpich",
        program: "mpiexec.hydra",
        client: &["-n", "2", "/usr/bin/python3", SCRIPT, "libmpich.so.12"],
        bytes: PINGS + 2 * 10 * 40_000,
        says: "2 ranks agree",
        ..BASE
    },
];

#[test]
fn programs() {
    let [openmpi @ .., mpich] = RUNS;
    pass(&openmpi);
    pass(&[mpich]);
}
