//! Tests peers of other fabrics, peers that have exited or whose memory cannot be opened, and files that
//! fabrics leave behind.

use crate::common::own_time::{HANGS, OwnTime};
use crate::common::running::{Running, alone, hear, role, say};
use crate::common::verbs::{Endpoint, Node, Retries, SIGNALED, Wr, open_device, to_gid, to_lid};
use crate::common::{counting, finish, installed, launch, leaves_something, of_qps, own_program, text};
use doorbell_abi::{ibv_ah_attr, ibv_gid};
use doorbell_launch::{Launch, Link};
use doorbell_verbs::{QpType, SendOp, WcStatus};
use libc::c_int;
use serde_json::json;
use std::process::{Command, Stdio};
use std::ptr::null_mut;
use std::time::Duration;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again, with a role for each process.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    let role = role();
    match role.split_whitespace().collect::<Vec<_>>()[..] {
        ["stands", qp_type, by] => stand(named(qp_type), by),
        ["mistakes", qp_type, by] => mistake(named(qp_type), by),
        ["target", qp_type] => be_target(named(qp_type), false),
        ["hidden"] => be_target(QpType::Rc, true),
        ["loses"] => lose(),
        ["cannot", cause] => meet_unreachable(cause),
        ["opens"] => drop(Node::open(4096, 1)),
        ["leaves"] => leave(),
        ["limited"] => be_limited(),
        _ => panic!("no role {role:?}"),
    }
}

fn named(qp_type: &str) -> QpType {
    let is_it = |known: &QpType| known.to_string() == qp_type;
    [QpType::Rc, QpType::Uc, QpType::Ud].into_iter().find(is_it).expect("a type")
}

/// Retries with short time-outs, within which a live peer still answers.
const SHORT: Retries = Retries { timeout: 8, retry_cnt: 1, rnr_retry: 0 };
/// The most time that a failed RC request with the retries [`SHORT`] may take.
const AT_MOST: Duration = Duration::from_secs(5);
const BYTES: usize = 8192;

/// How a test addresses a port: by its LID, or by an entry of its GID table.
#[derive(Clone, Copy)]
enum By {
    Lid,
    Gid(u8),
}

impl By {
    fn named(by: &str) -> By {
        by.parse().map_or(By::Lid, By::Gid)
    }

    /// The address of a node's port as text.
    fn address(self, node: &Node) -> String {
        match self {
            By::Lid => node.endpoint(0).lid.to_string(),
            By::Gid(index) => format!("{:032x}", u128::from_be_bytes(node.gid(index).raw)),
        }
    }

    /// The path to an address from [`By::address`].
    fn path(self, address: &str) -> ibv_ah_attr {
        match self {
            By::Lid => to_lid(address.parse().expect("a LID")),
            By::Gid(index) => {
                let gid = u128::from_str_radix(address, 16).expect("a GID");
                to_gid(index, ibv_gid { raw: gid.to_be_bytes() })
            }
        }
    }
}

/// Offers a connected QP with RECVs, and asserts that no message of another fabric arrives.
fn stand(qp_type: QpType, by: &str) {
    let node = Node::open_as(qp_type, BYTES, 1);
    let by = By::named(by);
    node.fill(0, BYTES, 0x11);
    node.post_recv(0, 8, &[(0, 4096)]);
    say(by.address(&node));
    say(node.endpoint(0));
    // Connects to the peer's QP number at this fabric's own address. Then the peer's messages differ from
    // valid ones only in their address.
    let peer: u32 = hear().parse().expect("a QP number");
    node.connect_by(0, by.path(&by.address(&node)), peer, SHORT);
    say("ready");
    assert_eq!(hear(), "enough");
    assert!(node.poll().is_none(), "a message has come");
    assert!(node.is_all(0, BYTES, 0x11), "bytes have come");
}

