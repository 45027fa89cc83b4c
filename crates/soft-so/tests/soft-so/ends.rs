//! Tests statistics of programs that do not exit by exit(3). Their launcher writes the statistics.

use crate::common::running::{exchanged, role, told};
use crate::common::verbs::{Endpoint, Node, SIGNALED, Wr, fork_init};
use crate::common::{ROLE, launch, one_test, text};
use doorbell_launch::stats::Stats;
use doorbell_launch::{Launch, Link};
use doorbell_verbs::SendOp;
use serde_json::Value;
use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// Environment variables of the test `launcher`: the file for the statistics, and the fabric.
const JSON: &str = "DOORBELL_TEST_JSON";
const FABRIC: &str = "DOORBELL_TEST_FABRIC";

/// The launcher of the test `program`. The launcher waits for the program and then exits.
#[test]
#[ignore = "a program that the other tests run"]
fn launcher() {
    let variable = |name| std::env::var(name).expect("a test says so");
    let stats =
        Stats { profile: "cib".into(), print: true, json: Some(variable(JSON).into()), ..Stats::default() };
    let launch = Launch { fabric: Some(variable(FABRIC)), stats: Some(stats), ..launch(Link::Ib) };
    let file = std::env::current_exe().expect("the test has a file");
    let arguments = one_test(HERE, "program").map(OsString::from);
    panic!("{}", launch.run(file.as_os_str(), &arguments));
}

/// The program that the tests start. It posts work requests and exits as its role demands.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    let role = role();
    if role == "serves" {
        serve();
    }
    let node = posts(7, 16);
    match &role[..] {
        "forks" => fork_and_be_killed(node),
        "execs" => {
            let file = std::env::current_exe().expect("the test has a file");
            let mut again = Command::new(file);
            panic!("{}", again.args(one_test(HERE, "program")).env(ROLE, "_exit").exec());
        }
        "outlives" => outlive(),
        end => end_by(end),
    }
}

/// Ends this process by a function of the C library, by a fault or by a signal.
fn end_by(end: &str) -> ! {
    // SAFETY: the call takes only numbers.
    unsafe {
        match end {
            "_exit" => libc::_exit(5),
            "abort" => libc::abort(),
            "fault" => {
                std::ptr::without_provenance::<u8>(8).read_volatile();
            }
            "exit" => libc::exit(6),
            signal => {
                libc::kill(libc::getpid(), signal.parse().expect("a signal"));
            }
        }
    }
    panic!("it should have ended by {end}");
}

/// Creates a node and posts `writes` WRITEs of `bytes` bytes in lists of two. An odd last WRITE is a list of
/// its own.
fn posts(writes: usize, bytes: u32) -> Node {
    let node = Node::open(4096, 2);
    let ends = [node.endpoint(0), node.endpoint(1)];
    node.connect(0, &ends[1]);
    node.connect(1, &ends[0]);
    let payload = [(0, bytes)];
    let write = || Wr { op: SendOp::Write(ends[1].at(2048)), buffers: &payload, flags: SIGNALED };
    for posted in (0..writes).step_by(2) {
        let list: Vec<Wr<'_>> = (posted..writes.min(posted + 2)).map(|_| write()).collect();
        node.post(0, &list);
        node.completions(list.len());
    }
    node
}

/// Forks two children that post. The first child calls `_exit`, and the second is killed. The parent then
/// posts again and is killed.
fn fork_and_be_killed(node: Node) -> ! {
    fork_init();
    for (end, writes) in [("_exit", 3), ("9", 4)] {
        // SAFETY: this process has no other thread that allocates.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let _own = posts(writes, 32);
            end_by(end);
        }
        let mut status = 0;
        // SAFETY: the child and the variable belong to this function.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    }
    let ends = [node.endpoint(0), node.endpoint(1)];
    node.carry_out(0, SendOp::Write(ends[1].at(2048)), &[(0, 64)]);
    end_by("9")
}

/// Forks a child and exits. The child posts and exits some time later.
fn outlive() -> ! {
    // SAFETY: this process has no other thread that allocates. Both processes end without unwinding.
    unsafe {
        if libc::fork() == 0 {
            let _own = posts(3, 32);
            // Sleeps for longer than the launcher waits for this child.
            std::thread::sleep(std::time::Duration::from_millis(2500));
            libc::exit(0);
        }
        libc::_exit(0)
    }
}

