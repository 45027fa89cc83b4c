//! `docs/programs.md`: the runs of all packages, the versions that were installed when the page was written,
//! and the programs that do not run.

use super::{Run, fio, libfabric, mpi, perftest, qperf, rdmacm, ucx, wheels};
use std::path::Path;
use std::process::Command;

/// Programs that do not run, and the reasons.
const NOT: [(&str, &str); 5] = [
    (
        "`rping`, at times, when all is done",
        "its thread asks for an event when its channel is closed, which it prints as an error: a NIC disconnects more slowly",
    ),
    (
        "`fio --verb=send`, at times",
        "fio asks for no retries after an RNR NAK, and waits for ever when a SEND was quicker than the other side's RECV",
    ),
    (
        "`rdma_xserver -c x`",
        "librdmacm 44 makes its SRQ without a protection domain, which ibv_create_srq_ex(3) needs",
    ),
    (
        "`rstream -T a`, at times",
        "its client takes it for an error that its server has ended, which a busy machine tells it with the last bytes",
    ),
    ("`udpong`", "its client does not end; why is not known"),
];

fn all() -> impl Iterator<Item = &'static Run> {
    let tables: [&'static [Run]; 8] = [
        &rdmacm::RUNS,
        &perftest::RUNS,
        &qperf::RUNS,
        &libfabric::RUNS,
        &ucx::RUNS,
        &mpi::RUNS,
        &fio::RUNS,
        &wheels::RUNS,
    ];
    tables.into_iter().flatten()
}

/// The installed version of a package.
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
         Unmodified, as Debian and PyPI have them, between processes that `doorbell run` starts, with every other transport off. A run\n\
         passes where the NIC's own statistics have at least the payload that the program says it moved, on the transport named;\n\
         the first of each package must fail without the library (but Mooncake's, which takes TCP then). PyPI's run where `cargo xtask test` could get them. `crates/soft-so/tests/soft-so/stacks` runs all of these and\n\
         makes this page. Beside them: a program of TCP under librspreload (`rspreload.rs`), programs under AddressSanitizer, ThreadSanitizer and jemalloc (`runtimes.rs`), one that does what NCCL's network does (`net_ib.c`), ibverbs-utils, perftest by TCP and rdma-core's pyverbs tests (`programs.rs`, `pyverbs.rs`).\n\n\
         | package | version | transport | bytes at least | the client's command |\n|---|---|---|---|---|\n",
    );
    for run in all() {
        let (package, transport, bytes) = (run.package, run.transport, run.bytes);
        page += &format!("| {package} | {} | {transport} | {bytes} | `{}` |\n", version(package), run.line());
    }
    page += "\n## What does not\n\n| what | why |\n|---|---|\n";
    for (what, why) in NOT {
        page += &format!("| {what} | {why} |\n");
    }
    page
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