/// Sends to a port of another fabric, and asserts that no message arrives. The target QP numbers are those of
/// the other process and of this process.
fn mistake(qp_type: QpType, by: &str) {
    let node = Node::open_as(qp_type, BYTES, 2);
    let by = By::named(by);
    node.fill(0, BYTES / 2, 0x22);
    node.fill(BYTES / 2, BYTES / 2, 0x33);
    say(node.endpoint(0).qpn);
    let address = hear();
    let peer: Endpoint = hear().parse().expect("an endpoint");
    if by.address(&node) == address {
        // Each fabric draws one of 49151 LIDs. If both drew an equal LID, nothing distinguishes them.
        return eprintln!("skipped: both fabrics have the LID {address}");
    }
    let (there, own) = (by.path(&address), by.path(&by.address(&node)));
    let ends = [node.endpoint(0), node.endpoint(1)];
    // QP 1 is connected to QP 0's number. QP 0 connects to each of the targets in turn.
    node.connect_by(1, there, ends[0].qpn, SHORT);
    for target in [ends[0], ends[1], peer] {
        for op in ops(qp_type, &target) {
            node.reset(0);
            node.connect_by(0, there, target.qpn, SHORT);
            (0..2).for_each(|qp| node.post_recv(qp, 1, &[(BYTES / 2, 4096)]));
            let begin = OwnTime::start();
            post(&node, qp_type, there, target.qpn, op);
            if qp_type == QpType::Rc {
                node.completion(WcStatus::RetryExcErr);
                assert!(begin.elapsed() < AT_MOST, "{op:?} has taken {:?}", begin.elapsed());
                node.completion(WcStatus::WrFlushErr);
            } else {
                node.completions(1);
            }
            assert!(node.poll().is_none(), "{op:?} was received");
            assert!(node.is_all(0, BYTES / 2, 0x22), "{op:?} has fetched bytes");
            assert!(node.is_all(BYTES / 2, BYTES / 2, 0x33), "{op:?} has brought bytes");
        }
    }
    // QP 0 can send to itself by this fabric's own address.
    for op in ops(qp_type, &ends[0]) {
        node.reset(0);
        node.connect_by(0, own, ends[0].qpn, SHORT);
        node.post_recv(0, 1, &[(BYTES / 2, 4096)]);
        node.fill(BYTES / 2, BYTES / 2, 0x33);
        post(&node, qp_type, own, ends[0].qpn, op);
        let is_send = matches!(op, SendOp::Send);
        node.completions(1 + usize::from(is_send));
        let header = if qp_type == QpType::Ud { 40 } else { 0 };
        let read = matches!(op, SendOp::Read(_));
        let (at, byte) = if read { (0, 0x33) } else { (BYTES / 2 + header, 0x22) };
        assert!(node.is_all(at, 64, byte), "{op:?} to itself has moved nothing");
    }
}

/// The operations that a QP type supports. They access the upper half of the target's memory.
fn ops(qp_type: QpType, target: &Endpoint) -> Vec<SendOp> {
    let there = target.at(BYTES / 2);
    let mut ops = vec![SendOp::Send];
    ops.extend((qp_type != QpType::Ud).then_some(SendOp::Write(there)));
    ops.extend((qp_type == QpType::Rc).then_some(SendOp::Read(there)));
    ops
}

fn post(node: &Node, qp_type: QpType, path: ibv_ah_attr, qpn: u32, op: SendOp) {
    let to = (qp_type == QpType::Ud).then(|| (node.ah(path), qpn));
    node.post_to(0, &[Wr { op, buffers: &[(0, 64)], flags: SIGNALED }], to);
}

#[test]
fn a_peer_of_another_fabric_is_nobody_here() {
    let addresses = [
        (Link::Ib, "lid"),
        (Link::Ib, "0"),
        (Link::Roce, "0"),
        (Link::Roce, "1"),
        (Link::Roce, "2"),
        (Link::Roce, "3"),
    ];
    for (link, by) in addresses {
        for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
            let what = format!("{qp_type} {by} of {link:?}");
            let mut stands = Running::new(&launch(link), HERE, &format!("stands {qp_type} {by}"));
            let mut mistakes = Running::new(&launch(link), HERE, &format!("mistakes {qp_type} {by}"));
            let (address, endpoint) = (stands.line(), stands.line());
            stands.tell(&mistakes.line());
            assert_eq!(stands.line(), "ready");
            mistakes.tell(&address);
            mistakes.tell(&endpoint);
            mistakes.end(&what);
            stands.tell("enough");
            stands.end(&what);
        }
    }
}

