//! Runs scripts with Open MPI and MPICH over UCX: a ping-pong between two ranks, sums over all ranks, puts and
//! gets of OpenSHMEM, and Python's objects by mpi4py.

use super::{RUN, Ready, Run, pass};
use crate::common::installed_file;

/// The program that all ranks run.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/mpi.py");

const SHMEM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/shmem.py");

const OBJECTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/objects.py");

/// The package of Debian has no program.
const MPI4PY: &str = "/usr/lib/python3/dist-packages/mpi4py";

macro_rules! mpirun {
    ($ranks:literal, $script:expr) => {
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
            $script,
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

pub(super) const RUNS: [Run; 5] = [
    Run { client: mpirun!("2", SCRIPT), bytes: PINGS + 2 * 10 * 40_000, says: "2 ranks agree", ..BASE },
    // Each of the 10 sums moves the 40000 bytes of each rank at least once.
    Run { client: mpirun!("4", SCRIPT), bytes: PINGS + 4 * 10 * 40_000, says: "4 ranks agree", ..BASE },
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
    Run {
        package: "python3-mpi4py",
        client: mpirun!("2", OBJECTS),
        bytes: 2 * 2 * 20 * 65536,
        says: "20 objects and buffers of 65536 bytes",
        ..BASE
    },
];

#[test]
fn programs() {
    let [openmpi @ .., mpich, mpi4py] = RUNS;
    pass(&openmpi);
    pass(&[mpich]);
    if installed_file(MPI4PY) {
        pass(&[mpi4py]);
    }
}
