//! Runs programs from Python wheels: NIXL, Mooncake, ibverbs, PeerCache and connex-rs. NIXL's wheel
//! contains a libibverbs under another name. `cargo xtask wheels` installs the wheels.

use super::{PORT, RUN, Ready, Run, pass};

/// The folder of the installed wheels, in cargo's target folder.
const FOLDER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../wheels");
const NIXL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/nixl.py");
const MOONCAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/mooncake.py");
const VERBS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/verbs.py");
const PEERCACHE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/peercache.py");
const CONNEX: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/connex.py");

const BASE: Run = Run { program: "/usr/bin/python3", ready: Ready::Alone, ..RUN };

pub(super) const RUNS: [Run; 5] = [
    Run {
        package: "nixl-cu12",
        client: &[NIXL, FOLDER],
        env: &[("UCX_TLS", "rc_v"), ("UCX_NET_DEVICES", "doorbell0:1")],
        bytes: 20 << 20,
        says: "20 WRITEs of 1048576 bytes",
        ..BASE
    },
    Run {
        package: "ibverbs",
        client: &[VERBS, FOLDER],
        bytes: 3 * 20 * 65536,
        says: "20 WRITEs, READs and SENDs of 65536 bytes",
        ..BASE
    },
    Run {
        package: "connex-rs",
        client: &[CONNEX, FOLDER],
        env: &[("UCX_TLS", "rc_v,self"), ("UCX_NET_DEVICES", "doorbell0:1")],
        bytes: 21 << 20,
        says: "10 WRITEs and READs of 1048576 bytes",
        ..BASE
    },
    Run {
        package: "mooncake-transfer-engine-non-cuda",
        client: &[MOONCAKE, FOLDER],
        bytes: 11 << 20,
        says: "10 WRITEs and a READ of 1048576 bytes",
        exits_at_once: true,
        ..BASE
    },
    Run {
        package: "peercache",
        client: &[PEERCACHE, FOLDER, PORT],
        bytes: 64 << 17,
        says: "64 values of 131072 bytes",
        ..BASE
    },
];

/// Packages that cannot switch off TCP, and use it if they find no device. So their runs also succeed without
/// the library. The counts of the NIC show that they used verbs.
const TCP_TOO: [&str; 2] = ["mooncake-transfer-engine-non-cuda", "peercache"];

/// The version of a wheel, if the wheel is installed. The name of its metadata folder contains the version.
pub(super) fn version(package: &str) -> Option<String> {
    let name = package.replace('-', "_");
    let entries = std::fs::read_dir(FOLDER).ok()?.flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut versions = names.filter_map(|folder| {
        Some(folder.strip_prefix(&name)?.strip_prefix('-')?.strip_suffix(".dist-info")?.to_owned())
    });
    versions.next()
}

#[test]
fn programs() {
    for run in RUNS {
        if version(run.package).is_none() {
            eprintln!("skipped: the wheel of {} is not there (cargo xtask wheels)", run.package);
        } else if TCP_TOO.contains(&run.package) {
            assert!(run.passes());
        } else {
            pass(&[run]);
        }
    }
}
