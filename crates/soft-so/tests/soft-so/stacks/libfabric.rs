//! Runs libfabric's verbs provider: connections by rdma_cm, datagrams, and reliable datagrams over
//! connections.

use super::{PORT, RUN, Ready, Run, pass};

const BASE: Run = Run { package: "libfabric-bin", program: "fi_pingpong", ready: Ready::Tcp, ..RUN };

pub(super) const RUNS: [Run; 3] = [
    Run {
        server: &["-B", PORT, "-p", "verbs", "-e", "msg", "-I", "200", "-S", "4096", "-c"],
        client: &["-P", PORT, "-p", "verbs", "-e", "msg", "-I", "200", "-S", "4096", "-c", "127.0.0.1"],
        bytes: 2 * 200 * 4096,
        ..BASE
    },
    Run {
        server: &["-B", PORT, "-p", "verbs", "-e", "dgram", "-I", "200", "-S", "1024", "-c"],
        client: &["-P", PORT, "-p", "verbs", "-e", "dgram", "-I", "200", "-S", "1024", "-c", "127.0.0.1"],
        transport: "ud",
        bytes: 2 * 200 * 1024,
        ..BASE
    },
    Run {
        server: &["-B", PORT, "-p", "verbs;ofi_rxm", "-e", "rdm", "-I", "200", "-S", "65536", "-c"],
        client: &[
            "-P",
            PORT,
            "-p",
            "verbs;ofi_rxm",
            "-e",
            "rdm",
            "-I",
            "200",
            "-S",
            "65536",
            "-c",
            "127.0.0.1",
        ],
        bytes: 2 * 200 * 65536,
        ..BASE
    },
];

#[test]
fn programs() {
    pass(&RUNS);
}
