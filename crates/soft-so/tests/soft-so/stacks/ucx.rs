//! Runs UCX's tagged, one-sided and active messages over its verbs transports, and connections by its rdmacm
//! component.

use super::{PORT, RUN, Ready, Run, pass};

const BASE: Run = Run {
    package: "ucx-utils",
    program: "ucx_perftest",
    server: &["-p", PORT],
    env: RC,
    ready: Ready::Tcp,
    says: "Final:",
    ..RUN
};

const RC: &[(&str, &str)] = &[("UCX_TLS", "rc_v"), ("UCX_NET_DEVICES", "doorbell0:1")];
const UD: &[(&str, &str)] = &[("UCX_TLS", "ud_v"), ("UCX_NET_DEVICES", "doorbell0:1")];

/// The client's arguments for a test of `ucx_perftest` with 500 messages of 4000 bytes.
macro_rules! client {
    ($test:literal) => {
        &["-p", PORT, "127.0.0.1", "-t", $test, "-n", "500", "-w", "10", "-s", "4000"]
    };
}

pub(super) const RUNS: [Run; 9] = [
    Run { client: client!("tag_lat"), bytes: 2 * 500 * 4000, ..BASE },
    Run { client: client!("tag_bw"), bytes: 500 * 4000, ..BASE },
    Run { client: client!("ucp_put_lat"), bytes: 2 * 500 * 4000, ..BASE },
    Run { client: client!("ucp_get"), bytes: 500 * 4000, ..BASE },
    Run { client: client!("ucp_am_lat"), bytes: 2 * 500 * 4000, ..BASE },
    Run { client: client!("tag_lat"), env: UD, transport: "ud", bytes: 2 * 500 * 4000, ..BASE },
    Run { client: client!("ucp_put_lat"), env: UD, transport: "ud", bytes: 2 * 500 * 4000, ..BASE },
    Run { client: client!("ucp_am_lat"), env: UD, transport: "ud", bytes: 2 * 500 * 4000, ..BASE },
    Run {
        program: "io_demo",
        env: &[
            ("UCX_TLS", "rc_v"),
            ("UCX_SOCKADDR_TLS_PRIORITY", "rdmacm"),
            ("UCX_NET_DEVICES", "doorbell0:1"),
        ],
        server: &["-p", PORT],
        client: &["-p", PORT, "127.0.0.1", "-i", "200", "-d", "4096", "-o", "write"],
        ready: Ready::Cm("tcp"),
        bytes: 200 * 4096,
        says: "",
        ..BASE
    },
];

#[test]
fn programs() {
    pass(&RUNS);
}
