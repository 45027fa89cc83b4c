//! A C program makes calls by verbs.h whose answers drivers and the kernel agree on. The test is skipped
//! without a C compiler.

use crate::common::{command, compile, finish, installed, launch, text};
use doorbell_launch::Link;

#[test]
fn calls_are_answered_as_by_the_kernel() {
    if installed("cc").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    compile(folder.path(), "calls", include_str!("calls.c"), &["-libverbs"]);
    for link in [Link::Ib, Link::Roce] {
        let run = command(&launch(link), &folder.path().join("calls"), &[]).spawn().expect("it starts");
        let output = finish(run, "a program that makes calls");
        assert!(output.status.success(), "{link:?}: {}", text(&output));
    }
}
