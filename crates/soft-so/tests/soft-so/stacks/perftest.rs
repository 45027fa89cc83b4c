//! Runs perftest with connections by rdma_cm.

use super::{RUN, Run, pass};

const BASE: Run = Run { package: "perftest", ..RUN };

pub(super) const RUNS: [Run; 4] = [
    Run {
        program: "ib_write_bw",
        server: &["-R", "-n", "500", "-s", "4096"],
        client: &["-R", "-n", "500", "-s", "4096", "127.0.0.1"],
        bytes: 500 * 4096,
        ..BASE
    },
    Run {
        program: "ib_read_bw",
        server: &["-R", "-n", "500", "-s", "4096", "-q", "4"],
        client: &["-R", "-n", "500", "-s", "4096", "-q", "4", "127.0.0.1"],
        bytes: 4 * 500 * 4096,
        ..BASE
    },
    Run {
        program: "ib_atomic_bw",
        server: &["-R", "-n", "500"],
        client: &["-R", "-n", "500", "127.0.0.1"],
        bytes: 500 * 8,
        ..BASE
    },
    Run {
        program: "ib_send_lat",
        server: &["-R", "-n", "500", "-s", "1024", "-c", "UD"],
        client: &["-R", "-n", "500", "-s", "1024", "-c", "UD", "127.0.0.1"],
        transport: "ud",
        bytes: 2 * 500 * 1024,
        ..BASE
    },
];

#[test]
fn programs() {
    pass(&RUNS);
}