/// Offers a QP and private memory to a peer. The test may order this process to unmap the memory. If `hides`,
/// the process denies others access to its memory (PR_SET_DUMPABLE).
fn be_target(qp_type: QpType, hides: bool) {
    let mut node = Node::open_as(qp_type, BYTES, 1);
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses the address.
    let memory = unsafe { libc::mmap(null_mut(), BYTES, protection, flags, -1, 0) };
    node.register(memory, BYTES);
    if hides {
        // SAFETY: the call takes only numbers.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) }, 0);
    }
    say(node.endpoint(0));
    let peer: Endpoint = hear().parse().expect("an endpoint");
    node.connect(0, &peer);
    say("ready");
    if hear() == "unmap" {
        // SAFETY: this process does not use the memory any more.
        assert_eq!(unsafe { libc::munmap(memory, BYTES) }, 0);
        say("unmapped");
        hear();
    }
}

/// Sends messages of UC and UD that no receiver takes, and some that arrive.
fn lose() {
    let mut node = Node::open_as(QpType::Uc, BYTES, 4);
    node.add_qp(QpType::Ud, node.cq, null_mut());
    let ends = [0, 1, 2, 3, 4].map(|qp| node.endpoint(qp));
    let write = |to: &Endpoint| SendOp::Write(to.at(4096));
    let post = |qp: usize, op: SendOp, count: usize| {
        let list: Vec<Wr<'_>> = (0..count).map(|_| Wr { op, buffers: &[(0, 64)], flags: SIGNALED }).collect();
        node.post(qp, &list);
        node.completions(count);
    };
    // QP 0 sends to a port that does not exist.
    node.connect_by(0, to_lid(ends[0].lid ^ 1), ends[0].qpn, SHORT);
    post(0, write(&ends[0]), 3);
    // QP 1 sends to a process that unmaps its memory and then exits.
    say(ends[1]);
    let peer: Endpoint = hear().parse().expect("an endpoint");
    node.connect(1, &peer);
    post(1, write(&peer), 2);
    say("written");
    assert_eq!(hear(), "unmapped");
    post(1, write(&peer), 2);
    say("lost");
    assert_eq!(hear(), "ended");
    post(1, write(&peer), 4);
    post(1, SendOp::Send, 1);
    // QP 2 sends to itself without a RECV, with a RECV that is too short, with an invalid rkey, and with a
    // RECV.
    node.connect(2, &ends[2]);
    post(2, SendOp::Send, 1);
    node.post_recv(2, 1, &[(0, 16)]);
    post(2, SendOp::Send, 1);
    post(2, SendOp::Write(doorbell_verbs::RemoteAddr { rkey: 0, ..ends[2].memory }), 1);
    node.post(2, &[Wr { op: SendOp::Send, buffers: &[(0, 8)], flags: SIGNALED }]);
    node.completions(2);
    // QP 3 writes to itself. No message is lost.
    node.connect(3, &ends[3]);
    post(3, write(&ends[3]), 5);
    // QP 4 sends datagrams. Only the last finds a RECV.
    node.connect(4, &ends[4]);
    let ah = node.ah(to_lid(ends[4].lid));
    let datagram = |qpn: u32| {
        node.post_to(4, &[Wr { op: SendOp::Send, buffers: &[(0, 8)], flags: SIGNALED }], Some((ah, qpn)));
    };
    for qpn in [ends[4].qpn, ends[3].qpn, 0xff_fffe] {
        datagram(qpn);
        node.completions(1);
    }
    node.post_recv(4, 1, &[(0, 128)]);
    datagram(ends[4].qpn);
    node.completions(2);
}