/// Runs a server and forks its two clients. Each client WRITEs 16 bytes at a time to the server, in lists of
/// two, and calls `_exit`. The server READs 64 bytes at a time from each client.
fn serve() -> ! {
    let client = || {
        let (here, there) = UnixStream::pair().expect("a pair of sockets");
        // SAFETY: this process has no other thread that allocates.
        match unsafe { libc::fork() } {
            0 => {
                let node = Node::open(4096, 1);
                let peer = exchanged(&there, &node, 0);
                (0..20).for_each(|_| post(&node, 0, SendOp::Write(peer.at(2048)), 2, 16));
                // The client exits only after the server's READs.
                told(&there, &node, 0);
                end_by("_exit")
            }
            _ => here,
        }
    };
    let clients = [client(), client()];
    let node = Node::open(4096, clients.len());
    let peers: Vec<Endpoint> =
        clients.iter().enumerate().map(|(qp, client)| exchanged(client, &node, qp)).collect();
    for (qp, peer) in peers.iter().enumerate() {
        (0..10).for_each(|_| post(&node, qp, SendOp::Read(peer.at(1024)), 1, 64));
    }
    for (qp, client) in clients.iter().enumerate() {
        told(client, &node, qp);
        // SAFETY: the call stores nothing, because the pointer is null.
        unsafe { libc::wait(std::ptr::null_mut()) };
    }
    end_by("exit")
}

/// Posts a list of `list` work requests of `bytes` bytes each, and waits for their completions.
fn post(node: &Node, qp: usize, op: SendOp, list: usize, bytes: u32) {
    let payload = [(0, bytes)];
    let wr = || Wr { op, buffers: &payload, flags: SIGNALED };
    node.post(qp, &(0..list).map(|_| wr()).collect::<Vec<_>>());
    node.completions(list);
}

/// Launches the program in this role. Returns the launcher's status and output, and the statistics of each
/// process.
fn launched(role: &str) -> (Output, Vec<Value>) {
    let (output, reports, _) = launched_together(role);
    (output, reports)
}

/// Launches the program like `launched`. Also returns the statistics of all processes together, if the
/// launcher wrote them.
fn launched_together(role: &str) -> (Output, Vec<Value>, Option<Value>) {
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ends-{}-{role}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    let mut command = Command::new(std::env::current_exe().expect("the test has a file"));
    command.args(one_test(HERE, "launcher")).env(ROLE, role).env(JSON, directory.join("stats.json"));
    command.env(FABRIC, launch(Link::Ib).fabric.expect("it has a name"));
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.spawn().expect("it starts").wait_with_output().expect("it can be heard");
    let mut reports = read(&directory);
    std::fs::remove_dir_all(&directory).expect("it can be removed");
    let is_of_several = reports.first().is_some_and(|report| report.get("processes").is_some());
    let together = is_of_several.then(|| reports.remove(0));
    (output, reports, together)
}

/// The reports in a directory. `stats.json` comes first.
fn read(directory: &Path) -> Vec<Value> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory).expect("it is there").flatten().map(|entry| entry.path()).collect();
    files.sort_by_key(|file| (file.file_name().is_some_and(|name| name != "stats.json"), file.clone()));
    let read = |file: PathBuf| std::fs::read_to_string(file).expect("it can be read");
    files.into_iter().map(|file| serde_json::from_str(&read(file)).expect("it is whole")).collect()
}

/// Work requests, bytes and doorbells in a report.
fn posted(report: &Value) -> [u64; 3] {
    ["work_requests", "payload_bytes", "doorbells"]
        .map(|key| report["total"][key].as_u64().expect("a number"))
}

