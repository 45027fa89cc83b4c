//! Runs a test's own programs, which exchange lines of text with the test.

use super::verbs::{Endpoint, Node};
use super::{ROLE, finish, launch, own_program, text};
use doorbell_launch::{Launch, Link};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Sets timers that kill this process if it uses a minute of processor time for each processor of the
/// machine, or if it runs for ten minutes.
pub(crate) fn end_in_time() {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as i64);
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let once =
        libc::itimerval { it_value: libc::timeval { tv_sec: 60 * processors, ..none }, it_interval: none };
    // SAFETY: the calls take numbers, and a struct that outlives them.
    unsafe {
        libc::setitimer(libc::ITIMER_PROF, &once, std::ptr::null_mut());
        libc::alarm(600);
    }
}

/// The role that the test gives to this program. Also sets the timers of [`end_in_time`].
pub(crate) fn role() -> String {
    end_in_time();
    std::env::var(ROLE).expect("a test says what to do")
}

/// A running program of a test, with its standard input and output.
pub(crate) struct Running {
    pub(crate) child: Child,
    says: BufReader<ChildStdout>,
    pub(crate) hears: ChildStdin,
}

impl Running {
    /// Starts a module's program in this role.
    pub(crate) fn new(launch: &Launch, module: &str, role: &str) -> Running {
        Running::of(own_program(launch, module, role))
    }

    /// Starts a command whose standard output and standard error are pipes.
    pub(crate) fn of(mut command: Command) -> Running {
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
        let says = BufReader::new(child.stdout.take().expect("it is piped"));
        let hears = child.stdin.take().expect("it is piped");
        Running { child, says, hears }
    }

    /// Returns the program's next line for the test. Skips lines of the test harness. Panics with the
    /// program's standard error if its output ends.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.says.read_line(&mut line).expect("it can be read");
            if read == 0 {
                let _ = self.child.wait();
                let mut errors = String::new();
                let stderr = self.child.stderr.as_mut().expect("it is piped");
                let _ = stderr.read_to_string(&mut errors);
                panic!("the program ended: {errors}");
            }
            // The harness may leave its own line unfinished before the program's line.
            if let Some(at) = line.find("> ") {
                return line[at + 2..].trim().to_owned();
            }
        }
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.hears, "{line}").expect("it listens");
    }

    /// Waits until the program exits with success. Returns the rest of its standard error.
    pub(crate) fn end(self, what: &str) -> String {
        drop(self.hears);
        let rest: Vec<String> = self.says.lines().map_while(Result::ok).collect();
        let output = finish(self.child, what);
        assert!(output.status.success(), "{what}: {}{}", rest.join("\n"), text(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

/// Runs a module's program, and asserts that it exits with success.
pub(crate) fn alone(link: Link, module: &str, role: &str) {
    let child = own_program(&launch(link), module, role).spawn().expect("it starts");
    let output = finish(child, role);
    assert!(output.status.success(), "{role}: {}", text(&output));
}

/// Prints a line for [`Running::line`] of the test.
pub(crate) fn say(line: impl std::fmt::Display) {
    println!("> {line}");
}

/// Reads a line that the test sends by [`Running::tell`].
pub(crate) fn hear() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("it can be read");
    line.trim().to_owned()
}

/// Sends a QP's endpoint to a peer, and returns the endpoint that the peer sends.
pub(crate) fn told(mut stream: &UnixStream, node: &Node, qp: usize) -> Endpoint {
    writeln!(stream, "{}", node.endpoint(qp)).expect("the peer listens");
    // Reads byte by byte, so that the next call gets the bytes behind the line.
    let (mut line, mut byte) = (Vec::new(), [0]);
    while stream.read_exact(&mut byte).is_ok() && byte != *b"\n" {
        line.extend(byte);
    }
    String::from_utf8_lossy(&line).parse().expect("the peer tells of its QP")
}

/// Exchanges endpoints with a peer and connects the QP. Returns the peer's endpoint.
pub(crate) fn exchanged(stream: &UnixStream, node: &Node, qp: usize) -> Endpoint {
    let peer = told(stream, node, qp);
    node.connect(qp, &peer);
    // The second exchange shows that the peer is ready too.
    told(stream, node, qp)
}
