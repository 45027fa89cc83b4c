//! Tests the lines that explain why a program waits. `doorbell run` starts the programs, because it prints
//! the lines at a signal.

use crate::common::own_time::HANGS;
use crate::common::running::{end_in_time, hear, role};
use crate::common::verbs::{Endpoint, Node, Retries, SIGNALED, Wr, call};
use crate::common::{ROLE, library, one_test};
use doorbell_abi::{ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq, ibv_qp, ibv_srq, ibv_srq_attr};
use doorbell_verbs::{QpState, SendOp};
use libc::{c_int, c_void};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::ptr::null_mut;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again. The waiting process is a child with one thread.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    let role = role();
    if role == "handles" {
        handle_once();
    }
    // SAFETY: the child begins with this thread only, and uses no lock of another thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        wait_as(&role);
    }
    let mut status = 0;
    // SAFETY: the child is ours, and the variable is a local one.
    while unsafe { libc::waitpid(child, &mut status, 0) } != child {}
    if libc::WIFSIGNALED(status) {
        // The signal may have ended the child while this process handled its first SIGINT.
        // SAFETY: the functions take only numbers.
        unsafe {
            libc::signal(libc::WTERMSIG(status), libc::SIG_DFL);
            libc::raise(libc::WTERMSIG(status));
        }
    }
    std::process::exit(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 1 });
}

/// Waits as the role demands.
fn wait_as(role: &str) -> ! {
    // A child of fork(2) has no timers of its parent.
    end_in_time();
    match role {
        "unacknowledged" | "handles" => destroy_unacknowledged(1),
        "qp-event" => destroy_qp_with_event(),
        "srq-event" => destroy_srq_with_event(),
        "two-threads" => {
            std::thread::spawn(|| destroy_unacknowledged(2));
            loop {
                std::thread::park();
            }
        }
        "id" => destroy_id(),
        "rnr" => {
            let node = pair(Retries { rnr_retry: 7, ..RETRIES });
            node.post(0, &[Wr { op: SendOp::Send, buffers: &[(0, 8)], flags: SIGNALED }]);
            poll(&node)
        }
        "rnr-asleep" => {
            let node = pair(Retries { rnr_retry: 7, ..RETRIES });
            node.post(0, &[Wr { op: SendOp::Send, buffers: &[(0, 8)], flags: SIGNALED }]);
            loop {
                std::thread::park();
            }
        }
        "unsignalled" => poll(&unsignalled_pair()),
        "peer" => poll(&after_peer(false)),
        "peer-event" => {
            after_peer(true);
            unreachable!("no event comes");
        }
        "elsewhere" => {
            let node = Node::open(4096, 1);
            let lid = if node.lid == 1 { 2 } else { node.lid - 1 };
            node.connect(0, &Endpoint { lid, ..node.endpoint(0) });
            node.post_recv(0, 1, &[(0, 64)]);
            poll(&node)
        }
        "timeout" => poll(&request_of_gone()),
        "rightly" => wait_rightly(),
        "rightly-asleep" => wait_asleep(),
        "server" => {
            let _listens = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
            poll_for_a_time(&after_peer(false), Duration::ZERO)
        }
        "written" => {
            let mut node = unsignalled_pair();
            let (of_peer, _peer) = gone_peer();
            let qp = node.add_qp(doorbell_verbs::QpType::Rc, node.cq, null_mut());
            node.connect(qp, &of_peer);
            poll_for_a_time(&node, Duration::ZERO)
        }
        "seldom" => {
            let node = unsignalled_pair();
            // The helper thread starts.
            let (_, cq) = node.sleeping_cq(8);
            // SAFETY: the objects are live.
            unsafe { (*node.context).ops.req_notify_cq.expect("it is served")(cq, 0) };
            poll_for_a_time(&node, Duration::from_millis(300))
        }
        _ => panic!("no role {role:?}"),
    }
}

const RETRIES: Retries = Retries { timeout: 14, retry_cnt: 7, rnr_retry: 1 };

