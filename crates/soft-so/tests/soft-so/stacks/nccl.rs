//! Runs `net_ib.c`, a C program with the verbs calls of NCCL's network transport. NCCL itself needs graphics
//! cards.

use super::{RUN, Ready, Run};
use crate::common::{compile, installed};
use std::path::Path;

const HEADER: &str = "/usr/include/infiniband/verbs.h";

const NET_IB: Run = Run {
    program: "net_ib",
    ready: Ready::Alone,
    // The payload of 16 WRITEs, of the READ, and of the word that the receiver writes back.
    bytes: (1 << 20) + 4 + 8,
    says: "1048576 bytes have come",
    ..RUN
};

#[test]
fn what_its_network_does() {
    if installed("cc").is_none() || !Path::new(HEADER).exists() {
        return eprintln!("skipped: a compiler or {HEADER} is not there");
    }
    let folder = tempfile::tempdir().expect("a folder");
    compile(folder.path(), "net_ib", include_str!("net_ib.c"), &["-O1"]);
    let program = folder.path().join("net_ib");
    NET_IB.passes_as(&program, &program);
}
