//! Tests fabrics of processes that cannot access each other's memory. The processes are in several PID
//! namespaces and meet in a folder, or `--ptrace no` closes them. Tests skip namespaces if the machine does
//! not permit them.

use crate::common::own_time::{HANGS, OwnTime};
use crate::common::running::{Running, hear, role, say};
use crate::common::verbs::{Endpoint, Node, Retries, SIGNALED, Wr, call, to_lid};
use crate::common::{
    command, finish, free_port, installed, launch, leaves_something, own_program, text, wait_for_listener,
};
use doorbell_abi::{CEnum, ibv_comp_channel, ibv_cq};
use doorbell_launch::{Launch, Link, Ptrace};
use doorbell_verbs::{QpType, SendOp, WcStatus};
use libc::{c_int, c_void};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again, with a role for each process.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    let role = role();
    match role.split_whitespace().collect::<Vec<_>>()[..] {
        ["takes"] => take(),
        ["asks"] => ask(),
        ["stands"] => stand(),
        ["outlives"] => outlive(),
        ["waits"] => wait_for_stopped(),
        ["tires"] => tire(),
        ["lost"] => find_nobody(),
        ["counts"] => count(),
        ["counted"] => be_counted(),
        _ => panic!("no role {role:?}"),
    }
}

/// Offsets in the memory of each side: the source of messages, their target, the word for atomics, and the
/// target of READs.
const FROM: usize = 0;
const INTO: usize = 256 << 10;
const WORD: usize = 512 << 10;
const BACK: usize = WORD + 4096;
const BYTES: usize = BACK + (256 << 10);
/// Lengths of messages in bytes. They include two limits: the bytes that a completion carries (224), and the
/// bytes that a serving thread moves at a time (32 KiB).
const LENGTHS: [usize; 8] = [1, 8, 224, 225, 4096, 32 << 10, (32 << 10) + 1, 200_001];
/// Lengths of datagrams, and of their global route header, in bytes.
const DATAGRAMS: [usize; 3] = [100, 1000, 4096];
const HEADER: usize = 40;

/// The indexes of each side's QPs. `SLEEPS` has a CQ with a channel.
const RC: usize = 0;
const UD: usize = 1;
const SLEEPS: usize = 2;
const QPS: usize = 3;

/// The payload of a message of `len` bytes.
fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 251 + seed) as u8).collect()
}

fn put(node: &Node, at: usize, bytes: &[u8]) {
    for (n, byte) in bytes.iter().enumerate() {
        node.fill(at + n, 1, *byte);
    }
}

/// Creates a node and connects its QPs to the other side's QPs. Also returns the other side's endpoints, and
/// the channel and the CQ of the QP `SLEEPS`.
fn meet() -> (Node, Vec<Endpoint>, *mut ibv_comp_channel, *mut ibv_cq) {
    let mut node = Node::open(BYTES, 1);
    node.add_qp(QpType::Ud, node.cq, null_mut());
    let (channel, cq) = node.sleeping_cq(8);
    node.add_qp(QpType::Rc, cq, null_mut());
    (0..QPS).for_each(|qp| say(node.endpoint(qp)));
    let peers: Vec<Endpoint> = (0..QPS).map(|_| hear().parse().expect("an endpoint")).collect();
    (0..QPS).for_each(|qp| node.connect(qp, &peers[qp]));
    (node, peers, channel, cq)
}