/// Two QPs of one process, connected with each other.
fn pair(retries: Retries) -> Node {
    let node = Node::open(4096, 2);
    for (qp, peer) in [(0, 1), (1, 0)] {
        node.connect_with(qp, &node.endpoint(peer), retries);
    }
    node
}

/// A pair whose only requests are done and unsignalled.
fn unsignalled_pair() -> Node {
    let node = pair(RETRIES);
    let to = node.endpoint(1).at(64);
    let write = || Wr { op: SendOp::Write(to), buffers: &[(0, 8)], flags: 0 };
    node.post(0, &[write(), write()]);
    node
}

/// Polls with these pauses for the time of several looks at all waits, and then waits for acknowledgements.
fn poll_for_a_time(node: &Node, pause: Duration) -> ! {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1800) {
        assert!(node.poll().is_none(), "nothing comes");
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    destroy_unacknowledged(1)
}

/// Polls for ever.
fn poll(node: &Node) -> ! {
    loop {
        assert!(node.poll().is_none(), "nothing comes");
    }
}

/// Two connected RC QPs at one CQ with a completion channel.
fn sleeping_pair() -> (Node, *mut ibv_comp_channel, *mut ibv_cq) {
    let mut node = Node::open(4096, 0);
    let (channel, cq) = node.sleeping_cq(8);
    (0..2).for_each(|_| {
        node.add_qp(doorbell_verbs::QpType::Rc, cq, null_mut());
    });
    node.connect(0, &node.endpoint(1));
    node.connect(1, &node.endpoint(0));
    (node, channel, cq)
}

/// Gets `events` events of a CQ without acknowledging them, and destroys the CQ.
fn destroy_unacknowledged(events: u32) -> ! {
    let (mut node, channel, cq) = sleeping_pair();
    for _ in 0..events {
        get_event(&node, channel, cq);
    }
    for qp in std::mem::take(&mut node.qps) {
        assert_eq!(call!(c"ibv_destroy_qp"(qp => *mut ibv_qp) -> c_int), 0);
    }
    call!(c"ibv_destroy_cq"(cq => *mut ibv_cq) -> c_int);
    unreachable!("the events are not acknowledged");
}

/// Destroys a QP, one of whose events is not acknowledged.
fn destroy_qp_with_event() -> ! {
    let mut node = Node::open(4096, 0);
    let srq = node.srq();
    let qp = node.add_qp(doorbell_verbs::QpType::Rc, node.cq, srq);
    node.connect(qp, &node.endpoint(qp));
    node.set_state(qp, QpState::Err);
    /// `IBV_EVENT_QP_LAST_WQE_REACHED`.
    const LAST_WQE_REACHED: u32 = 16;
    assert_eq!(async_event(&node), (LAST_WQE_REACHED, node.qps[qp].cast()));
    call!(c"ibv_destroy_qp"(node.qps[qp] => *mut ibv_qp) -> c_int);
    unreachable!("the event is not acknowledged");
}

/// Destroys an SRQ, one of whose events is not acknowledged.
fn destroy_srq_with_event() -> ! {
    let node = Node::open(4096, 0);
    let srq = node.srq();
    // The SRQ has fewer RECVs than this limit.
    let mut attr = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: 1 };
    /// `IBV_SRQ_LIMIT`, and `IBV_EVENT_SRQ_LIMIT_REACHED`.
    const LIMIT: c_int = 2;
    const LIMIT_REACHED: u32 = 15;
    let modified = call!(c"ibv_modify_srq"(
        srq => *mut ibv_srq, &raw mut attr => *mut ibv_srq_attr, LIMIT => c_int
    ) -> c_int);
    assert_eq!((modified, async_event(&node)), (0, (LIMIT_REACHED, srq.cast())));
    call!(c"ibv_destroy_srq"(srq => *mut ibv_srq) -> c_int);
    unreachable!("the event is not acknowledged");
}

