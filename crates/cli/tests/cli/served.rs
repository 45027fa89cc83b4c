//! `doorbell run` refuses programs that the library cannot interpose on, in one line. It does not run them
//! without the device.

use crate::common::{doorbell, library, text};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn executable(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("it can be written");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("its mode can be set");
}

/// A program without the header that names its loader. It would print something if it ran.
fn without_loader() -> Vec<u8> {
    // Type and flags in the header that names the loader.
    const HEADER: [u8; 8] = [3, 0, 0, 0, 4, 0, 0, 0];
    let mut bytes = std::fs::read("/bin/echo").expect("it can be read");
    let at = bytes.windows(8).position(|part| part == HEADER).expect("it has a loader");
    bytes[at..at + 8].fill(0);
    bytes
}

#[test]
fn a_static_program_is_refused_and_not_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("echo");
    executable(&program, &without_loader());
    let script = folder.path().join("script");
    executable(&script, format!("#!{}\n", program.display()).as_bytes());
    for options in [&[][..], &["--stats"]] {
        for (name, what) in [(&program, ""), (&script, &*format!(" ({})", program.display()))] {
            let mut command = doorbell();
            command.arg("run").args(options).arg("--lib").arg(library()).arg("--").arg(name).arg("word");
            let output = command.output().expect("doorbell runs");
            let expected = format!(
                "doorbell: cannot run {}{what} on the software NIC: it is linked statically, so no loader \
                 can preload the library; link it dynamically with glibc (a Go program: with cgo)\n",
                name.display()
            );
            assert_eq!((text(&output), output.status.code()), (expected, Some(126)));
        }
    }
    // `doorbell run` finds a program by PATH, as a shell does.
    let mut command = doorbell();
    command.env("PATH", folder.path()).arg("run").arg("--lib").arg(library()).args(["--", "echo", "word"]);
    let output = command.output().expect("doorbell runs");
    assert_eq!(output.status.code(), Some(126), "{}", text(&output));
}

#[test]
fn what_is_no_program_ends_as_in_a_shell() {
    let run = |program: &OsStr| {
        let mut command = doorbell();
        command.arg("run").arg("--lib").arg(library()).arg("--").arg(program).output().expect("doorbell runs")
    };
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(run(folder.path().join("nothing").as_os_str()).status.code(), Some(127));
    // The shell runs a script without an interpreter line, as with execvp(3).
    let plain = folder.path().join("plain");
    executable(&plain, b"exit 3\n");
    assert_eq!(run(plain.as_os_str()).status.code(), Some(3));
    // Files that exist but cannot be run.
    std::fs::write(folder.path().join("data"), "").expect("it can be written");
    for name in [".", "data"] {
        assert_eq!(run(folder.path().join(name).as_os_str()).status.code(), Some(126), "{name}");
    }
    let dos = folder.path().join("dos");
    executable(&dos, b"#!/bin/sh\r\necho\r\n");
    let output = run(dos.as_os_str());
    let expected = format!(
        "doorbell: cannot run {}: its interpreter or loader \"/bin/sh\\r\" does not exist\n",
        dos.display()
    );
    assert_eq!((text(&output), output.status.code()), (expected, Some(126)));
}