/// Receives the messages of [`ask`], and then sleeps until a completion wakes it.
fn take() {
    let (node, _, channel, cq) = meet();
    // SAFETY: the context and the CQ are live.
    assert_eq!(unsafe { (*node.context).ops.req_notify_cq.expect("it is served")(cq, 0) }, 0);
    node.post_recv(SLEEPS, 1, &[(INTO, 8)]);
    say("ready");
    for len in LENGTHS {
        assert_eq!(hear(), "next");
        node.fill(INTO, len, 0);
        node.post_recv(RC, 1, &[(INTO, 1), (INTO + 1, len as u32)]);
        say("posted");
        let wc = node.completions(1)[0];
        assert_eq!(wc.byte_len as usize, len);
        assert!(node.read(INTO, len) == pattern(len, len), "a SEND of {len} bytes");
    }
    for len in DATAGRAMS {
        assert_eq!(hear(), "next");
        node.fill(INTO, len + HEADER, 0);
        node.post_recv(UD, 1, &[(INTO, (len + HEADER) as u32)]);
        say("posted");
        let wc = node.completions(1)[0];
        assert_eq!(wc.byte_len as usize, len + HEADER);
        assert!(node.read(INTO + HEADER, len) == pattern(len, len), "a datagram of {len} bytes");
    }
    assert_eq!(hear(), "next");
    node.post_recv(RC, 1, &[]);
    say("posted");
    let wc = node.completions(1)[0];
    assert_eq!((u32::from_be(wc.imm_data), wc.byte_len), (77, 5000));
    assert!(node.read(INTO, 5000) == pattern(5, 5000), "a WRITE with immediate");
    node.post_recv(RC, 1, &[]);
    say("sleeps");
    let (mut woken, mut context) = (null_mut(), null_mut());
    let got = call!(c"ibv_get_cq_event"(
        channel => *mut ibv_comp_channel, &raw mut woken => *mut *mut ibv_cq, &raw mut context => *mut *mut c_void
    ) -> c_int);
    assert_eq!((got, woken), (0, cq));
    say("woken");
    assert_eq!(hear(), "enough");
    // Meanwhile a WRITE of the other side has exceeded the region and moved the QP to Err.
    node.completion(WcStatus::WrFlushErr);
}

/// Uses all verbs on another process.
fn ask() {
    let (node, peers, ..) = meet();
    say("ready");
    assert_eq!(hear(), "go");
    let peer = peers[RC];
    for len in LENGTHS {
        put(&node, FROM, &pattern(len, len));
        node.fill(BACK, len, 0);
        node.carry_out(RC, SendOp::Write(peer.at(INTO)), &[(FROM, 1), (FROM + 1, len as u32 - 1)]);
        node.carry_out(RC, SendOp::Read(peer.at(INTO)), &[(BACK, len as u32 - 1), (BACK + len - 1, 1)]);
        assert!(node.read(BACK, len) == pattern(len, len), "a WRITE and READ of {len} bytes");
    }
    let list = |op: &dyn Fn(usize) -> SendOp, at: usize| {
        let buffers: Vec<[(usize, u32); 1]> = (0..32).map(|n| [(at + n * 100, 100)]).collect();
        let wrs: Vec<Wr<'_>> =
            (0..32).map(|n| Wr { op: op(n), buffers: &buffers[n], flags: SIGNALED }).collect();
        node.post(RC, &wrs);
        let order: Vec<u64> = node.completions(32).iter().map(|wc| wc.wr_id).collect();
        assert!(order.iter().copied().eq(0..32), "{order:?}");
    };
    put(&node, FROM, &pattern(3, 3200));
    node.fill(BACK, 3200, 0);
    list(&|n| SendOp::Write(peer.at(INTO + n * 100)), FROM);
    list(&|n| SendOp::Read(peer.at(INTO + n * 100)), BACK);
    assert!(node.read(BACK, 3200) == pattern(3, 3200), "lists");
    for before in 0..100 {
        node.carry_out(RC, SendOp::FetchAdd { remote: peer.at(WORD), add: 1 }, &[(FROM, 8)]);
        assert_eq!(node.first_word(), before);
    }
    for (compare, swap, found) in [(99, 5, 100), (100, 7, 100), (7, 8, 7)] {
        node.carry_out(RC, SendOp::CompareSwap { remote: peer.at(WORD), compare, swap }, &[(FROM, 8)]);
        assert_eq!(node.first_word(), found);
    }
    let send = |qp: usize, op: SendOp, len: usize, seed: usize| {
        put(&node, FROM, &pattern(seed, len));
        say("next");
        assert_eq!(hear(), "posted");
        let to = (qp == UD).then(|| (node.ah(to_lid(peers[UD].lid)), peers[UD].qpn));
        node.post_to(qp, &[Wr { op, buffers: &[(FROM, len as u32)], flags: SIGNALED }], to);
        node.completions(1);
    };
    for len in LENGTHS {
        send(RC, SendOp::Send, len, len);
    }
    for len in DATAGRAMS {
        send(UD, SendOp::Send, len, len);
    }
    send(RC, SendOp::WriteWithImm(peer.at(INTO), 77), 5000, 5);
    say("done");
    assert_eq!(hear(), "wake");
    node.post(SLEEPS, &[Wr { op: SendOp::Send, buffers: &[(FROM, 8)], flags: 0 }]);
    // The WRITE exceeds the region. Both processes print the error.
    node.carry_out_failing(RC, SendOp::Write(peer.at(BYTES - 4)), &[(FROM, 8)], WcStatus::RemAccessErr);
    assert_eq!(hear(), "enough");
}