#[test]
fn messages_that_nobody_takes_are_counted() {
    // The buffers are private, because a peer may keep the shared memory of an exited process for a while.
    let quiet = Launch { private_buffers: true, ..launch(Link::Ib) };
    let (counted, report) = counting("loses", quiet.clone());
    let mut loses = Running::new(&counted, HERE, "loses");
    let mut target = Running::new(&quiet, HERE, "target UC");
    target.tell(&loses.line());
    let endpoint = target.line();
    assert_eq!(target.line(), "ready");
    loses.tell(&endpoint);
    assert_eq!(loses.line(), "written");
    target.tell("unmap");
    assert_eq!(target.line(), "unmapped");
    loses.tell("unmapped");
    assert_eq!(loses.line(), "lost");
    target.tell("enough");
    target.end("the target");
    loses.tell("ended");
    let said = loses.end("the program");
    let report = report();
    assert_eq!(of_qps(&report, "work_requests"), json!([3, 9, 4, 5, 4]));
    assert_eq!(of_qps(&report, "undelivered"), json!([3, 7, 3, 0, 3]));
    let causes = json!([
        { "no-port": 3 },
        // The memory is unmapped, and then the process has exited.
        { "remote-memory": 2, "no-qp": 5 },
        { "no-recv": 1, "recv-too-small": 1, "remote-memory": 1 },
        {},
        { "no-recv": 1, "qp-type": 1, "no-qp": 1 },
    ]);
    assert_eq!(of_qps(&report, "undelivered_by_cause"), causes);
    assert_eq!(report["total"]["undelivered"], 16);
    assert!(said.contains("undelivered 16 messages of UC or UD that no receiver took"), "{said}");
    assert_eq!(said.matches("undelivered").count(), 1 + 4, "{said}");
}

/// A lowered resource limit of this process. Dropping the value restores the limit.
struct Limit(libc::__rlimit_resource_t, libc::rlimit);

impl Limit {
    /// Sets the soft limit to `now`.
    fn set(which: libc::__rlimit_resource_t, now: u64) -> Limit {
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both structs belong to this function.
        unsafe {
            assert_eq!(libc::getrlimit(which, &mut before), 0);
            assert_eq!(libc::setrlimit(which, &libc::rlimit { rlim_cur: now, ..before }), 0);
        }
        Limit(which, before)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // SAFETY: the struct belongs to this value.
        unsafe { libc::setrlimit(self.0, &self.1) };
    }
}

/// Drops all capabilities of this process. Then ptrace access follows the rules for ordinary users.
fn drop_capabilities() {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: c_int,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let (header, none) = (Header { version: VERSION_3, pid: 0 }, [0u32; 6]);
    // SAFETY: the structs are as capset(2) defines them.
    assert_eq!(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) }, 0);
}

/// Sends to a process whose memory this process cannot open.
fn meet_unreachable(cause: &str) {
    let mut node = Node::open(BYTES, 1);
    let (channel, sleeps) = node.sleeping_cq(8);
    node.add_qp(QpType::Rc, sleeps, null_mut());
    node.add_qp(QpType::Uc, node.cq, null_mut());
    node.add_qp(QpType::Ud, node.cq, null_mut());
    say(node.endpoint(0));
    let peer: Endpoint = hear().parse().expect("an endpoint");
    (0..4).for_each(|qp| node.connect_with(qp, &peer, SHORT));
    let ah = node.ah(to_lid(peer.lid));
    let limit = match cause {
        "files" => {
            // With this limit, the lowest free descriptor number is denied.
            let free = std::fs::File::open("/dev/null").map(|file| std::os::fd::AsRawFd::as_raw_fd(&file));
            Some(Limit::set(libc::RLIMIT_NOFILE, free.expect("a file") as u64))
        }
        "memory" => {
            let statm = std::fs::read_to_string("/proc/self/statm").expect("it can be read");
            let pages: u64 = statm.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
            // The limit allows the device's thread, but not the mapping of a peer's segment.
            Some(Limit::set(libc::RLIMIT_AS, pages * 4096 + (384 << 10)))
        }
        _ => {
            drop_capabilities();
            None
        }
    };
    let one = |qp: usize, op: SendOp| node.post(qp, &[Wr { op, buffers: &[(0, 64)], flags: SIGNALED }]);
    // SAFETY: the context and the CQ are live.
    let armed = unsafe { (*node.context).ops.req_notify_cq.expect("it is served")(sleeps, 0) };
    assert_eq!(armed, 0);
    let begin = OwnTime::start();
    // An event wakes the program, which does not poll before.
    one(1, SendOp::Write(peer.at(0)));
    // SAFETY: the channel is live.
    let mut fd = libc::pollfd { fd: unsafe { (*channel).fd }, events: libc::POLLIN, revents: 0 };
    // SAFETY: the array has one entry.
    assert_eq!(unsafe { libc::poll(&mut fd, 1, HANGS.as_millis() as c_int) }, 1, "it sleeps for ever");
    one(0, SendOp::Send);
    node.completion(WcStatus::RetryExcErr);
    assert!(begin.elapsed() < 2 * AT_MOST, "{:?}", begin.elapsed());
    for _ in 0..2 {
        one(2, SendOp::Write(peer.at(0)));
        node.post_to(
            3,
            &[Wr { op: SendOp::Send, buffers: &[(0, 8)], flags: SIGNALED }],
            Some((ah, peer.qpn)),
        );
    }
    node.completions(4);
    drop(limit);
}

