//! Runs qperf with and without rdma_cm.

use super::{PORT, RUN, Ready, Run, pass};

const BASE: Run =
    Run { package: "qperf", program: "qperf", server: &["-lp", PORT], ready: Ready::Tcp, ..RUN };

// qperf runs for a time and does not print the number of messages. The byte counts here are lower bounds for
// one second.
pub(super) const RUNS: [Run; 3] = [
    Run {
        client: &["-lp", PORT, "-t", "1", "-cm", "1", "127.0.0.1", "rc_bw"],
        bytes: 100 * 65536,
        says: "bw",
        ..BASE
    },
    Run {
        client: &["-lp", PORT, "-t", "1", "-cm", "1", "127.0.0.1", "rc_rdma_read_lat"],
        bytes: 100,
        says: "latency",
        ..BASE
    },
    Run {
        client: &["-lp", PORT, "-t", "1", "127.0.0.1", "ud_lat"],
        transport: "ud",
        bytes: 100,
        says: "latency",
        ..BASE
    },
];

#[test]
fn programs() {
    pass(&RUNS);
}
