//! What people run above verbs, unmodified: rdma_cm's programs, UCX, MPI, libfabric, fio. A run passes where the NIC itself has
//! counted at least the payload that the program says it moved, on the transport that it was told to use; every other way is
//! switched off, and without the library the same command must fail.
//!
//! `docs/programs.md` is made of the runs that are named here.

mod fio;
mod libfabric;
mod mpi;
mod nccl;
mod page;
mod perftest;
mod qperf;
mod rdmacm;
mod rspreload;
mod runtimes;
mod ucx;
mod wheels;

use crate::common::{
    finish, free_port, installed, launch, leaves_something, library, output_of, text, wait_for_listener,
    wait_until_ready,
};
use doorbell_launch::Link;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Stands in arguments for a port that nobody has.
const PORT: &str = "PORT";

/// How one sees that a server listens.
#[derive(Clone, Copy)]
enum Ready {
    /// In rdma_cm's port space of connections or of datagrams.
    Cm(&'static str),
    Tcp,
    /// It does not show; so long it takes at most.
    After(Duration),
    /// There is no server: the program starts all that it needs.
    Alone,
}

/// How a program is launched.
struct Launch {
    fabric: String,
    /// Where its counts are written to.
    counts: PathBuf,
}

/// A run of a program.
struct Run {
    /// Debian's package, or PyPI's.
    package: &'static str,
    program: &'static str,
    /// The server's program, where that is another one.
    served_by: Option<&'static str>,
    /// The arguments of the server, and of the client.
    server: &'static [&'static str],
    client: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    ready: Ready,
    /// Of the QPs that are to move the payload.
    transport: &'static str,
    /// As the arguments and what the program says have it.
    bytes: u64,
    /// What it says where it has done so.
    says: &'static str,
    /// What the client says that ends with an error at times, though all was done; empty for none.
    excuse: &'static str,
    /// Whether it ends by _exit(2), so that what it leaves is for the next to begin a fabric to clear away.
    exits_at_once: bool,
}

const RUN: Run = Run {
    package: "",
    program: "",
    served_by: None,
    server: &[],
    client: &[],
    env: &[],
    ready: Ready::Cm("tcp"),
    transport: "rc",
    bytes: 0,
    says: "",
    excuse: "",
    exits_at_once: false,
};

impl Run {
    /// The program, launched as a user does, or as it is.
    fn command(&self, program: &Path, launch: Option<&Launch>, arguments: &[&str], port: &str) -> Command {
        let mut command = match launch {
            Some(Launch { fabric, counts }) => {
                let mut run = Command::new(library().with_file_name("doorbell"));
                run.args(["run", "--fabric", fabric, "--stats-json"]).arg(counts).arg("--").arg(program);
                run
            }
            None => Command::new(program),
        };
        command.args(arguments.iter().map(|argument| argument.replace(PORT, port)));
        command.envs(self.env.iter().copied());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).process_group(0);
        command
    }

    /// What is run, as a shell would have it.
    fn line(&self) -> String {
        let env = self.env.iter().map(|(name, value)| format!("{name}={value} "));
        let arguments = self.client.iter().map(|argument| format!(" {argument}"));
        // Which port it is, and where a script lies, is no matter.
        let line: String = env.chain([self.program.to_owned()]).chain(arguments).collect();
        let line = line.replace(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/soft-so/stacks/"), "");
        line.replace(concat!(env!("CARGO_TARGET_TMPDIR"), "/../"), "target/")
    }

    fn waits(&self, fabric: &str, port: &str, server: &mut Child) {
        match self.ready {
            Ready::Cm(space) => wait_for_cm(fabric, space, server),
            Ready::Tcp => wait_for_listener(port.parse().unwrap_or(0), server),
            Ready::After(time) => std::thread::sleep(time),
            Ready::Alone => {}
        }
    }

    /// Runs it; `false` where the program is not installed.
    fn passes(&self) -> bool {
        let Some(program) = installed(self.program) else { return false };
        let Some(server) = installed(self.served_by.unwrap_or(self.program)) else { return false };
        self.passes_as(&program, &server);
        true
    }

    /// Runs it as these files.
    fn passes_as(&self, program: &Path, server: &Path) {
        let (what, port) = (self.line(), free_port().to_string());
        let fabric = launch(Link::Ib).fabric.unwrap_or_default();
        let folder = tempfile::tempdir().expect("a folder");
        let [to_server, to_client] = ["server.json", "client.json"]
            .map(|name| Launch { fabric: fabric.clone(), counts: folder.path().join(name) });
        let mut server = (!matches!(self.ready, Ready::Alone)).then(|| {
            let mut command = self.command(server, Some(&to_server), self.server, &port);
            let mut server = command.stdout(Stdio::null()).spawn().expect("the server starts");
            self.waits(&fabric, &port, &mut server);
            server
        });
        let client =
            self.command(program, Some(&to_client), self.client, &port).spawn().expect("the client starts");
        let client = finish(client, &what);
        let is_excused = !self.excuse.is_empty() && text(&client).contains(self.excuse);
        assert!(client.status.success() || is_excused, "{what}: {}", text(&client));
        assert!(text(&client).contains(self.says), "{what}: {}", text(&client));
        let mut leaves = self.exits_at_once;
        if let Some(server) = server.take() {
            let server = ended(server);
            // What some say when their client is gone is no matter; that one crashes is.
            assert!(server.is_none_or(|status| status.code().is_some()), "server of {what}");
            leaves |= server.is_none();
        }
        let moved = payload(folder.path(), self.transport);
        assert!(moved >= self.bytes, "{what}: {moved} bytes on {}, not {}", self.transport, self.bytes);
        assert!(leaves || !leaves_something(&fabric), "{what}: the fabric {fabric} is still there");
    }

    /// It does not work without the library: no kernel's device, no other transport does its work.
    fn fails_without_library(&self) {
        let Some(program) = installed(self.program) else { return };
        let Some(server) = installed(self.served_by.unwrap_or(self.program)) else { return };
        if Path::new("/sys/class/infiniband").exists() {
            return eprintln!(
                "{}: not tried without the library, as there is a kernel's device",
                self.program
            );
        }
        let port = free_port().to_string();
        let server = (!matches!(self.ready, Ready::Alone)).then(|| {
            let mut command = self.command(&server, None, self.server, &port);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the server starts")
        });
        let mut plain = self.command(&program, None, self.client, &port);
        let client = output_of(plain.spawn().expect("the client starts"));
        if let Some(server) = server {
            stop(server);
        }
        assert!(!client.status.success(), "{} without the library: {}", self.line(), text(&client));
    }
}