/// Waits for an asynchronous event, and does not acknowledge it. Returns its type and its object.
fn async_event(node: &Node) -> (u32, *mut c_void) {
    let mut event = ibv_async_event { element: null_mut(), event_type: 0 };
    let got = call!(c"ibv_get_async_event"(
        node.context => *mut ibv_context, &raw mut event => *mut ibv_async_event
    ) -> c_int);
    assert_eq!(got, 0);
    (event.event_type, event.element)
}

/// Handles the next SIGINT. A later one ends the process.
fn handle_once() {
    extern "C" fn nothing(_: c_int) {}
    // SAFETY: the struct has integers and pointers, which may be zero.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as *const () as usize;
    action.sa_flags = libc::SA_RESETHAND;
    // SAFETY: the struct outlives the call, and the handler does nothing.
    assert_eq!(unsafe { libc::sigaction(libc::SIGINT, &action, null_mut()) }, 0);
}

/// Carries out a WRITE, and gets the event of its completion.
fn get_event(node: &Node, channel: *mut ibv_comp_channel, cq: *mut ibv_cq) {
    // SAFETY: the objects are live.
    unsafe { (*node.context).ops.req_notify_cq.expect("it is served")(cq, 0) };
    let op = SendOp::Write(node.endpoint(1).at(64));
    node.post(0, &[Wr { op, buffers: &[(0, 8)], flags: SIGNALED }]);
    wait_for_event(channel);
    let mut wc = doorbell_abi::ibv_wc::default();
    // SAFETY: the objects are live, and the buffer has room for one completion.
    let polled = unsafe { (*node.context).ops.poll_cq.expect("it is served")(cq, 1, &mut wc) };
    assert_eq!((polled, wc.status), (1, 0));
}

fn wait_for_event(channel: *mut ibv_comp_channel) {
    let (mut cq, mut context) = (null_mut(), null_mut());
    let got = call!(c"ibv_get_cq_event"(
        channel => *mut ibv_comp_channel, &raw mut cq => *mut *mut ibv_cq,
        &raw mut context => *mut *mut c_void
    ) -> c_int);
    assert_eq!(got, 0);
}

