//! Runs rdma-core's own tests, which use pyverbs. The test is skipped if they are not installed.

use crate::common;
use doorbell_launch::Link;
use std::path::Path;
use std::process::Command;

const TESTS: &str = "/usr/share/doc/rdma-core/tests";
const PYTHON: &str = "/usr/bin/python3";

/// The test modules that are not specific to one driver.
const MODULES: [&str; 19] = [
    "addr",
    "atomic",
    "cq",
    "cq_events",
    "cqex",
    "device",
    "flow",
    "fork",
    "mr",
    "odp",
    "parent_domain",
    "pd",
    "qp",
    "qpex",
    "rdmacm",
    "relaxed_ordering",
    "rss_traffic",
    "shared_pd",
    "tag_matching",
];

/// Tests that must pass and must not be skipped: tests of memory windows, XRC, rdma_cm and its multicast,
/// ATOMIC WRITE, and parent domains.
const NEEDED: [&str; 28] = [
    "test_rdmacm_sync_traffic",
    "test_rdmacm_async_traffic",
    "test_rdmacm_async_traffic_external_qp",
    "test_rdmacm_async_reject_traffic",
    "test_rdmacm_async_read",
    "test_rdmacm_async_write",
    "test_rdmacm_async_udp_traffic",
    "test_rdmacm_async_multicast_traffic",
    "test_rdmacm_async_ex_multicast_traffic",
    "test_rdmacm_async_ex_leave_multicast_traffic",
    "test_mw_type1",
    "test_invalidate_mw_type1",
    "test_mw_type2",
    "test_mw_type2_invalidate_local",
    "test_mw_type2_invalidate_remote",
    "test_mw_type2_invalidate_dealloc",
    "test_reg_mw_wrong_type",
    "test_qp_ex_rc_bind_mw",
    "test_xrc_traffic_cq_ex",
    "test_xrc_atomic_fetch_and_add",
    "test_xrc_atomic_cmp_and_swap",
    "test_odp_xrc_traffic",
    "test_qp_ex_xrc_send",
    "test_qp_ex_xrc_send_imm",
    "test_ro_xrc_traffic",
    "test_qp_ex_rc_atomic_write",
    "test_without_allocators_rc_traffic",
    "test_mem_align_srq_excq_rc_traffic",
];

/// The permitted skips: the beginning of the test's reason, and an explanation. Any other skip is an error.
const SKIPS: [(&str, &str); 11] = [
    ("Link layer of port=1 is InfiniBand", "a test of RoCE"),
    ("All gid indices populated", "there is no empty GID"),
    (
        "Some object imports are not supported",
        "objects of another process's context: there are none (ibv_import_device)",
    ),
    ("Importing a device is not supported", "as above"),
    ("Must be run by root on Ethernet link layer", "raw packets, flows and RSS, which the device has not"),
    ("To Create RAW QP must be done by root", "raw packets"),
    ("Create QP type 8 is not supported", "raw packets"),
    ("Create Raw Packet QP", "raw packets"),
    ("Allocating dmabuf is not supported", "pyverbs makes dma-bufs on a graphics card alone"),
    ("There are no huge pages", "of the machine"),
    ("Extended CQ is not supported", "tag matching, which the device has not"),
];

#[test]
fn pyverbs() {
    let has_pyverbs = Command::new(PYTHON).args(["-c", "import pyverbs"]).output();
    if !Path::new(TESTS).is_dir() || !has_pyverbs.is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: python3-pyverbs or rdma-core's tests are not installed");
    }
    let directory = std::env::temp_dir().join(format!("doorbell-pyverbs-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    let script = "cp -r \"$1\" \"$2\" && find \"$2\" -name '*.gz' -exec gunzip -f {} +";
    let copied = Command::new("sh").args(["-c", script, "sh", TESTS]).arg(&directory).status();
    assert!(copied.is_ok_and(|status| status.success()), "the tests can be copied");
    let tests = directory.join("tests");
    let passed: usize = [Link::Ib, Link::Roce].map(|link| run(&tests, link)).iter().sum();
    std::fs::remove_dir_all(&directory).expect("the copy can be removed");
    assert!(passed >= 200, "{passed} tests passed with both links, 100 or more with each are known to");
}

/// Runs the tests. Returns the number of tests that passed.
fn run(tests: &Path, link: Link) -> usize {
    let mut command = common::command(&common::launch(link), Path::new(PYTHON), &[]);
    let search = format!("{}:{}", tests.display(), tests.parent().unwrap_or(tests).display());
    command.arg(tests.join("run_tests.py")).arg("-v").env("PYTHONPATH", search);
    command.args(MODULES.map(|module| format!("tests.test_{module}")));
    let output = common::finish(command.spawn().expect("python starts"), "the pyverbs tests");
    let said = common::text(&output);
    assert!(output.status.success(), "{said}");
    for name in NEEDED {
        // A test's name is followed by its module, perhaps its description, perhaps lines of the software
        // NIC, and the outcome.
        let after = said.split_once(&format!("{name} (")).map_or("", |(_, after)| after);
        let outcome = after.split_once(" ... ").map_or("", |(_, after)| after);
        let outcome = outcome.lines().find(|line| !line.starts_with("doorbell: ")).unwrap_or_default();
        assert_eq!(outcome, "ok", "{name} on {link:?}");
    }
    for reason in said.lines().filter_map(|line| line.split_once("skipped ")).map(|(_, reason)| reason) {
        let is_known = |(known, _): &(&str, &str)| reason[1..].starts_with(known);
        assert!(SKIPS.iter().any(is_known), "on {link:?} a test is skipped for no known reason: {reason}");
    }
    let number = |after: &str| {
        let at = said.rfind(after).map(|at| at + after.len()).unwrap_or(said.len());
        let digits: String = said[at..].chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<usize>().unwrap_or(0)
    };
    let (ran, skipped) = (number("\nRan "), number("skipped="));
    println!("{link:?}: {ran} ran, {skipped} skipped");
    ran - skipped
}
