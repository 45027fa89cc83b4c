//! Runs the example programs of librdmacm.

use super::{RUN, Ready, Run, pass};
use std::time::Duration;

const BASE: Run = Run { package: "rdmacm-utils", ..RUN };

/// rping. After a quick disconnection, its thread may ask for an event after the channel was closed, and
/// prints an error.
const RPING: Run = Run { program: "rping", excuse: "rdma_get_cm_event: Bad file descriptor", ..BASE };

pub(super) const RUNS: [Run; 11] = [
    Run {
        server: &["-s", "-C", "50", "-S", "4000", "-a", "127.0.0.1", "-V"],
        client: &["-c", "-C", "50", "-S", "4000", "-a", "127.0.0.1", "-V"],
        // In each iteration, the server READs the data and WRITEs the data back.
        bytes: 2 * 50 * 4000,
        ..RPING
    },
    Run {
        server: &["-s", "-C", "5", "-a", "::1"],
        client: &["-c", "-C", "5", "-a", "::1"],
        bytes: 2 * 5 * 64,
        ..RPING
    },
    Run {
        program: "ucmatose",
        server: &["-c", "4", "-C", "20", "-S", "1000"],
        client: &["-s", "127.0.0.1", "-c", "4", "-C", "20", "-S", "1000"],
        bytes: 2 * 4 * 20 * 1000,
        says: "return status 0",
        ..BASE
    },
    Run {
        served_by: Some("rdma_server"),
        program: "rdma_client",
        client: &["-s", "127.0.0.1"],
        // A message of 16 bytes in each direction.
        bytes: 2 * 16,
        says: "end 0",
        ..BASE
    },
    Run {
        served_by: Some("rdma_xserver"),
        program: "rdma_xclient",
        client: &["127.0.0.1"],
        bytes: 16,
        says: "end 0",
        ..BASE
    },
    Run {
        program: "udaddy",
        server: &["-c", "2", "-C", "20", "-S", "1000"],
        client: &["-s", "127.0.0.1", "-c", "2", "-C", "20", "-S", "1000"],
        ready: Ready::Cm("udp"),
        transport: "ud",
        bytes: 2 * 2 * 20 * 1000,
        says: "return status 0",
        ..BASE
    },
    Run {
        program: "mckey",
        server: &["-m", "239.1.2.3", "-b", "127.0.0.1", "-C", "20", "-S", "1000"],
        client: &["-s", "-m", "239.1.2.3", "-b", "127.0.0.1", "-C", "20", "-S", "1000"],
        ready: Ready::After(Duration::from_millis(500)),
        transport: "ud",
        bytes: 20 * 1000,
        says: "return status 0",
        ..BASE
    },
    // cmtime only connects and moves no payload.
    Run {
        program: "cmtime",
        server: &["-c", "100"],
        client: &["-s", "127.0.0.1", "-c", "100"],
        says: "us / conn",
        ..BASE
    },
    Run {
        program: "riostream",
        server: &["-I", "20", "-C", "100", "-S", "4096", "-T", "v"],
        client: &["-s", "127.0.0.1", "-I", "20", "-C", "100", "-S", "4096", "-T", "v"],
        bytes: 2 * 20 * 100 * 4096,
        ..BASE
    },
    Run {
        program: "rstream",
        server: &["-I", "20", "-C", "100", "-S", "4096", "-T", "v"],
        client: &["-s", "127.0.0.1", "-I", "20", "-C", "100", "-S", "4096", "-T", "v"],
        bytes: 2 * 20 * 100 * 4096,
        ..BASE
    },
    Run {
        program: "rstream",
        server: &["-I", "20", "-C", "10", "-S", "4096", "-T", "n"],
        client: &["-s", "127.0.0.1", "-I", "20", "-C", "10", "-S", "4096", "-T", "n"],
        bytes: 2 * 20 * 10 * 4096,
        ..BASE
    },
];

#[test]
fn programs() {
    pass(&RUNS);
}
