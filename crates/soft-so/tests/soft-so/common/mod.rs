//! Helpers that run unmodified programs on the library of this workspace.

pub(crate) mod cm;
mod hang;
pub(crate) mod own_time;
pub(crate) mod running;
pub(crate) mod verbs;

use self::hang::{Guard, LOOK};
use doorbell_launch::stats::Stats;
use doorbell_launch::{Launch, Link};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The path of the library, built with the profile of the tests. Cargo does not build a cdylib for its tests,
/// so this function builds it. It also builds the launcher and the program `native-test`.
pub(crate) fn library() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a file");
    let profile = test.parent().and_then(Path::parent).expect("it lies in PROFILE/deps");
    let target = profile.parent().expect("the profile lies in the target directory");
    let mut cargo = Command::new(env!("CARGO"));
    // Builds the whole workspace, so that dependencies have the features of `cargo test --workspace`. With
    // other features, cargo would build all dependencies of the library again.
    cargo.args(["build", "--quiet", "--workspace", "--lib", "--example", "native-test", "--bin", "doorbell"]);
    cargo.arg("--target-dir").arg(target);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
    assert!(status.success(), "the library is built");
    profile.join("libibverbs.so")
}

/// An environment variable that says that the packages of all programs are installed. Then no test may be
/// skipped.
pub(crate) const INSTALLED: &str = "DOORBELL_PROGRAMS";

/// The path of a program, if it is installed. Only root has the folders for programs of the system in `PATH`.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let found = folders.map(|dir| dir.join(program)).find(|file| file.is_file());
    if found.is_none() {
        assert!(std::env::var_os(INSTALLED).is_none(), "{program} is not there, though its package is");
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// Whether a file of a package is installed.
pub(crate) fn installed_file(path: &str) -> bool {
    let found = Path::new(path).exists();
    if !found {
        assert!(std::env::var_os(INSTALLED).is_none(), "{path} is not there, though its package is");
        eprintln!("skipped: {path} is not installed");
    }
    found
}

/// Compiles a C source to the program `name` in a folder.
pub(crate) fn compile(folder: &Path, name: &str, source: &str, arguments: &[&str]) {
    let file = format!("{name}.c");
    std::fs::write(folder.join(&file), source).expect("it can be written");
    let mut compiler = Command::new("cc");
    compiler.current_dir(folder).args(["-o", name, &file]).args(arguments);
    let output = compiler.output().expect("the compiler runs");
    assert!(output.status.success(), "{name}: {}", text(&output));
}

/// A launch on a fabric that no other launch has.
pub(crate) fn launch(link: Link) -> Launch {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let fabric = Some(format!("test-{}-{number}", std::process::id()));
    Launch { link, library: Some(library()), fabric, ..Launch::default() }
}

/// A command that launches the program with pipes for its output and no input.
pub(crate) fn command(launch: &Launch, program: &Path, arguments: &[&str]) -> Command {
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    let mut command = launch.command(program.as_os_str(), &arguments).expect("it can be launched");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    command
}

/// The arguments with which this executable runs one ignored test of a module as a program. `module` is the
/// test's `module_path!()`.
pub(crate) fn one_test(module: &str, test: &str) -> [String; 5] {
    // The test harness omits the crate's name.
    let (_, module) = module.split_once("::").expect("tests are in modules");
    let name = format!("{module}::{test}");
    ["--exact", &name, "--ignored", "--nocapture", "--test-threads=1"].map(str::to_owned)
}

/// A command that runs this executable as a module's program: the module's test `program`, in this role.
pub(crate) fn own_program(launch: &Launch, module: &str, role: &str) -> Command {
    let file = std::env::current_exe().expect("the test has a file");
    let arguments = one_test(module, "program");
    let mut command = command(launch, &file, &arguments.each_ref().map(String::as_str));
    command.env(ROLE, role);
    command
}

/// The environment variable that names the role of a test's own program.
pub(crate) const ROLE: &str = "DOORBELL_TEST_ROLE";

/// A TCP port on which nothing listens, and which no other test of this process gets. The port is below the
/// kernel's range of ephemeral ports, so no client can take it before the server does.
pub(crate) fn free_port() -> u16 {
    const PORTS: std::ops::Range<u32> = 10_000..32_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(101);
    loop {
        let number = first.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed)) % PORTS.len() as u32;
        let port = (PORTS.start + number) as u16;
        // Tests both address families, because programs listen on either. On a machine without IPv6, the
        // bind fails with another error, which means that the port is free.
        let in_use = |address: &str| {
            let bound = std::net::TcpListener::bind((address, port));
            bound.is_err_and(|why| why.kind() == std::io::ErrorKind::AddrInUse)
        };
        if !in_use("::") && !in_use("0.0.0.0") {
            return port;
        }
        assert!(TAKEN.load(Ordering::Relaxed) < PORTS.len() as u32, "all ports are taken");
    }
}

/// Waits until a server listens on the port.
pub(crate) fn wait_for_listener(port: u16, server: &mut Child) {
    let wanted = format!(":{port:04X}");
    wait_until_ready(server, || {
        ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
            let text = std::fs::read_to_string(table).unwrap_or_default();
            text.lines().any(|line| {
                let mut fields = line.split_whitespace();
                let local = fields.nth(1).unwrap_or_default();
                local.ends_with(&wanted) && fields.nth(1) == Some("0A")
            })
        })
    });
}

