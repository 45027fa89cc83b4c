//! Output in a terminal of 80 columns.

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

/// Output of a command in a terminal with this many columns.
fn in_terminal(columns: u16, args: &[&str]) -> String {
    let terminal =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("there are terminals");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("the terminal opens");
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).expect("the terminal has a size");
    let shown = ioctl_tiocgptpeer(&terminal, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        .expect("it has a peer");
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.env("DOORBELL_CACHE_DIR", "/dev/null/none").args(args);
    command.stdin(Stdio::null()).stdout(Stdio::from(shown)).stderr(Stdio::null());
    let mut child = command.spawn().expect("doorbell runs");
    // Once the last process that has the terminal exits, reading fails.
    drop(command);
    let (mut output, mut part, mut terminal) = (Vec::new(), [0; 4096], File::from(terminal));
    while let Ok(read @ 1..) = terminal.read(&mut part) {
        output.extend_from_slice(&part[..read]);
    }
    assert!(child.wait().expect("doorbell ends").success(), "{args:?}");
    String::from_utf8(output).expect("text").replace("\r\n", "\n")
}

const SMALL: [&str; 10] =
    ["--verb", "read", "--machines", "3", "--threads", "2", "--warmup", "10us", "--duration", "20us"];

#[test]
fn lines_fit_into_a_terminal_of_80_columns() {
    let sides = ["compare", "qps=1 signal-every=1", "qps=2 signal-every=1 size=1024"];
    for args in [
        &[][..],
        &["profiles"],
        &["profiles", "cib"],
        &[&["simulate", "--explain"], &SMALL[..]].concat(),
        &[&["limits"], &SMALL[..]].concat(),
        &[&sides[..], &SMALL].concat(),
        &["simulate", "--help"],
        &["simulate", "--system", "shuffle", "--help"],
        &["simulate", "--help-all"],
    ] {
        let text = in_terminal(80, args);
        assert!(text.lines().count() > 3, "{args:?}: {text}");
        if args.contains(&"--help") {
            assert!(text.lines().count() < 24, "{args:?}: {text}");
        }
        let is_command =
            |line: &str| line.trim_start().starts_with("doorbell ") || line.contains("  doorbell ");
        let long = text.lines().find(|line| line.chars().count() > 80 && !is_command(line));
        assert_eq!(long, None, "{args:?}");
    }
}

#[test]
fn a_wider_terminal_shows_what_a_file_gets() {
    let args = [&["limits"], &SMALL[..]].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_doorbell")).args(&args).output().expect("doorbell runs");
    assert_eq!(in_terminal(400, &args), String::from_utf8(output.stdout).expect("text"));
}