/// Runs all of a package; what fails without the library is the first.
fn pass(runs: &[Run]) {
    for run in runs {
        if !run.passes() {
            return;
        }
    }
    if let Some(first) = runs.first() {
        first.fails_without_library();
    }
}

/// Waits for a server that ends with its client; ends one that serves others.
fn ended(mut server: Child) -> Option<ExitStatus> {
    let status = ends_within(&mut server, Duration::from_secs(2));
    if status.is_none() {
        stop(server);
    }
    status
}

/// Ends a server that leads a group: asked first, as it may have started what is in none of that.
fn stop(mut server: Child) {
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        // SAFETY: a child of this test that leads a group, not waited for yet.
        unsafe { libc::kill(-(server.id() as i32), signal) };
        if ends_within(&mut server, Duration::from_secs(5)).is_some() {
            return;
        }
    }
    panic!("a server does not end");
}

fn ends_within(server: &mut Child, time: Duration) -> Option<ExitStatus> {
    let begin = Instant::now();
    while begin.elapsed() < time {
        if let Ok(Some(status)) = server.try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Waits until somebody listens in a port space of rdma_cm.
fn wait_for_cm(fabric: &str, space: &str, server: &mut Child) {
    let listens = || {
        let folders = std::fs::read_dir("/dev/shm").expect("it can be listed").flatten();
        let folder = folders.map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with(fabric));
        let files = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        let prefix = format!("cm-{space}-");
        files.into_iter().any(|file| file.file_name().to_string_lossy().starts_with(&prefix))
    };
    wait_until_ready(server, Duration::from_secs(30), listens);
}

/// Bytes that QPs of a transport were given to move, as the reports in a folder have it: one of each process that has used the
/// device, and perhaps one of all together, which has no QPs.
fn payload(folder: &Path, transport: &str) -> u64 {
    let files = std::fs::read_dir(folder).expect("it can be listed").flatten().map(|entry| entry.path());
    let of_file = |path| {
        let text = std::fs::read_to_string(path).expect("it can be read");
        let report: Value = serde_json::from_str(&text).expect("it is JSON");
        let qps = report["qps"].as_array().cloned().unwrap_or_default();
        let of_it = qps.into_iter().filter(|qp| qp["transport"] == transport);
        of_it.map(|qp| qp["payload_bytes"].as_u64().unwrap_or(0)).sum::<u64>()
    };
    files.map(of_file).sum()
}
