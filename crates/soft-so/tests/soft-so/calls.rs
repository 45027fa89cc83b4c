//! A C program makes calls by verbs.h whose answers drivers and the kernel agree on. The test is skipped
//! without a C compiler.

use crate::common::{command, compile, finish, installed, launch, text};
use doorbell_launch::strict::Strict;
use doorbell_launch::{Launch, Link};

/// Runs `calls.c` with these arguments by each launch, if a C compiler is installed.
fn all_are_answered(launches: &[Launch], arguments: &[&str]) {
    if installed("cc").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    compile(folder.path(), "calls", include_str!("calls.c"), &["-libverbs"]);
    for launch in launches {
        let run = command(launch, &folder.path().join("calls"), arguments).spawn().expect("it starts");
        let output = finish(run, "a program that makes calls");
        assert!(output.status.success(), "{:?}: {}", launch.link, text(&output));
    }
}

#[test]
fn calls_are_answered_as_by_the_kernel() {
    all_are_answered(&[Link::Ib, Link::Roce].map(launch), &[]);
}

/// In strict mode, the buffer of a READ is filled while the READ is outstanding. An aborted READ never is.
#[test]
fn an_aborted_list_leaves_memory_alone_in_strict_mode() {
    all_are_answered(&[Launch { strict: Some(Strict::Fail), ..launch(Link::Ib) }], &["lists"]);
}
