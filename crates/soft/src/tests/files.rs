//! Tests how this process finds out whether peers live, and how it opens files of peers.

use crate::fabric::process::Process;

#[test]
fn this_process_lives() {
    let process = Process::current().expect("this process can use the device");
    // The kernel does not report this process's own locks.
    assert!(process.has_peer(process.qp_num(1)));
}
