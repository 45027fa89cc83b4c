//! Runs libfabric's verbs provider: connections by rdma_cm, datagrams, and reliable datagrams over
//! connections.

use super::{PORT, RUN, Ready, Run, pass};
use crate::common::{finish, installed, launch, library, text};
use doorbell_launch::Link;
use std::process::{Command, Stdio};

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

/// Two hosts, which the fabric knows by `--ip`. The programs also connect by TCP, so the loopback interface has
/// both addresses. `docs/run.md` describes this. libfabric drops the port of a loopback address alone.
const HOSTS: &str = r#"
set -e
ip link set lo up
ip address add 10.0.0.1/32 dev lo
ip address add 10.0.0.2/32 dev lo
for host in 127.0.0.1 10.0.0.1; do
    "$@" --ip 10.0.0.1 -- fi_info -p verbs -t FI_EP_MSG -n $host -P 7000 -s $host -v | grep ' src_addr:'
done
"$@" --ip 10.0.0.1 -- fi_pingpong -p verbs -e dgram -I 50 -S 1024 -c &
until cat /proc/net/tcp /proc/net/tcp6 | grep -q ':B9E8 .* 0A '; do sleep 0.05; done
"$@" --ip 10.0.0.2 -- fi_pingpong -p verbs -e dgram -I 50 -S 1024 -c 10.0.0.1
wait $!
"#;

#[test]
fn two_hosts_with_addresses_of_the_loopback_interface() {
    const APART: [&str; 3] = ["--user", "--map-root-user", "--net"];
    if ["unshare", "ip", "fi_pingpong", "fi_info"].map(installed).iter().any(Option::is_none) {
        return;
    }
    let tried = Command::new("unshare").args(APART).arg("true").output().expect("it starts");
    if !tried.status.success() {
        return eprintln!("skipped: unshare is not permitted: {}", text(&tried).trim());
    }
    let fabric = launch(Link::Ib).fabric.unwrap_or_default();
    let mut hosts = Command::new("unshare");
    hosts.args(APART).args(["sh", "-c", HOSTS, "hosts"]).arg(library().with_file_name("doorbell"));
    hosts.args(["run", "--fabric", &fabric]);
    let run = hosts.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = finish(run.expect("it starts"), "two hosts");
    assert!(output.status.success(), "{}", text(&output));
    for (part, count) in [("://127.0.0.1:0\n", 1), ("://10.0.0.1:7000\n", 1), ("\n1k ", 2)] {
        assert_eq!(text(&output).matches(part).count(), count, "{part:?}: {}", text(&output));
    }
}