#[test]
fn however_a_program_ends_each_work_request_is_told() {
    for (role, code, signal) in [
        ("exit", Some(6), None),
        ("_exit", Some(5), None),
        ("abort", None, Some(libc::SIGABRT)),
        ("fault", None, Some(libc::SIGSEGV)),
        ("9", None, Some(libc::SIGKILL)),
        ("15", None, Some(libc::SIGTERM)),
        ("10", None, Some(libc::SIGUSR1)),
        ("64", None, Some(64)),
    ] {
        let (output, reports) = launched(role);
        assert_eq!(
            (output.status.code(), output.status.signal()),
            (code, signal),
            "{role}: {}",
            text(&output)
        );
        let [report] = &reports[..] else { panic!("{role}: {} reports: {}", reports.len(), text(&output)) };
        assert_eq!(posted(report), [7, 7 * 16, 4], "{role}");
        assert_eq!(report["total"]["outstanding_max"], 2, "{role}");
        assert_eq!(report["qps"].as_array().map(Vec::len), Some(2), "{role}");
        let file = std::env::current_exe().expect("the test has a file");
        assert_eq!(report["program"].as_str(), file.to_str(), "{role}");
        assert_eq!(report["arguments"], Value::from(one_test(HERE, "program").to_vec()), "{role}");
        assert!(
            text(&output).contains("posted      7 RDMA_WRITE on 2 QPs, 112 bytes"),
            "{role}: {}",
            text(&output)
        );
    }
}

#[test]
fn each_process_has_statistics_of_its_own() {
    let (output, reports) = launched("forks");
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{}", text(&output));
    let mut all: Vec<[u64; 3]> = reports.iter().map(posted).collect();
    all.sort_unstable();
    assert_eq!(all, [[3, 96, 2], [4, 128, 2], [8, 7 * 16 + 64, 5]], "{}", text(&output));
}

#[test]
fn a_process_that_becomes_another_program_has_statistics_of_both() {
    let (output, reports) = launched("execs");
    assert_eq!(output.status.code(), Some(5), "{}", text(&output));
    assert_eq!(reports.iter().map(posted).collect::<Vec<_>>(), [[7, 112, 4]; 2], "{}", text(&output));
    assert_eq!(reports[0]["pid"], reports[1]["pid"]);
}

#[test]
fn a_process_that_outlives_the_program_tells_its_own() {
    let (output, reports) = launched("outlives");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    // The output ended only when the child had closed its standard error, so the child's report is complete.
    let mut all: Vec<[u64; 3]> = reports.iter().map(posted).collect();
    all.sort_unstable();
    assert_eq!(all, [[3, 96, 2], [7, 112, 4]], "{}", text(&output));
}

#[test]
fn several_processes_are_one_workload_with_roles() {
    let (output, reports, together) = launched_together("serves");
    assert_eq!(output.status.code(), Some(6), "{}", text(&output));
    assert_eq!(reports.len(), 3, "{}", text(&output));
    let together = together.expect("they are told together");
    let of_each = reports.iter().map(|report| posted(report)[0]).sum::<u64>();
    assert_eq!(posted(&together)[0], of_each, "{together}");
    let workload = &together["workload"];
    let [server, clients] = &workload["class"].as_array().expect("there are classes")[..] else {
        panic!("{together}")
    };
    let keys = ["verb", "transport", "size", "pattern", "batch", "qps", "threads"];
    let of = |class: &Value| keys.map(|key| class[key].clone());
    assert_eq!(Value::from(of(server).to_vec()), serde_json::json!(["read", "rc", 64, "outbound", 1, 2, 1]));
    assert_eq!(Value::from(of(clients).to_vec()), serde_json::json!(["write", "rc", 16, "inbound", 2, 1, 1]));
    assert_eq!((&workload["machines"], &together["workload_share"]), (&3.into(), &1.0.into()));
    let posts_to = |at: usize| together["processes"][at]["posts_to"].as_array().map(Vec::len);
    let mut degrees: Vec<_> = (0..3).map(posts_to).collect();
    degrees.sort_unstable();
    assert_eq!(degrees, [Some(1), Some(1), Some(2)], "{together}");
    assert!(
        text(&output).contains("3 processes together: workload of 3 machines, 2 classes"),
        "{}",
        text(&output)
    );
    assert!(text(&output).contains("left out    the dependency of replies on requests"), "{}", text(&output));
    // The children run one after the other, so the processes are not one workload.
    let (_, _, forks) = launched_together("forks");
    let forks = forks.expect("three processes made QPs");
    assert!(forks.get("workload").is_none(), "{forks}");
    let why = forks["left_out"][0].as_str().expect("it is said why");
    assert!(why.starts_with("everything: process ") && why.contains(" started after process "), "{why}");
    assert!(launched_together("exit").2.is_none(), "one process has a file of its own");
}