#[test]
fn a_peer_that_cannot_be_opened_is_told_of_once() {
    let causes = [
        ("files", "target RC", "ulimit -n limits the open files"),
        ("memory", "target RC", "ulimit -v limits the addresses"),
        ("rights", "hidden", "Permission denied"),
    ];
    for (cause, target, why) in causes {
        let quiet = launch(Link::Ib);
        let (counted, report) = counting(cause, quiet.clone());
        let mut target = Running::new(&quiet, HERE, target);
        let mut cannot = Running::new(&counted, HERE, &format!("cannot {cause}"));
        target.tell(&cannot.line());
        cannot.tell(&target.line());
        assert_eq!(target.line(), "ready");
        let said = cannot.end(cause);
        assert_eq!(said.matches("cannot be reached").count(), 1, "{cause}: {said}");
        assert!(said.contains(why), "{cause}: {said}");
        let (report, lost) = (report(), json!({ "out-of-reach": 2 }));
        assert_eq!(of_qps(&report, "undelivered"), json!([0, 0, 2, 2]), "{cause}");
        assert_eq!(of_qps(&report, "undelivered_by_cause"), json!([{}, {}, lost, lost]), "{cause}");
        target.tell("enough");
        target.end("the target");
    }
}

/// Opens the device. Calls `_exit` when the input ends, so that the fabric's files stay.
fn leave() {
    let _node = Node::open(4096, 1);
    say("opened");
    hear();
    // SAFETY: the call takes only a number.
    unsafe { libc::_exit(0) }
}

/// A command that runs `program` with `arguments`, followed by the words of `command`.
fn run_by(program: &str, arguments: &[&str], command: &Command) -> Command {
    let mut by = Command::new(program);
    by.args(arguments).arg(command.get_program()).args(command.get_args());
    by.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    by.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    by
}

#[test]
fn what_a_namespace_of_processes_leaves_goes_with_the_next_fabric() {
    const UNSHARE: [&str; 4] = ["-p", "-m", "-f", "--mount-proc"];
    if installed("unshare").is_none() {
        return;
    }
    let tried = Command::new("unshare").args(UNSHARE).arg("true").output().expect("it starts");
    if !tried.status.success() {
        return eprintln!("skipped: no namespace of process numbers: {}", text(&tried).trim());
    }
    let inside = launch(Link::Ib);
    let mut leaves = Running::of(run_by("unshare", &UNSHARE, &own_program(&inside, HERE, "leaves")));
    assert_eq!(leaves.line(), "opened");
    let left = inside.fabric.unwrap_or_default();
    // Checks the files while the program is alive. Later, a process of another test may remove them.
    assert!(leaves_something(&left), "there is nothing to go");
    leaves.end("the namespace");
    alone(Link::Ib, HERE, "opens");
    assert!(!leaves_something(&left), "the fabric {left} is still there");
}

/// Asserts that ibv_open_device(3) fails with EFBIG.
fn be_limited() {
    assert!(open_device().is_null(), "it can be opened");
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EFBIG));
}

#[test]
fn a_limit_of_file_sizes_is_an_error_of_open() {
    for blocks in ["0", "100", "1000000"] {
        let shell = ["-c", "ulimit -f \"$0\" && exec \"$@\"", blocks];
        let mut command = run_by("sh", &shell, &own_program(&launch(Link::Ib), HERE, "limited"));
        let output = finish(command.spawn().expect("it starts"), "the program");
        assert!(output.status.success(), "{blocks}: {:?} {}", output.status, text(&output));
        let said = String::from_utf8_lossy(&output.stderr);
        let told: Vec<&str> = said.lines().filter(|line| line.starts_with("doorbell: ")).collect();
        let [told] = told[..] else { panic!("{blocks}: {said}") };
        assert!(told.contains("cannot use the software NIC: ") && told.contains("ulimit -f"), "{told}");
    }
}
