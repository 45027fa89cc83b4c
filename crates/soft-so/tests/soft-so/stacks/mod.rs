//! Runs popular unmodified programs above verbs, such as rdma_cm's programs, UCX, MPI, libfabric and QEMU. A
//! run passes if the software NIC counts at least the payload that the program reports, on the requested
//! transport. All other transports are switched off, and without the library the command must fail.
//!
//! `page` generates `docs/programs.md` from these runs.

mod fio;
mod libfabric;
mod machines;
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

use crate::common::own_time::HANGS;
use crate::common::{
    finish, free_port, installed, launch, leaves_something, library, output_of, text, wait_for_listener,
    wait_until_ready,
};
use doorbell_launch::Link;
use serde_json::Value;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A placeholder in arguments, which each run replaces by a free port.
const PORT: &str = "PORT";

/// How the test detects that a server listens.
#[derive(Clone, Copy)]
enum Ready {
    /// A file of the fabric shows a listener in this port space of rdma_cm, `tcp` or `udp`.
    Cm(&'static str),
    Tcp,
    /// Nothing shows it. The test waits for this time.
    After(Duration),
    /// The program needs no server: it starts all its processes itself.
    Alone,
}

/// The fabric of a launched program, and the file for its counts.
struct Launch {
    fabric: String,
    /// The file to which the program's counts are written.
    counts: PathBuf,
}

/// A run of a client and perhaps a server.
struct Run {
    /// The package of Debian or PyPI.
    package: &'static str,
    program: &'static str,
    /// The server's program, if it differs from the client's program.
    served_by: Option<&'static str>,
    /// Arguments of the server and of the client.
    server: &'static [&'static str],
    client: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    ready: Ready,
    /// Transport of the QPs that must move the payload.
    transport: &'static str,
    /// The payload bytes that the run moves at least, according to the arguments and the program's output.
    bytes: u64,
    /// Text that the client prints when it has moved the payload.
    says: &'static str,
    /// Text of an error with which the client may fail after it has done all its work. Empty if there is
    /// none.
    excuse: &'static str,
    /// Whether the program exits by _exit(2). Its fabric's files then stay until the next fabric begins.
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
    /// The command that runs the program, by `doorbell run` if there is a launch.
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

    /// The client's command line, as a user would type it.
    fn line(&self) -> String {
        let env = self.env.iter().map(|(name, value)| format!("{name}={value} "));
        let arguments = self.client.iter().map(|argument| format!(" {argument}"));
        // The script folder differs between machines, so the line leaves it out.
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

    /// Runs the client and its server. Returns false if a program is not installed.
    fn passes(&self) -> bool {
        let Some(program) = installed(self.program) else { return false };
        let Some(server) = installed(self.served_by.unwrap_or(self.program)) else { return false };
        self.passes_as(&program, &server);
        true
    }

    /// Runs these files as client and server, and checks their output and counts.
    fn passes_as(&self, program: &Path, server: &Path) {
        let (what, port) = (self.line(), free_port().to_string());
        let fabric = launch(Link::Ib).fabric.unwrap_or_default();
        let folder = tempfile::tempdir().expect("a folder");
        let [to_server, to_client] = ["server.json", "client.json"]
            .map(|name| Launch { fabric: fabric.clone(), counts: folder.path().join(name) });
        let errors_folder = tempfile::tempdir().expect("a folder");
        let mut server = (!matches!(self.ready, Ready::Alone)).then(|| {
            let mut command = self.command(server, Some(&to_server), self.server, &port);
            let errors = File::create(errors_folder.path().join("errors")).expect("it can be created");
            let mut server = command.stdout(Stdio::null()).stderr(errors).spawn().expect("the server starts");
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
            // A server may fail when its client has exited, but no signal may kill it.
            assert!(server.is_none_or(|status| status.code().is_some()), "server of {what}");
            leaves |= server.is_none();
            explains_nothing(
                &what,
                &std::fs::read_to_string(errors_folder.path().join("errors")).expect("text"),
            );
        }
        explains_nothing(&what, &text(&client));
        let moved = payload(folder.path(), self.transport);
        assert!(moved >= self.bytes, "{what}: {moved} bytes on {}, not {}", self.transport, self.bytes);
        assert!(leaves || !leaves_something(&fabric), "{what}: the fabric {fabric} is still there");
    }

    /// Asserts that the run fails without the library. The failure shows that the program needs the software
    /// NIC.
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

/// Asserts that the output has no line about a refused call. MPI may print a rank before the line.
fn explains_nothing(what: &str, output: &str) {
    let is_refused =
        |line: &&str| ["doorbell: ibv_", "doorbell: rdma_"].iter().any(|part| line.contains(part));
    let line = output.lines().find(is_refused);
    assert_eq!(line, None, "{what}");
}

/// Runs all programs of a package, then repeats the first run without the library. Stops at a program that is
/// not installed.
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

/// Returns the exit status of a server that exits within two seconds. Stops any other server, and returns
/// `None`.
fn ended(mut server: Child) -> Option<ExitStatus> {
    let status = ends_within(&mut server, Duration::from_secs(2));
    if status.is_none() {
        stop(server);
    }
    status
}

/// Stops a server and its process group. SIGTERM comes first, because the server may have to stop processes
/// outside its group.
fn stop(mut server: Child) {
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        // SAFETY: the child leads a process group and has not been waited for.
        unsafe { libc::kill(-(server.id() as i32), signal) };
        if ends_within(&mut server, HANGS).is_some() {
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

/// Waits until a server listens in a port space of rdma_cm.
fn wait_for_cm(fabric: &str, space: &str, server: &mut Child) {
    let listens = || {
        let folders = std::fs::read_dir("/dev/shm").expect("it can be listed").flatten();
        let folder = folders.map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with(fabric));
        let files = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        let prefix = format!("cm-{space}-");
        files.into_iter().any(|file| file.file_name().to_string_lossy().starts_with(&prefix))
    };
    wait_until_ready(server, listens);
}

/// The payload bytes of all work requests on QPs of a transport, according to the reports in a folder. Each
/// process that used the device writes a report. A report of all processes together has no QPs.
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