impl Node {
    fn carry_out_failing(&self, qp: usize, op: SendOp, buffers: &[(usize, u32)], status: WcStatus) {
        self.post(qp, &[Wr { op, buffers, flags: SIGNALED }]);
        self.completion(status);
    }
}

/// The arguments of unshare(1) that run a program in a new PID namespace.
const UNSHARE: [&str; 4] = ["-p", "-m", "-f", "--mount-proc"];

/// Whether this process may create PID namespaces.
fn can_unshare() -> bool {
    if installed("unshare").is_none() {
        return false;
    }
    let tried = Command::new("unshare").args(UNSHARE).arg("true").output().expect("it starts");
    if !tried.status.success() {
        eprintln!("skipped: no namespace of process numbers: {}", text(&tried).trim());
    }
    tried.status.success()
}

/// The command in a new PID namespace if `apart`, otherwise the command unchanged.
fn placed(command: Command, apart: bool) -> Command {
    if !apart {
        return command;
    }
    let mut by = Command::new("unshare");
    by.args(UNSHARE).arg(command.get_program()).args(command.get_args());
    by.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    by.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    by
}

fn start(launch: &Launch, role: &str, apart: bool) -> Running {
    Running::of(placed(own_program(launch, HERE, role), apart))
}

/// Creates a folder. Returns a launch whose processes meet in the folder, and the folder.
fn joined(test: &str) -> (Launch, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("joined-{test}-{}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&folder).expect("a folder can be made");
    (Launch { meet: Some(folder.clone()), ..launch(Link::Ib) }, folder)
}

/// Asserts that the folder is empty after all processes have exited, and removes it.
fn is_left_empty(folder: &Path) {
    let left: Vec<_> = std::fs::read_dir(folder).expect("it is there").flatten().map(|e| e.path()).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
    std::fs::remove_dir(folder).expect("it is empty");
}

/// Runs both sides until they exit, and checks the line that each prints about its QP in error.
fn exchange(launch: &Launch, apart: [bool; 2], what: &str) {
    let (mut takes, mut asks) = (start(launch, "takes", apart[0]), start(launch, "asks", apart[1]));
    introduce(&mut takes, &mut asks, QPS);
    assert_eq!((takes.line().as_str(), asks.line().as_str()), ("ready", "ready"), "{what}");
    asks.tell("go");
    while asks.line() == "next" {
        takes.tell("next");
        assert_eq!(takes.line(), "posted", "{what}");
        asks.tell("posted");
    }
    assert_eq!(takes.line(), "sleeps", "{what}");
    asks.tell("wake");
    assert_eq!(takes.line(), "woken", "{what}");
    for mut side in [asks, takes] {
        side.tell("enough");
        let said = side.end(what);
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("doorbell: ")).collect();
        let [line] = lines[..] else { panic!("{what}: {said}") };
        assert!(
            line.contains("is in error") && line.contains("is not entirely within the region of rkey"),
            "{line}"
        );
        // The line names no PID if processes meet in a folder: PIDs of other namespaces mean nothing.
        assert_eq!(line.contains("of process "), launch.meet.is_none(), "{line}");
    }
}

/// Passes the endpoints of `qps` QPs from each side to the other.
fn introduce(one: &mut Running, other: &mut Running, qps: usize) {
    for _ in 0..qps {
        let (of_one, of_other) = (one.line(), other.line());
        one.tell(&of_other);
        other.tell(&of_one);
    }
}

