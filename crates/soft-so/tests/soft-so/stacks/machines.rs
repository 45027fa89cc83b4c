//! Runs QEMU, which migrates a machine, and a disk of tgt, which qemu-io writes and reads by iSER.

use super::{PORT, RUN, Ready, Run, pass};
use crate::common::{installed, installed_file};

const MIGRATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/migrate.py");
const ISER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/iser.py");

/// QEMU's driver for iSCSI, in a package of its own.
const ISCSI: &str = "/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so";

const BASE: Run = Run { program: "/usr/bin/python3", ready: Ready::Alone, ..RUN };

pub(super) const RUNS: [Run; 2] = [
    Run {
        package: "qemu-system-x86",
        served_by: Some("qemu-system-x86_64"),
        client: &[MIGRATE],
        bytes: 1 << 20,
        says: "the machine has moved",
        ..BASE
    },
    Run {
        package: "tgt",
        served_by: Some("tgtd"),
        client: &[ISER, PORT],
        bytes: 2 * 16 * 65536,
        says: "16 writes and reads of 65536 bytes",
        exits_at_once: true,
        ..BASE
    },
];

#[test]
fn programs() {
    let [qemu, tgt] = RUNS;
    pass(&[qemu]);
    let has_programs = ["iscsi-inq", "qemu-io"].map(installed).iter().all(Option::is_some);
    if has_programs && installed_file(ISCSI) {
        pass(&[tgt]);
    }
}
