//! Runs a program of uDAPL, whose provider uses rdma_cm.

use super::{RUN, Run, pass};

pub(super) const RUNS: [Run; 1] = [Run {
    package: "dapl2-utils",
    program: "dtest",
    server: &["-P", "doorbell", "-b", "65536", "-B", "20", "-D", "-s"],
    client: &["-P", "doorbell", "-b", "65536", "-B", "20", "-D", "-h", "127.0.0.1"],
    env: &[("DAT_OVERRIDE", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/dat.conf"))],
    bytes: 2 * 1000 * 65536,
    says: "DAPL Test Complete. PASSED",
    ..RUN
}];

#[test]
fn programs() {
    pass(&RUNS);
}