#[test]
fn processes_that_meet_in_a_folder_are_one_fabric_in_whatever_namespaces() {
    let places: &[[bool; 2]] =
        if can_unshare() { &[[false; 2], [true; 2], [false, true]] } else { &[[false; 2]] };
    for apart in places {
        for private_buffers in [false, true] {
            let what = format!("namespaces of their own: {apart:?}, private buffers: {private_buffers}");
            let (launch, folder) = joined("exchange");
            exchange(&Launch { private_buffers, ..launch }, *apart, &what);
            is_left_empty(&folder);
        }
    }
}

#[test]
fn a_closed_process_serves_its_peers_by_its_own_thread() {
    for private_buffers in [false, true] {
        let closed = Launch { ptrace: Ptrace::No, private_buffers, ..launch(Link::Ib) };
        exchange(&closed, [false; 2], "closed");
        assert!(!leaves_something(&closed.fabric.unwrap_or_default()));
    }
}

/// Offers memory to a peer. Prints the first word when the test asks for it.
fn stand() {
    let node = Node::open(BYTES, 1);
    say(node.endpoint(0));
    node.connect(0, &hear().parse().expect("an endpoint"));
    say(std::fs::read_link("/proc/self").expect("a process").display());
    while hear() == "word" {
        say(node.first_word());
    }
}