/// Waits until `listens` returns true. Panics if the server exits or hangs.
pub(crate) fn wait_until_ready(server: &mut Child, listens: impl Fn() -> bool) {
    let (mut guard, mut looked) = (Guard::of(server.id()), Instant::now());
    while !listens() {
        if let Ok(Some(status)) = server.try_wait() {
            let mut text = String::new();
            if let Some(mut errors) = server.stderr.take() {
                let _ = std::io::Read::read_to_string(&mut errors, &mut text);
            }
            panic!("the server ended at once: {status}: {text}");
        }
        if looked.elapsed() > LOOK {
            assert!(!guard.is_hang(), "the server does not listen");
            looked = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the program exits, and kills it if it hangs. Panics if a signal killed the program.
pub(crate) fn finish(child: Child, what: &str) -> Output {
    let output = output_of(child);
    assert!(output.status.code().is_some(), "{what} was killed as it hung: {}", text(&output));
    output
}

/// Kills a process, and its process group if the process leads one. A process that outlives its parent may
/// keep the parent's output open.
fn kill(id: u32) {
    let _ = Command::new("kill").args(["-9", &id.to_string(), "--", &format!("-{id}")]).status();
}

/// Waits until the program exits or is killed, and kills it if it hangs.
pub(crate) fn output_of(child: Child) -> Output {
    let id = child.id();
    let (ended, hears) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        let mut guard = Guard::of(id);
        while hears.recv_timeout(LOOK) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            if guard.is_hang() {
                return kill(id);
            }
        }
    });
    let output = child.wait_with_output().expect("its output can be read");
    drop(ended);
    guard.join().expect("the guard does not panic");
    output
}

/// Waits for a program that prints a line for each of its steps. Each line counts as progress. Panics if the
/// program hangs.
pub(crate) fn finish_steps(mut child: Child, what: &str) -> Output {
    let (prints, hears) = std::sync::mpsc::channel::<(bool, Vec<u8>)>();
    let errors = prints.clone();
    let stdout = child.stdout.take().expect("standard output is a pipe");
    let stderr = child.stderr.take().expect("standard error is a pipe");
    let readers = [
        std::thread::spawn(move || send_lines(stdout, &|line| prints.send((false, line)).is_ok())),
        std::thread::spawn(move || send_lines(stderr, &|line| errors.send((true, line)).is_ok())),
    ];
    let (mut output, mut hung) = ([Vec::new(), Vec::new()], false);
    let mut guard = Guard::of(child.id());
    loop {
        match hears.recv_timeout(LOOK) {
            Ok((is_error, line)) => {
                output[usize::from(is_error)].extend(line);
                guard.goes_on();
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) if !guard.is_hang() => {}
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                hung = true;
                kill(child.id());
            }
        }
    }
    readers.into_iter().for_each(|reader| reader.join().expect("no reader panics"));
    let status = child.wait().expect("it is our child");
    let [stdout, stderr] = output;
    let output = Output { status, stdout, stderr };
    assert!(!hung, "{what} was killed because it went on without printing anything: {}", text(&output));
    output
}

/// Calls `send` with each line of a pipe, until the pipe ends or `send` returns false.
fn send_lines(pipe: impl std::io::Read, send: &dyn Fn(Vec<u8>) -> bool) {
    let mut pipe = std::io::BufReader::new(pipe);
    let mut line = Vec::new();
    while std::io::BufRead::read_until(&mut pipe, b'\n', &mut line).is_ok_and(|read| read > 0) {
        if !send(std::mem::take(&mut line)) {
            return;
        }
    }
}

/// The program's standard output, then its standard error.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a server and a client with equal arguments, and asserts that both succeed. Returns the client's
/// output, or `None` if the program is not installed.
pub(crate) fn pair(launch: &Launch, program: &str, arguments: &[&str]) -> Option<String> {
    let file = installed(program)?;
    let port = free_port().to_string();
    let mut all = vec!["-p", &port];
    all.extend(arguments);
    let what = format!("{program} {}", all.join(" "));
    // Nothing reads the server's output while the server runs, and a full pipe would block it.
    let mut server = command(launch, &file, &all).stdout(Stdio::null()).spawn().expect("the server starts");
    wait_for_listener(port.parse().unwrap_or(0), &mut server);
    all.push("localhost");
    let client = command(launch, &file, &all).spawn().expect("the client starts");
    let client = finish(client, &what);
    let server = finish(server, &what);
    // perftest measures the processor's clock after its transfers. On a busy machine, the values may scatter
    // too much. Then it prints no report, and fails.
    let has_no_report = |output: &Output| text(output).contains("Can't produce a report");
    if !has_no_report(&client) && !has_no_report(&server) {
        assert!(client.status.success(), "client of {what}: {}", text(&client));
        assert!(server.status.success(), "server of {what}: {}", text(&server));
    }
    Some(text(&client))
}

/// Whether the directory of a fabric exists.
pub(crate) fn leaves_something(fabric: &str) -> bool {
    let entries = std::fs::read_dir("/dev/shm").expect("shared memory can be listed");
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().ends_with(fabric))
}

/// A launch with statistics, and a function that reads the statistics after the program has exited.
pub(crate) fn counting(name: &str, launch: Launch) -> (Launch, impl FnOnce() -> Value + use<>) {
    let name = format!("{name}-{}.json", std::process::id());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let stats = Stats { profile: "cib".into(), print: true, json: Some(file.clone()), ..Stats::default() };
    let read = move || {
        let written = std::fs::read_to_string(&file).expect("the JSON was written");
        std::fs::remove_file(&file).expect("it can be removed");
        serde_json::from_str(&written).expect("it is JSON")
    };
    (Launch { stats: Some(stats), ..launch }, read)
}

/// One count of a report for each QP, as a JSON array.
pub(crate) fn of_qps(report: &Value, key: &str) -> Value {
    report["qps"].as_array().expect("there are QPs").iter().map(|qp| qp[key].clone()).collect()
}