/// Whether librdmacm is installed. Loads it.
fn loads_rdmacm() -> bool {
    // SAFETY: the name is a C string. The library's initialisation has no requirements.
    !unsafe { libc::dlopen(c"librdmacm.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) }.is_null()
}

/// Destroys an id of rdma_cm, one of whose events is not acknowledged.
fn destroy_id() -> ! {
    assert!(loads_rdmacm());
    let channel = call!(c"rdma_create_event_channel"() -> *mut c_void);
    let mut id: *mut c_void = null_mut();
    /// `RDMA_PS_TCP`.
    const TCP: c_int = 0x106;
    let made = call!(c"rdma_create_id"(
        channel => *mut c_void, &raw mut id => *mut *mut c_void, null_mut() => *mut c_void, TCP => c_int
    ) -> c_int);
    let mut to = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: 7999u16.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    let resolved = call!(c"rdma_resolve_addr"(
        id => *mut c_void, null_mut() => *mut c_void, (&raw mut to).cast() => *mut c_void, 1000 => c_int
    ) -> c_int);
    let mut event: *mut c_void = null_mut();
    let got = call!(c"rdma_get_cm_event"(
        channel => *mut c_void, &raw mut event => *mut *mut c_void
    ) -> c_int);
    assert_eq!((made, resolved, got), (0, 0, 0));
    call!(c"rdma_destroy_id"(id => *mut c_void) -> c_int);
    unreachable!("the event is not acknowledged");
}

/// Starts a peer process, which connects a QP and is killed. Returns after its end. The own QP then has a
/// RECV. If `sleeps`, the peer exits by itself, the CQ has a channel, and the function waits for an event.
fn after_peer(sleeps: bool) -> Node {
    let (of_peer, peer) = gone_peer();
    let mut node = Node::open(4096, 0);
    let (channel, cq) = node.sleeping_cq(8);
    node.add_qp(doorbell_verbs::QpType::Rc, if sleeps { cq } else { node.cq }, null_mut());
    node.connect(0, &of_peer);
    node.post_recv(0, 1, &[(0, 64)]);
    if !sleeps {
        // SAFETY: the function takes only numbers, and the child is ours.
        unsafe { libc::kill(peer.0, libc::SIGKILL) };
    }
    end_peer(peer);
    if sleeps {
        // SAFETY: the objects are live.
        unsafe { (*node.context).ops.req_notify_cq.expect("it is served")(cq, 0) };
        wait_for_event(channel);
    }
    node
}

/// Posts a request that the peer does not answer, because its QP is in Init. Then the peer exits. The own QP
/// has no time-out.
fn request_of_gone() -> Node {
    let (of_peer, peer) = gone_peer();
    let node = Node::open(4096, 1);
    node.connect_with(0, &of_peer, Retries { timeout: 0, ..RETRIES });
    node.post(0, &[Wr { op: SendOp::Write(of_peer.at(0)), buffers: &[(0, 8)], flags: SIGNALED }]);
    end_peer(peer);
    node
}

/// Starts a process with a QP. Returns the QP's endpoint, the process, and the pipe whose end lets it exit.
fn gone_peer() -> (Endpoint, (libc::pid_t, c_int)) {
    let mut pipes = [[0; 2]; 2];
    for pipe in &mut pipes {
        // SAFETY: the array has room for both descriptors.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    }
    let [[hears, tells], [waits, ends]] = pipes;
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let node = Node::open(4096, 1);
        let line = node.endpoint(0).to_string();
        // SAFETY: the buffers are local.
        unsafe {
            libc::close(ends);
            libc::write(tells, line.as_ptr().cast(), line.len());
            libc::read(waits, [0u8].as_mut_ptr().cast(), 1);
        }
        std::process::exit(0);
    }
    let mut line = [0u8; 256];
    // SAFETY: the buffer is local.
    let read = unsafe { libc::read(hears, line.as_mut_ptr().cast(), line.len()) };
    let line = std::str::from_utf8(&line[..read as usize]).expect("text");
    (line.parse().expect("an endpoint"), (child, ends))
}

fn end_peer((peer, ends): (libc::pid_t, c_int)) {
    let mut status = 0;
    // SAFETY: the descriptor and the child belong to this process.
    unsafe {
        libc::close(ends);
        assert_eq!(libc::waitpid(peer, &mut status, 0), peer);
    }
}

/// Polls a CQ rightly: a message of a living peer may come, although the last requests were unsignalled.
fn wait_rightly() -> ! {
    let node = unsignalled_pair();
    node.post_recv(1, 1, &[(0, 64)]);
    std::thread::spawn(|| destroy_more_and_more());
    poll(&node)
}

/// Waits rightly in ibv_get_cq_event(3): another thread may post signalled requests.
fn wait_asleep() -> ! {
    std::thread::spawn(|| {
        let (node, channel, _) = sleeping_pair();
        let op = SendOp::Write(node.endpoint(1).at(64));
        node.post(0, &[Wr { op, buffers: &[(0, 8)], flags: 0 }]);
        wait_for_event(channel);
        unreachable!("no event comes");
    });
    destroy_more_and_more()
}

/// Starts threads that destroy CQs with 1, 2 and more unacknowledged events. Each line of the test starts
/// another one.
fn destroy_more_and_more() -> ! {
    for events in 1.. {
        std::thread::spawn(move || destroy_unacknowledged(events));
        hear();
    }
    unreachable!("there are many numbers")
}

/// A run of the program in a process group of its own.
struct Run {
    child: Child,
    hears: ChildStdin,
    /// The lines of standard error, which are read one by one when a test takes them.
    lines: Receiver<String>,
    /// The descriptor of standard error here.
    errors: RawFd,
}

impl Run {
    fn new(options: &[&str], role: &str) -> Run {
        Run::with_action(options, role, libc::SIG_DFL)
    }

    /// Starts a run with this action of SIGINT.
    fn with_action(options: &[&str], role: &str, action: libc::sighandler_t) -> Run {
        let library = library();
        let mut command = Command::new(library.with_file_name("doorbell"));
        let fabric = format!("waits-{}-{role}", std::process::id());
        command.args(["run", "--fabric", &fabric, "--lib"]).arg(&library).args(options).arg("--");
        command.arg(std::env::current_exe().expect("the test has a file")).args(one_test(HERE, "program"));
        command.env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let usual = move || {
            // SAFETY: the function takes only numbers. If a script runs the tests in the background, they
            // ignore SIGINT.
            unsafe { libc::signal(libc::SIGINT, action) };
            Ok(())
        };
        // SAFETY: the closure only makes a system call.
        unsafe { command.pre_exec(usual) };
        let mut child = command.process_group(0).spawn().expect("it starts");
        let hears = child.stdin.take().expect("it is piped");
        let stderr = child.stderr.take().expect("it is piped");
        let errors = stderr.as_raw_fd();
        let (prints, lines) = sync_channel(0);
        std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).try_for_each(|line| prints.send(line))
        });
        Run { child, hears, lines, errors }
    }

    /// The next line that Doorbell prints.
    fn line(&self) -> String {
        loop {
            let line = self.lines.recv_timeout(HANGS).expect("a line is printed");
            if let Some(line) = line.strip_prefix("doorbell: ") {
                return line.to_owned();
            }
        }
    }

    /// Waits for a line of Doorbell that contains these parts.
    fn line_with(&self, parts: &[&str]) -> String {
        loop {
            let line = self.line();
            if has_parts(&line, parts) {
                return line;
            }
            eprintln!("{parts:?} are not in: {line}");
        }
    }

    /// Fills the pipe of standard error.
    fn fill(&self) {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).custom_flags(libc::O_NONBLOCK);
        let mut pipe = options.open(format!("/proc/self/fd/{}", self.errors)).expect("it is open");
        // The thread that reads may take some bytes, until it waits for the test.
        for _ in 0..10 {
            while pipe.write(b"full\n").is_ok() {}
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a signal to the launcher, or to the whole group.
    fn send(&self, signal: c_int, is_for_group: bool) {
        let pid = self.child.id() as libc::pid_t;
        // SAFETY: the function takes only numbers.
        assert_eq!(unsafe { libc::kill(if is_for_group { -pid } else { pid }, signal) }, 0);
    }

    /// Sends a signal like [`Run::send`], and waits for the end. Returns the lines that Doorbell prints until
    /// then.
    fn end_by(self, signal: c_int, is_for_group: bool) -> Vec<String> {
        self.send(signal, is_for_group);
        self.lines_until_end(signal)
    }

    /// Sends a signal to the whole group until the run ends. A process takes several pending signals as one,
    /// so the number of signals that end the run is unknown. Returns the lines that Doorbell prints until
    /// then.
    fn end_by_several(mut self, signal: c_int) -> Vec<String> {
        while self.child.try_wait().expect("it is our child").is_none() {
            self.send(signal, true);
            std::thread::sleep(Duration::from_millis(1));
        }
        self.lines_until_end(signal)
    }

    /// Waits until this signal has ended the run. Returns the lines that Doorbell prints until then.
    fn lines_until_end(mut self, signal: c_int) -> Vec<String> {
        let pid = self.child.id() as libc::pid_t;
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(signal), "{status}");
        // The waiting process outlives its parent if it got no signal, or took two pending signals as one.
        // SAFETY: the function takes only numbers. The group may be empty.
        unsafe { libc::kill(-pid, libc::SIGKILL) };
        let lines = self.lines.iter().filter_map(|line| line.strip_prefix("doorbell: ").map(str::to_owned));
        lines.collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // SAFETY: the function takes only numbers.
        unsafe { libc::kill(-(self.child.id() as libc::pid_t), libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

/// Asserts that the wait of a role is explained in these words on all triggers. `is_hopeless` says whether it
/// is explained at once, too.
fn is_explained(role: &str, parts: &[&str], is_hopeless: bool) {
    let early: &[&str] = &["--explain-after", "1ms"];
    let at_once = if is_hopeless { &[] } else { early };
    for (options, signal, is_for_group) in [(early, libc::SIGTERM, false), (at_once, libc::SIGINT, true)] {
        let run = Run::new(options, role);
        run.line_with(parts);
        let lines = run.end_by(signal, is_for_group);
        let is_there = lines.iter().any(|line| has_parts(line, parts));
        assert!(is_there, "{role}: once more, at the signal: {lines:?}");
    }
}

fn has_parts(line: &str, parts: &[&str]) -> bool {
    parts.iter().all(|part| line.contains(part))
}

#[test]
fn a_destroy_that_waits_for_acknowledgements_is_explained() {
    let waits = "ibv_destroy_cq of process ";
    let one = "waits for ibv_ack_cq_events: 1 event that the program got is not acknowledged";
    is_explained("unacknowledged", &[waits, one], true);
    let two = "waits for ibv_ack_cq_events: 2 events that the program got are not acknowledged";
    is_explained("two-threads", &[waits, two], false);
}

#[test]
fn a_destroy_that_waits_for_asynchronous_events_is_explained() {
    let event = "waits for ibv_ack_async_event: 1 event that the program got is not acknowledged";
    is_explained("qp-event", &["ibv_destroy_qp of process ", event, "(QP 0x"], true);
    is_explained("srq-event", &["ibv_destroy_srq of process ", event, "(the SRQ at 0x"], true);
}

/// The program handles the first SIGINT, and the second one ends it.
#[test]
fn a_wait_is_explained_before_a_second_signal_ends_the_run() {
    let parts = ["ibv_destroy_cq of process ", ": 1 event that the program got is not acknowledged"];
    let run = Run::new(&[], "handles");
    run.line_with(&parts);
    run.send(libc::SIGINT, true);
    // The run goes on, so the line comes from the first signal.
    run.line_with(&parts);
    let lines = run.end_by_several(libc::SIGINT);
    assert!(!lines.iter().any(|line| has_parts(line, &parts)), "explained twice: {lines:?}");
    // The second signal comes at once.
    let run = Run::new(&[], "handles");
    run.line_with(&parts);
    let lines = run.end_by_several(libc::SIGINT);
    assert_eq!(lines.iter().filter(|line| has_parts(line, &parts)).count(), 1, "{lines:?}");
}

#[test]
fn the_waits_of_ranks_are_explained() {
    let run = Run::new(&["-n", "2"], "unacknowledged");
    let is_of_rank = |line: &String| line.contains(": doorbell: ibv_destroy_cq of process ");
    let mut of_ranks = Vec::new();
    while of_ranks.len() < 2 {
        of_ranks.extend(Some(run.lines.recv_timeout(HANGS).expect("a line is printed")).filter(is_of_rank));
    }
    let lines = run.end_by(libc::SIGTERM, false);
    let is_there = |line: &String| lines.iter().any(|other| line.ends_with(other));
    assert!(of_ranks.iter().all(is_there), "{of_ranks:?} {lines:?}");
}

#[test]
fn a_destroyed_id_of_rdma_cm_that_waits_for_acknowledgements_is_explained() {
    if !loads_rdmacm() {
        return eprintln!("skipped: librdmacm is not installed");
    }
    let parts = [
        "rdma_destroy_id of process ",
        "waits for rdma_ack_cm_event: the program got 1 of the id's events, and has not acknowledged all",
    ];
    is_explained("id", &parts, true);
}

#[test]
fn a_request_that_is_repeated_without_end_is_explained() {
    let why = "has a RECV: rnr_retry is 7, so the request is sent again without end";
    is_explained(
        "rnr",
        &["ibv_poll_cq of process ", "waits for work request 1 (SEND, wr_id 0x0)", why],
        true,
    );
    let parts = ["work request 1 (SEND, wr_id 0x0) of QP ", " of process ", " waits until QP ", why];
    is_explained("rnr-asleep", &parts, false);
}

#[test]
fn a_poll_for_unsignalled_requests_is_explained() {
    let why = "waits for a completion that never comes: each of the last 2 send work requests of QP ";
    is_explained("unsignalled", &["ibv_poll_cq of process ", why], true);
}

#[test]
fn a_wait_for_a_peer_that_has_exited_is_explained() {
    let [poll, message] = ["ibv_poll_cq of process ", "waits for a message to QP "];
    let why = ["which cannot come: the process of the peer, QP ", " of process ", ", has exited"];
    is_explained("peer", &[&[poll, message], &why[..]].concat(), true);
    let why = "which cannot come: no process has the QP number of the peer, ";
    is_explained("peer-event", &["ibv_get_cq_event of process ", message, why], true);
    let why = "which cannot come from the QP's path; no port has the LID of the path, ";
    is_explained("elsewhere", &[poll, message, why], true);
    let why = ["timeout is 0, so the request waits without end; the responder's process", "has exited"];
    is_explained("timeout", &[&why[..], &["ibv_poll_cq of process "]].concat(), true);
}

#[test]
fn a_program_that_waits_rightly_is_left_alone() {
    for role in ["rightly", "rightly-asleep"] {
        let mut run = Run::new(&["--explain-after", "1ms"], role);
        for events in 1..4 {
            // The line needs several looks at all waits.
            let line = run.line();
            let is_it = line.contains("ibv_destroy_cq") && line.contains(&format!(": {events} event"));
            assert!(is_it, "{role}: {line}");
            run.hears.write_all(b"on\n").expect("it listens");
        }
        let lines = run.end_by(libc::SIGINT, true);
        assert!(lines.iter().all(|line| line.contains("ibv_destroy_cq")), "{role}: {lines:?}");
    }
}

#[test]
fn a_program_with_one_thread_that_waits_rightly_is_left_alone() {
    // A server waits for new clients, a peer writes to memory that the program polls, and a program computes.
    let runs = [("server", &[][..]), ("written", &[]), ("seldom", &["--explain-after", "1ms"])];
    for (role, run) in runs.map(|(role, options)| (role, Run::new(options, role))) {
        let line = run.line();
        assert!(line.contains("ibv_destroy_cq"), "{role}: {line}");
    }
}

#[test]
fn a_signal_reaches_the_program_although_nobody_reads_the_lines() {
    let run = Run::new(&[], "unacknowledged");
    let line = run.line_with(&["ibv_destroy_cq of process "]);
    let waiting = line.split(' ').nth(3).expect("the PID");
    let parent = || {
        let stat = std::fs::read_to_string(format!("/proc/{waiting}/stat")).expect("it waits");
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)).map(str::to_owned)
    };
    let program = parent();
    run.fill();
    // SAFETY: the function takes only numbers.
    assert_eq!(unsafe { libc::kill(run.child.id() as libc::pid_t, libc::SIGTERM) }, 0);
    let begin = Instant::now();
    while parent() == program {
        assert!(begin.elapsed() < HANGS, "the program still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_signal_that_the_program_ignores_explains_nothing() {
    let mut run = Run::with_action(&["--explain-after", "1ms"], "rightly", libc::SIG_IGN);
    run.line_with(&[": 1 event"]);
    // SAFETY: the function takes only numbers.
    assert_eq!(unsafe { libc::kill(run.child.id() as libc::pid_t, libc::SIGINT) }, 0);
    run.hears.write_all(b"on\n").expect("it listens");
    let line = run.line_with(&[": 2 event"]);
    let lines = run.end_by(libc::SIGTERM, false);
    assert!(lines.contains(&line), "{lines:?}");
}