/// Posts to a process that the test kills meanwhile.
fn outlive() {
    let node = Node::open(BYTES, 1);
    say(node.endpoint(0));
    let peer: Endpoint = hear().parse().expect("an endpoint");
    // The retries take two seconds. On a busy machine, the peer may answer the first request late.
    node.connect_with(0, &peer, Retries { timeout: 16, retry_cnt: 7, rnr_retry: 0 });
    node.carry_out(0, SendOp::FetchAdd { remote: peer.at(0), add: 1 }, &[(8, 8)]);
    say("met");
    assert_eq!(hear(), "killed");
    let begin = OwnTime::start();
    let add = Wr { op: SendOp::FetchAdd { remote: peer.at(0), add: 1 }, buffers: &[(8, 8)], flags: SIGNALED };
    // Requests still succeed until this process notices the peer's exit, because the shared memory stays.
    let status = loop {
        node.post(0, std::slice::from_ref(&add));
        let wc = loop {
            if let Some(wc) = node.poll() {
                break wc;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        if wc.status != WcStatus::Success.to_c() {
            break wc.status;
        }
    };
    assert_eq!(status, WcStatus::RetryExcErr.to_c());
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[test]
fn a_peer_that_is_killed_does_not_answer_any_more() {
    let apart = can_unshare();
    for private_buffers in [false, true] {
        let (launch, folder) = joined("killed");
        let launch = Launch { private_buffers, ..launch };
        let (mut stands, mut outlives) = (start(&launch, "stands", apart), start(&launch, "outlives", apart));
        introduce(&mut stands, &mut outlives, 1);
        assert_eq!(outlives.line(), "met");
        kill_program(&stands, libc::SIGKILL);
        let _ = stands.child.wait();
        outlives.tell("killed");
        outlives.end("the other");
        is_left_empty(&folder);
    }
}

/// Sends a signal to the program. If unshare(1) started the program, the program is unshare's child. Waits
/// until a SIGSTOP takes effect.
fn kill_program(running: &Running, signal: c_int) {
    let children = format!("/proc/{0}/task/{0}/children", running.child.id());
    let child = std::fs::read_to_string(children).ok();
    let child = child.and_then(|all| all.split_whitespace().next().and_then(|pid| pid.parse().ok()));
    let pid = child.unwrap_or(running.child.id() as i32);
    // SAFETY: the call takes only numbers.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    let begin = Instant::now();
    while signal == libc::SIGSTOP && !is_stopped(pid) {
        assert!(begin.elapsed() < HANGS, "it does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether all threads of a process are stopped. SIGSTOP does not stop all threads at the same moment.
fn is_stopped(pid: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it is there").flatten();
    threads.map(|thread| std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default()).all(
        |stat| {
            // The name before the state may contain spaces and parentheses.
            stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
        },
    )
}

/// Posts to a stopped process, and polls. Asserts that neither call waits for the process.
fn wait_for_stopped() {
    let node = Node::open(BYTES, 1);
    say(node.endpoint(0));
    let peer: Endpoint = hear().parse().expect("an endpoint");
    // The retries take eight seconds, which is longer than the process is stopped.
    node.connect_with(0, &peer, Retries { timeout: 18, retry_cnt: 7, rnr_retry: 7 });
    let add = Wr { op: SendOp::FetchAdd { remote: peer.at(0), add: 1 }, buffers: &[(8, 8)], flags: SIGNALED };
    node.post(0, std::slice::from_ref(&add));
    node.completions(1);
    say("met");
    assert_eq!(hear(), "stopped");
    let mut longest = Duration::ZERO;
    let mut own = OwnTime::start();
    let mut timed = |act: &mut dyn FnMut()| {
        let begin = Instant::now();
        act();
        // The thread's own time is read only after a call of more than a millisecond.
        if begin.elapsed() > Duration::from_millis(1) {
            longest = longest.max(begin.elapsed().min(own.elapsed()));
            own = OwnTime::start();
        }
    };
    timed(&mut || node.post(0, std::slice::from_ref(&add)));
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        timed(&mut || assert!(node.poll().is_none(), "it is stopped"));
    }
    timed(&mut || node.post(0, std::slice::from_ref(&add)));
    assert!(longest < Duration::from_millis(100), "a call has taken {longest:?}");
    say("waits");
    node.completions(2);
    say("goes on");
    assert_eq!(hear(), "enough");
}

/// Posts to a process that is stopped for longer than the retries take.
fn tire() {
    let node = Node::open(BYTES, 1);
    say(node.endpoint(0));
    let peer: Endpoint = hear().parse().expect("an endpoint");
    // The retries take a second. On a busy machine, the peer may answer the first request late.
    node.connect_with(0, &peer, Retries { timeout: 16, retry_cnt: 3, rnr_retry: 0 });
    let write = SendOp::Write(peer.at(INTO));
    node.carry_out(0, write, &[(FROM, 8)]);
    say("met");
    assert_eq!(hear(), "stopped");
    node.carry_out_failing(0, write, &[(FROM, 8)], WcStatus::RetryExcErr);
}

#[test]
fn that_a_process_does_not_answer_is_said() {
    let closed = Launch { ptrace: Ptrace::No, private_buffers: true, ..launch(Link::Ib) };
    let (mut stands, mut tires) = (start(&closed, "stands", false), start(&closed, "tires", false));
    introduce(&mut stands, &mut tires, 1);
    stands.line();
    assert_eq!(tires.line(), "met");
    kill_program(&stands, libc::SIGSTOP);
    tires.tell("stopped");
    let said = tires.end("who tires");
    assert!(said.contains("has not answered: the thread is stopped, or gets no processor"), "{said}");
    kill_program(&stands, libc::SIGCONT);
    stands.tell("enough");
    stands.end("who was stopped");
}

#[test]
fn nobody_waits_for_a_process_that_is_stopped_and_an_atomic_is_done_once() {
    let apart = can_unshare();
    let (launch, folder) = joined("stopped");
    let launch = Launch { private_buffers: true, ..launch };
    let (mut stands, mut waits) = (start(&launch, "stands", apart), start(&launch, "waits", apart));
    introduce(&mut stands, &mut waits, 1);
    stands.line();
    assert_eq!(waits.line(), "met");
    kill_program(&stands, libc::SIGSTOP);
    waits.tell("stopped");
    assert_eq!(waits.line(), "waits");
    kill_program(&stands, libc::SIGCONT);
    assert_eq!(waits.line(), "goes on");
    stands.tell("word");
    assert_eq!(stands.line(), "3", "one before, and two while it was stopped");
    waits.tell("enough");
    waits.end("who waits");
    stands.tell("enough");
    stands.end("who was stopped");
    is_left_empty(&folder);
}

/// The rounds of [`count`] on each of its QPs.
const ROUNDS: usize = 60;
const COUNTERS: usize = 3;

/// Posts FETCH_ADDs, WRITEs, SENDs and READs on several QPs while the test stops either side at any time. The
/// other side must see each request once.
fn count() {
    let node = Node::open(BYTES, COUNTERS);
    (0..COUNTERS).for_each(|qp| say(node.endpoint(qp)));
    let peers: Vec<Endpoint> = (0..COUNTERS).map(|_| hear().parse().expect("an endpoint")).collect();
    for (qp, peer) in peers.iter().enumerate() {
        // The first QP retries less often, so its requests may be answered between retries of other QPs.
        let timeout = if qp == 0 { 16 } else { 14 };
        node.connect_with(qp, peer, Retries { timeout, retry_cnt: 7, rnr_retry: 7 });
    }
    say("met");
    let len = 100_000;
    put(&node, INTO, &pattern(1, len));
    for _ in 0..ROUNDS {
        for (qp, peer) in peers.iter().enumerate() {
            let add = SendOp::FetchAdd { remote: peer.at(0), add: 1 };
            let write = SendOp::Write(peer.at(INTO + qp));
            let read = SendOp::Read(peer.at(INTO + qp));
            node.post(
                qp,
                &[
                    Wr { op: add, buffers: &[(8, 8)], flags: SIGNALED },
                    Wr { op: write, buffers: &[(INTO, len as u32 - 8)], flags: SIGNALED },
                    Wr { op: SendOp::Send, buffers: &[(INTO, 1000)], flags: SIGNALED },
                    Wr { op: read, buffers: &[(BACK, 40_000)], flags: SIGNALED },
                    Wr { op: add, buffers: &[(8, 8)], flags: SIGNALED },
                ],
            );
        }
        node.completions(5 * COUNTERS);
    }
    say("done");
    assert_eq!(hear(), "enough");
}

/// Receives the messages of [`count`], and checks their number.
fn be_counted() {
    let node = Node::open(BYTES, COUNTERS);
    (0..COUNTERS).for_each(|qp| say(node.endpoint(qp)));
    for qp in 0..COUNTERS {
        node.connect(qp, &hear().parse().expect("an endpoint"));
        node.post_recv(qp, 8, &[(4096, 1000)]);
    }
    say("ready");
    for _ in 0..ROUNDS * COUNTERS {
        let wc = node.completions(1)[0];
        assert_eq!(wc.byte_len, 1000);
        let qp = (0..COUNTERS).find(|qp| node.endpoint(*qp).qpn == wc.qp_num).expect("a QP");
        node.post_recv(qp, 1, &[(4096, 1000)]);
    }
    assert_eq!(hear(), "enough");
    assert!(node.poll().is_none(), "more has come");
    assert_eq!(node.first_word() as usize, 2 * ROUNDS * COUNTERS);
}

#[test]
fn whoever_is_stopped_whenever_each_request_is_carried_out_once() {
    for (joins, of) in [(false, "closed"), (true, "joined")] {
        let (joined, folder) = joined(&format!("stops-{of}"));
        let meet = joined.meet.clone().filter(|_| joins);
        let ptrace = if joins { Ptrace::Yes } else { Ptrace::No };
        let launch = Launch { meet, ptrace, private_buffers: true, ..joined };
        let (mut counted, mut counts) = (start(&launch, "counted", false), start(&launch, "counts", false));
        introduce(&mut counted, &mut counts, COUNTERS);
        assert_eq!((counted.line().as_str(), counts.line().as_str()), ("ready", "met"));
        let targets = [counted.child.id(), counts.child.id()];
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut nth = 0;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    // Some stops are longer than the requester's wait, and some are shorter.
                    let (target, span) = (targets[nth % 2] as c_int, [3, 70, 20, 1][nth / 2 % 4]);
                    // SAFETY: the call takes only numbers.
                    unsafe { libc::kill(target, libc::SIGSTOP) };
                    std::thread::sleep(Duration::from_millis(span));
                    // SAFETY: the call takes only numbers.
                    unsafe { libc::kill(target, libc::SIGCONT) };
                    std::thread::sleep(Duration::from_micros(300 * (nth % 7) as u64));
                    nth += 1;
                }
            });
            assert_eq!(counts.line(), "done");
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        for mut side in [counts, counted] {
            side.tell("enough");
            side.end(of);
        }
        is_left_empty(&folder);
    }
}

/// Sends to a process of another fabric, and asserts that the request fails.
fn find_nobody() {
    let node = Node::open(BYTES, 1);
    say(node.endpoint(0));
    let peer: Endpoint = hear().parse().expect("an endpoint");
    node.connect_with(0, &peer, Retries { timeout: 8, retry_cnt: 1, rnr_retry: 0 });
    node.post(0, &[Wr { op: SendOp::Write(peer.at(0)), buffers: &[(8, 8)], flags: SIGNALED }]);
    node.completion(WcStatus::RetryExcErr);
    say("lost");
}

#[test]
fn a_fabric_of_the_same_name_that_does_not_meet_there_is_another() {
    let (meets, folder) = joined("another");
    let alone = Launch { meet: None, ..meets.clone() };
    let (elsewhere, other_folder) = joined("elsewhere");
    let elsewhere = Launch { fabric: meets.fabric.clone(), ..elsewhere };
    let own = std::fs::metadata("/proc/self/ns/pid").expect("it is there").ino();
    let without_meet = format!("runs without --meet in PID namespace {own}.");
    // Doorbell prints the real path, although the folder of the tests may be behind a symbolic link.
    let whole = folder.canonicalize().expect("the folder is there");
    let with_meet = format!("runs with --meet {} --fabric", whole.display());
    let unknown = "The address belongs to no program that this process knows";
    let known = "The address belongs to programs that run without --meet in PID namespace";
    let other_option = "The address belongs to programs that run with another --fabric or --meet.";
    let mut pairs = vec![
        (&meets, &alone, false, [unknown, &without_meet]),
        (&meets, &elsewhere, false, [unknown, "runs with --meet"]),
        (&alone, &meets, false, [other_option, &with_meet]),
    ];
    if can_unshare() {
        pairs.push((&alone, &meets, true, [known, &with_meet]));
        pairs.push((&alone, &alone, true, [known, &without_meet]));
    }
    for (of_peer, own, apart, parts) in pairs {
        let (mut stands, mut lost) = (start(of_peer, "stands", apart), start(own, "lost", false));
        introduce(&mut stands, &mut lost, 1);
        assert_eq!(lost.line(), "lost");
        let said = lost.end("the lost one");
        for part in ["no port has the LID of the path", "one --meet FOLDER and one --fabric NAME"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(parts.iter().all(|part| said.contains(part)), "{parts:?}: {said}");
        stands.tell("enough");
        stands.end("the other");
    }
    is_left_empty(&folder);
    is_left_empty(&other_folder);
}

/// Runs a server and a client of perftest, each in a new PID namespace if `apart`.
fn measured(launch: &Launch, program: &str, arguments: &[&str], apart: bool) {
    let Some(file) = installed(program) else { return };
    let port = free_port();
    let number = port.to_string();
    let mut all = vec!["-p", &number];
    all.extend(arguments);
    let mut server =
        placed(command(launch, &file, &all), apart).stdout(Stdio::null()).spawn().expect("it starts");
    wait_for_listener(port, &mut server);
    all.push("localhost");
    let client = placed(command(launch, &file, &all), apart).spawn().expect("it starts");
    for (child, who) in [(client, "client"), (server, "server")] {
        let output = finish(child, who);
        assert!(output.status.success(), "{who} of {program}: {}", text(&output));
    }
}

#[test]
fn perftest_runs_across_namespaces() {
    let apart = can_unshare();
    for private_buffers in [false, true] {
        let (launch, folder) = joined("perftest");
        let launch = Launch { private_buffers, ..launch };
        measured(&launch, "ib_write_lat", &["-n", "1000", "-s", "64"], apart);
        measured(&launch, "ib_send_bw", &["-n", "200", "-s", "4096"], apart);
        measured(&launch, "ib_send_bw", &["-n", "200", "-s", "2048", "-c", "UD"], apart);
        measured(&launch, "ib_send_lat", &["-n", "200", "-s", "4096", "-e"], apart);
        is_left_empty(&folder);
    }
}
