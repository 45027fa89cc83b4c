//! Generates and checks `docs/programs.md`. The page lists the runs of all packages, the tested versions, and
//! the programs that do not run.

use super::{Run, fio, libfabric, machines, mpi, perftest, qperf, rdmacm, ucx, wheels};
use std::path::Path;
use std::process::Command;

/// Programs that do not run, and the reasons.
const NOT: [(&str, &str); 10] = [
    (
        "`rping`, sometimes at its end",
        "After rping closed its event channel, one of its threads can ask for an event, and prints an error.",
    ),
    (
        "`fio --verb=send`, sometimes",
        "fio sets no RNR retries. If a SEND arrives before the RECV is posted, fio waits forever.",
    ),
    (
        "`rdma_xserver -c x`",
        "librdmacm 44 creates the SRQ without a protection domain, but ibv_create_srq_ex(3) needs one.",
    ),
    (
        "`rstream -T a`, sometimes",
        "On a busy machine, the server's exit can reach the client together with the last bytes. The client then prints an error.",
    ),
    ("`udpong`", "The client never ends, for an unknown reason."),
    (
        "`oshrun` without `--mca memory ^patcher`",
        "When a thread of PMIx ends, Open MPI 4.1.4 calls a hook of a module that it has unloaded.",
    ),
    ("`iscsi-test-cu iser:`", "libiscsi 1.19.0 crashes in a thread of its own. The reason is unknown."),
    (
        "`qemu-io` by iSER, writes of 512 KiB or more",
        "libiscsi 1.19.0 does not send the command, so the write does not end. Writes of 256 KiB pass.",
    ),
    (
        "Intel MPI 2021.15 of PyPI by `verbs;ofi_rxm`, at its end",
        "If the last message and the disconnection arrive together, libfabric posts a RECV to the connection that it has closed, and crashes.",
    ),
    (
        "`starway` of PyPI with UCX 1.13.1",
        "All messages arrive. Then UCX aborts, when the client closes. Starway needs UCX 1.18.",
    ),
];

/// Released programs that no test runs, and the reasons.
const UNTESTED: [(&str, &str); 7] = [
    (
        "`dtest` of dapl2-utils 2.1.10",
        "A run by hand passed, with all three providers of dapl2-utils. Its TCP port is fixed, so two runs of the tests would collide.",
    ),
    ("UCXX, Dask and commux of PyPI", "The UCX in these wheels has no verbs transport."),
    ("nvmeof and spdk of PyPI", "Both need a target of NVMe over RDMA, which no package contains."),
    ("NFS-Ganesha and GlusterFS of Debian", "Their packages have no RDMA."),
    ("oneCCL 2022.2.0 of PyPI", "Its wheel of 92 MB is too large for a test. It was not tried."),
    (
        "MPICH 5.0.2 and Open MPI 5.0.11 of PyPI, jucx 1.12.1 of Maven",
        "Runs by hand passed, over UCX. Both MPIs also ran over libfabric (`verbs;ofi_rxm`).",
    ),
    (
        "InfiniStore 0.2.35 of PyPI",
        "A run by hand passed, with uvloop 0.21.0. InfiniStore needs numpy, and aborts with newer versions of uvloop.",
    ),
];

fn all() -> impl Iterator<Item = &'static Run> {
    let tables: [&'static [Run]; 9] = [
        &rdmacm::RUNS,
        &perftest::RUNS,
        &qperf::RUNS,
        &libfabric::RUNS,
        &ucx::RUNS,
        &mpi::RUNS,
        &fio::RUNS,
        &machines::RUNS,
        &wheels::RUNS,
    ];
    tables.into_iter().flatten()
}

/// The installed version of a package, or `?` if the package is not installed.
fn version(package: &str) -> String {
    if let Some(version) = wheels::version(package) {
        return version;
    }
    let asked = Command::new("dpkg-query").args(["-W", "-f", "${Version}", package]).output();
    let told = asked.ok().filter(|told| told.status.success());
    told.map_or("?".into(), |told| String::from_utf8_lossy(&told.stdout).into_owned())
}

/// The text of the page. `version` returns the tested version of a package.
fn page(version: impl Fn(&str) -> String) -> String {
    let mut page = String::from(
        "# Programs that run on the software NIC\n\n\
         This page lists unmodified programs that tests run on the software NIC, and programs that fail on it.\n\n\
         - **Programs** are packages of Debian or PyPI. `doorbell run` starts servers and clients. All transports\n  \
         except RDMA are off, but Mooncake and PeerCache cannot switch off TCP.\n\
         - **Success.** Each row of the table is a run. It succeeds if the software NIC carries at least the row's\n  \
         bytes on the row's transport. The first run of each package is tried again without Doorbell's\n  \
         library. This attempt must fail. Mooncake, PeerCache, and machines with an RDMA device skip this check.\n\
         - **Time.** [RNR timers](run-errors.md#timers) take as long as on a NIC. They slow down only `qperf rc_bw`:\n  \
         some 15 waits of 0.64 ms.\n\
         - **Test.** `crates/soft-so/tests/soft-so/stacks` runs the programs and writes this page. It skips packages\n  \
         that are not installed. `cargo xtask test` installs packages of PyPI before the tests, and as root also\n  \
         packages of Debian. The package tgt starts a service at the next boot, unless you disable it.\n\n\
         Other tests run librspreload, ibverbs-utils, perftest without rdma_cm, rdma-core's pyverbs tests, the verbs\n\
         calls of NCCL's network plugin, and programs under sanitizers and other allocators.\n\n\
         <!-- programs, made by a test -->\n\
         | package | version | transport | bytes at least | the client's command |\n|---|---|---|---|---|\n",
    );
    for run in all() {
        let (package, transport, bytes) = (run.package, run.transport, run.bytes);
        page += &format!("| {package} | {} | {transport} | {bytes} | `{}` |\n", version(package), run.line());
    }
    page += "<!-- end -->\n\n## Programs that fail\n\n<!-- reasons, made by a test -->\n";
    page += "| program | reason |\n|---|---|\n";
    for (what, why) in NOT {
        page += &format!("| {what} | {why} |\n");
    }
    page += "<!-- end -->\n\n## Programs without a test\n\n<!-- reasons, made by a test -->\n";
    page += "| program | reason |\n|---|---|\n";
    for (what, why) in UNTESTED {
        page += &format!("| {what} | {why} |\n");
    }
    page + "<!-- end -->\n"
}

#[test]
fn the_page_has_all_runs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/programs.md");
    if std::env::var_os("DOORBELL_BLESS").is_some() {
        return std::fs::write(path, page(version)).expect("it can be written");
    }
    // The versions that are installed here may differ from the tested ones.
    let without_versions = |page: &str| {
        let line = |line: &str| match line.split('|').collect::<Vec<_>>()[..] {
            ["", package, _, ref rest @ ..] => format!("|{package}|{}", rest.join("|")),
            _ => line.to_owned(),
        };
        page.lines().map(line).collect::<Vec<_>>()
    };
    let written = std::fs::read_to_string(path).expect("the page is there");
    assert_eq!(without_versions(&written), without_versions(&page(|_| String::new())), "cargo xtask bless");
}
