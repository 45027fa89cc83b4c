//! Runs programs in unusual environments: with core dumps, locked memory, little address space, many
//! mappings, under valgrind, and in namespaces. Tests are skipped if the machine does not permit the
//! environment.

use crate::common::running::{Running, alone, hear, role, say};
use crate::common::verbs::{Endpoint, Node, SIGNALED, Wr, call};
use crate::common::{ROLE, one_test};
use crate::common::{
    command, compile, counting, finish, installed, launch, library, of_qps, own_program, text,
};
use doorbell_abi::{ibv_mr, ibv_pd};
use doorbell_launch::trust::user;
use doorbell_launch::{Launch, Link, Ptrace};
use doorbell_verbs::{SendOp, WcStatus};
use libc::{c_int, c_void};
use serde_json::json;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::ptr::null_mut;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again, with a role for each process.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    let role = role();
    match role.split_whitespace().collect::<Vec<_>>()[..] {
        ["passive", setting] => be_passive(setting),
        ["active", setting] => be_active(setting),
        ["registers"] => register_among_many(),
        ["passive-many"] => be_passive_with_many(),
        ["active-many"] => be_active_with_many(),
        _ => panic!("no role {role:?}"),
    }
}

/// Offsets in a node's memory: source, target, and the word for atomics. `BYTES` is the memory's size.
const FROM: usize = 0;
const INTO: usize = 64 << 10;
const WORD: usize = 128 << 10;
const BYTES: usize = 192 << 10;
/// Bytes of a peer's memory that must not be in a core dump, and the largest permitted core dump.
const LARGE: usize = 100 << 20;
const CORE_LIMIT: u64 = 64 << 20;

/// A pattern in the program's own buffer, which a core dump must contain.
const MARK: [u8; 24] = *b"<the buffer of the core>";

/// Runs the passive program, which receives the messages of [`be_active`].
fn be_passive(setting: &str) {
    let bytes = if setting == "large" { LARGE } else { BYTES };
    let node = Node::open(bytes, 1);
    settle(setting);
    say(node.endpoint(0));
    let peer: Endpoint = hear().parse().expect("an endpoint");
    node.connect(0, &peer);
    node.post_recv(0, 2, &[(FROM, 1000)]);
    say("ready");
    assert_eq!(node.completions(2).len(), 2);
    assert!(node.is_all(INTO, 5000, 0x77) && node.is_all(FROM, 1000, 0x77));
    say(u64::from_ne_bytes(*node.read(WORD, 8).first_chunk().expect("a word")));
    assert_eq!(hear(), "enough");
    assert_small();
}

/// Runs the active program, which uses WRITE, READ, FETCH_ADD and SEND on another process.
fn be_active(setting: &str) {
    let node = Node::open(BYTES, 1);
    settle(setting);
    say(node.endpoint(0));
    let peer: Endpoint = hear().parse().expect("an endpoint");
    node.connect(0, &peer);
    say("ready");
    assert_eq!(hear(), "go");
    node.fill(FROM, 5000, 0x77);
    node.carry_out(0, SendOp::Write(peer.at(INTO)), &[(FROM, 5000)]);
    node.carry_out(0, SendOp::Read(peer.at(INTO)), &[(INTO, 5000)]);
    assert!(node.is_all(INTO, 5000, 0x77));
    for _ in 0..3 {
        node.carry_out(0, SendOp::FetchAdd { remote: peer.at(WORD), add: 5 }, &[(WORD, 8)]);
    }
    for len in [100, 1000] {
        node.post(0, &[Wr { op: SendOp::Send, buffers: &[(FROM, len)], flags: SIGNALED }]);
        node.completions(1);
    }
    say("done");
    assert_eq!(hear(), "enough");
    assert_small();
    if setting == "aborts" {
        put(&node, BYTES - MARK.len(), &MARK);
        limit(libc::RLIMIT_CORE, 4 * CORE_LIMIT);
        // SAFETY: the call takes no arguments.
        unsafe { libc::abort() };
    }
}

fn put(node: &Node, at: usize, bytes: &[u8]) {
    bytes.iter().enumerate().for_each(|(n, byte)| node.fill(at + n, 1, *byte));
}

fn limit(which: libc::__rlimit_resource_t, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the struct belongs to this function.
    assert_eq!(unsafe { libc::setrlimit(which, &limit) }, 0, "{}", std::io::Error::last_os_error());
}

/// Changes this process as the setting demands, after the device was opened.
fn settle(setting: &str) {
    if setting == "locks" {
        // The call below brings all accessible pages into memory, so few pages may be accessible.
        assert_small();
        // SAFETY: the call takes only a number.
        assert_eq!(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) }, 0);
    }
}

/// Asserts that few bytes of Doorbell's shared memory are accessible. mlockall(2) locks all accessible bytes,
/// and a core dump contains them.
fn assert_small() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("it can be read");
    let number = |text| u64::from_str_radix(text, 16).expect("a number");
    let bytes = maps.lines().filter(|line| line.contains("/memfd:doorbell") && !line.contains("---s"));
    let bytes: u64 = bytes
        .map(|line| {
            let (start, rest) = line.split_once('-').expect("addresses");
            number(rest.split(' ').next().expect("an end")) - number(start)
        })
        .sum();
    // The segments of this process and of a peer, which may have a large buffer.
    assert!(bytes < (16 << 20) + 2 * LARGE as u64, "{bytes} bytes: {maps}");
}

/// Runs the passive and the active program, and returns their standard error. `place` changes the commands.
fn meet(of: &Launch, settings: [&str; 2], place: impl Fn(Command) -> Command) -> [String; 2] {
    let roles = [format!("passive {}", settings[0]), format!("active {}", settings[1])];
    meet_by(roles.map(|role| place(own_program(of, HERE, &role))))
}

/// Runs these commands of the passive and the active program like [`meet`].
fn meet_by(commands: [Command; 2]) -> [String; 2] {
    let [passive, active] = commands;
    converse(Running::of(passive), || Running::of(active))
}

/// Exchanges endpoints and commands with both programs until they exit. `start` starts the active program
/// when the passive program already runs.
fn converse(mut passive: Running, start: impl FnOnce() -> Running) -> [String; 2] {
    let one = passive.line();
    let mut active = start();
    let other = active.line();
    passive.tell(&other);
    active.tell(&one);
    assert_eq!((passive.line(), active.line()), ("ready".into(), "ready".into()));
    active.tell("go");
    assert_eq!((passive.line(), active.line()), ("15".into(), "done".into()));
    active.tell("enough");
    let active = active.end("the active one");
    passive.tell("enough");
    [passive.end("the passive one"), active]
}

/// A command that runs `program` with `arguments`, followed by the words of `command`.
fn run_by(program: &str, arguments: &[&str], command: &Command) -> Command {
    let mut by = Command::new(program);
    by.args(arguments).arg(command.get_program()).args(command.get_args());
    by.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    by.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    by
}

/// Whether a command succeeds. If it fails, a message says that the test is skipped.
fn is_permitted(program: &str, arguments: &[&str]) -> bool {
    if installed(program).is_none() {
        return false;
    }
    let tried = Command::new(program).args(arguments).output().expect("it starts");
    if !tried.status.success() {
        eprintln!("skipped: {program} {} is not permitted: {}", arguments.join(" "), text(&tried).trim());
    }
    tried.status.success()
}

#[test]
fn a_core_has_the_buffers_of_its_program_and_little_else() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.trim() != "core" {
        return eprintln!("skipped: cores go to {pattern:?}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let launch = launch(Link::Ib);
    let mut passive = Running::new(&launch, HERE, "passive large");
    let mut command = own_program(&launch, HERE, "active aborts");
    let mut active = Running::of(std::mem::replace(command.current_dir(folder.path()), Command::new("true")));
    let (one, other) = (passive.line(), active.line());
    passive.tell(&other);
    active.tell(&one);
    assert_eq!((passive.line(), active.line()), ("ready".into(), "ready".into()));
    active.tell("go");
    assert_eq!((passive.line(), active.line()), ("15".into(), "done".into()));
    active.tell("enough");
    let status = active.child.wait().expect("it ends");
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{status}");
    if !status.core_dumped() {
        return eprintln!("skipped: this process may not dump cores");
    }
    let core = std::fs::read_dir(folder.path()).expect("a folder").flatten().next().expect("a core").path();
    // stat(2) counts blocks of 512 bytes.
    let bytes = core.metadata().expect("it is there").blocks() * 512;
    assert!(bytes < CORE_LIMIT, "{bytes} bytes");
    let content = std::fs::read(&core).expect("it can be read");
    assert!(content.windows(MARK.len()).any(|part| part == MARK), "it does not have the buffer");
    passive.tell("enough");
    passive.end("the passive one");
}

#[test]
fn memory_may_be_locked() {
    // SAFETY: the call takes no arguments.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        return eprintln!("skipped: users may lock little memory");
    }
    meet(&launch(Link::Ib), ["locks", "locks"], |command| command);
    // A program with statistics also maps the launcher's shared memory.
    let (counted, report) = counting("locks", launch(Link::Ib));
    meet(&counted, ["locks", "locks"], |command| command);
    drop(report);
}

#[test]
fn eight_gibibytes_of_addresses_suffice() {
    let shell = ["-c", "ulimit -v \"$0\" && exec \"$@\"", "8388608"];
    meet(&launch(Link::Ib), ["few", "few"], |command| run_by("sh", &shell, &command));
}

/// A program whose child writes to the parent's memory and reads it back.
const FORKS: &str = r#"
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(what) if (!(what)) return fprintf(stderr, "line %d: %s\n", __LINE__, #what), 1
struct end { uint16_t lid; uint32_t qpn, rkey; uint64_t addr; };
enum { BYTES = 1 << 20 };
int main(void) {
    int to[2][2], n, child;
    CHECK(!pipe(to[0]) && !pipe(to[1]));
    child = fork();
    struct ibv_device **list = ibv_get_device_list(&n);
    struct ibv_context *context = ibv_open_device(list[0]);
    CHECK(context);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, 0, 0, 0);
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .cap = { 16, 16, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    void *memory;
    CHECK(qp && !posix_memalign(&memory, 4096, BYTES));
    memset(memory, child ? 0 : 7, BYTES);
    int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, all);
    struct ibv_port_attr port;
    CHECK(mr && !ibv_query_port(context, 1, &port));
    struct end own = { port.lid, qp->qp_num, mr->rkey, (uint64_t)memory }, other;
    CHECK(write(to[!child][1], &own, sizeof own) == sizeof own);
    CHECK(read(to[!!child][0], &other, sizeof other) == sizeof other);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = all };
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = other.qpn,
        .max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = { .dlid = other.lid, .port_num = 1 } };
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
        | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7,
        .max_rd_atomic = 1 };
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT
        | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
    char ready = 1;
    CHECK(write(to[!child][1], &ready, 1) == 1 && read(to[!!child][0], &ready, 1) == 1);
    if (child) {
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK(((char *)memory)[0] == 7 && ((char *)memory)[BYTES - 1] == 7);
        puts("served");
        return 0;
    }
    for (int read = 0; read < 2; read++) {
        struct ibv_sge sge = { (uint64_t)memory, BYTES, mr->lkey };
        struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
            .opcode = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, .wr.rdma = { other.addr, other.rkey } }, *bad;
        CHECK(!ibv_post_send(qp, &wr, &bad));
        struct ibv_wc wc;
        while (!(n = ibv_poll_cq(cq, 1, &wc)));
        CHECK(n == 1 && wc.status == IBV_WC_SUCCESS);
    }
    return 0;
}
"#;

#[test]
fn valgrind_runs_programs() {
    if installed("cc").is_none() || installed("valgrind").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    compile(folder.path(), "forks", FORKS, &["-libverbs"]);
    let program = folder.path().join("forks");
    let arguments = ["-q", program.to_str().expect("text")];
    let mut run = command(&launch(Link::Ib), Path::new("valgrind"), &arguments);
    let output = finish(run.spawn().expect("it starts"), "a program under valgrind");
    assert!(output.status.success() && text(&output).contains("served"), "{}", text(&output));
}

/// The thread's processor time, in nanoseconds.
fn processor_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct belongs to this function.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Compares the time to register memory in a process with few mappings and with many.
fn register_among_many() {
    const PAGE: usize = 4096;
    const MANY: usize = 10_000;
    const ROUNDS: u64 = 40;
    let node = Node::open(BYTES, 0);
    let register = || {
        let begin = processor_time();
        for _ in 0..ROUNDS {
            let mr = call!(c"ibv_reg_mr"(
                node.pd => *mut ibv_pd, node.address(0).cast() => *mut c_void, BYTES => usize, 1 => c_int
            ) -> *mut ibv_mr);
            assert!(!mr.is_null());
            assert_eq!(call!(c"ibv_dereg_mr"(mr => *mut ibv_mr) -> c_int), 0);
        }
        (processor_time() - begin) / ROUNDS
    };
    let among_few = register().min(register());
    for _ in 0..MANY {
        let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the calls create and protect new memory.
        unsafe {
            let memory = libc::mmap(null_mut(), 2 * PAGE, protection, flags, -1, 0);
            assert_eq!(libc::mprotect(memory, PAGE, libc::PROT_NONE), 0);
        }
    }
    let among_many = register().min(register());
    // A search through all mappings would take about a hundred times as long.
    assert!(among_many < 10 * among_few + 50_000, "{among_few} ns, then {among_many} ns");
}

#[test]
fn a_registration_takes_no_longer_among_many_mappings() {
    alone(Link::Ib, HERE, "registers");
}

/// More QPs than the 8192 of one slot of the registry.
const MANY_QPS: usize = 8200;

/// A node with many small QPs in state Init. The first and the last QP are in different slots.
fn many_qps() -> Node {
    let mut node = Node::open(BYTES, 0);
    (0..MANY_QPS).for_each(|_| node.add_small_qp());
    node
}

/// Receives messages on the first and the last of many QPs.
fn be_passive_with_many() {
    let node = many_qps();
    let ends = [0, MANY_QPS - 1];
    assert_ne!(node.endpoint(ends[0]).qpn >> 13, node.endpoint(ends[1]).qpn >> 13);
    ends.iter().for_each(|qp| say(node.endpoint(*qp)));
    for qp in ends {
        node.connect(qp, &hear().parse().expect("an endpoint"));
        node.post_recv(qp, 1, &[(INTO, 100)]);
    }
    say("ready");
    let from: Vec<u32> = node.completions(2).iter().map(|wc| wc.qp_num).collect();
    assert_eq!(from, ends.map(|qp| node.endpoint(qp).qpn));
    assert!(node.is_all(WORD, 8, 0x55));
    node.post_recv(ends[1], 1, &[(INTO, 100)]);
    say("received");
    assert_eq!(hear(), "enough");
    // The peer's invalid request moves the QP to the error state, and flushes its RECV.
    node.completion(WcStatus::WrFlushErr);
}

/// Sends to another process by the last two of many QPs, and within this process.
fn be_active_with_many() {
    let node = many_qps();
    let (first, last) = (MANY_QPS - 2, MANY_QPS - 1);
    for qp in [first, last] {
        say(node.endpoint(qp));
    }
    let peers: [Endpoint; 2] = [(); 2].map(|()| hear().parse().expect("an endpoint"));
    node.connect(first, &peers[0]);
    node.connect(last, &peers[1]);
    // A message within this process, from a QP in the first slot to a QP in the second slot.
    let within = [5, MANY_QPS - 3];
    node.connect(within[0], &node.endpoint(within[1]));
    node.connect(within[1], &node.endpoint(within[0]));
    node.post_recv(within[1], 1, &[(INTO, 100)]);
    node.fill(FROM, 100, 0x55);
    node.post(within[0], &[Wr { op: SendOp::Send, buffers: &[(FROM, 100)], flags: SIGNALED }]);
    assert_eq!(node.completions(2).len(), 2);
    assert!(node.is_all(INTO, 100, 0x55));
    say("ready");
    assert_eq!(hear(), "go");
    for (qp, peer) in [first, last].into_iter().zip(peers) {
        node.carry_out(qp, SendOp::Write(peer.at(WORD)), &[(FROM, 8)]);
        node.carry_out(qp, SendOp::Send, &[(FROM, 100)]);
    }
    say("sent");
    assert_eq!(hear(), "enough");
    node.post(last, &[Wr { op: SendOp::Write(peers[1].at(BYTES)), buffers: &[(FROM, 8)], flags: SIGNALED }]);
    node.completion(WcStatus::RemAccessErr);
}

#[test]
fn a_process_has_more_qps_than_one_slot() {
    for ptrace in [Ptrace::Yes, Ptrace::No] {
        let (counted, report) = counting("many", Launch { ptrace, ..launch(Link::Ib) });
        let mut passive = Running::new(&launch_like(&counted), HERE, "passive-many");
        let mut active = Running::new(&counted, HERE, "active-many");
        for _ in 0..2 {
            let (one, other) = (passive.line(), active.line());
            passive.tell(&other);
            active.tell(&one);
        }
        assert_eq!((passive.line(), active.line()), ("ready".into(), "ready".into()));
        active.tell("go");
        assert_eq!((passive.line(), active.line()), ("received".into(), "sent".into()));
        active.tell("enough");
        active.end("the active one");
        passive.tell("enough");
        let said = passive.end("the passive one");
        assert!(said.contains("is in error because of work request"), "{said}");
        assert_eq!(report()["total"]["work_requests"], 1 + 4 + 1);
    }
}

#[test]
fn peers_in_several_time_namespaces_meet() {
    const PASSIVE: [&str; 5] = ["--time", "--boottime", "864000", "--fork", "--"];
    const ACTIVE: [&str; 5] = ["--time", "--boottime", "-3", "--fork", "--"];
    if !is_permitted("unshare", &[&PASSIVE[..], &["true"]].concat()) {
        return;
    }
    let (counted, report) = counting("times", launch(Link::Ib));
    let passive = run_by("unshare", &PASSIVE, &own_program(&counted, HERE, "passive -"));
    let active = run_by("unshare", &ACTIVE, &own_program(&launch_like(&counted), HERE, "active -"));
    meet_by([passive, active]);
    assert_eq!(of_qps(&report(), "work_requests"), json!([0]));
}

/// A launch on the fabric of `launch`, without statistics.
fn launch_like(launch: &Launch) -> Launch {
    Launch { stats: None, ..launch.clone() }
}

/// The command that runs a program in a new user namespace.
const UNSHARE: [&str; 3] = ["unshare", "--user", "--map-root-user"];

/// A user without capabilities, and a folder of this user with the launcher and the library.
struct OtherUser {
    number: u32,
    folder: tempfile::TempDir,
}

impl OtherUser {
    /// Creates the user's folder. Returns `None` if this process may not become another user.
    fn new(number: u32) -> Option<OtherUser> {
        installed("setpriv")?;
        if user() != 0 {
            eprintln!("skipped: only root can become another user");
            return None;
        }
        let (folder, library) = (tempfile::tempdir().expect("a folder"), library());
        for part in ["meet", "run"] {
            std::fs::create_dir(folder.path().join(part)).expect("a folder");
        }
        for file in ["doorbell", "libibverbs.so"] {
            std::fs::copy(library.with_file_name(file), folder.path().join(file)).expect("it can be copied");
        }
        for (path, mode) in
            [("", 0o755), ("meet", 0o700), ("run", 0o700), ("doorbell", 0o755), ("libibverbs.so", 0o755)]
        {
            own_by(&folder.path().join(path), number, mode);
        }
        Some(OtherUser { number, folder })
    }

    /// A command that runs a program as this user. `around` comes before the program, for example unshare(1).
    fn command(&self, around: &[&str], program: &str) -> Command {
        let mut command = Command::new("setpriv");
        let (user, group) = (format!("--reuid={}", self.number), format!("--regid={}", self.number));
        command.args([&user, &group, "--clear-groups", "--"]).args(around).arg(program);
        command.env("XDG_RUNTIME_DIR", self.folder.path().join("run")).env("HOME", self.folder.path());
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Whether this user may run programs by `around`.
    fn may(&self, around: &[&str]) -> bool {
        let tried = installed(around[0]).map(|_| self.command(around, "true").output().expect("it starts"));
        let Some(tried) = tried else { return false };
        if !tried.status.success() {
            eprintln!("skipped: {} is not permitted: {}", around.join(" "), text(&tried).trim());
        }
        tried.status.success()
    }

    /// A command that runs this module's program under the launcher as this user. `around` comes before the
    /// launcher.
    fn program(&self, around: &[&str], options: &[&str], role: &str) -> Command {
        let launcher = self.folder.path().join("doorbell");
        let mut run = self.command(around, launcher.to_str().expect("text"));
        run.arg("run").args(options).arg("--");
        run.arg(std::env::current_exe().expect("the test has a file")).args(one_test(HERE, "program"));
        run.env(ROLE, role);
        run
    }
}

/// Sets the owner and the mode of a file or folder.
fn own_by(path: &Path, owner: u32, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode can be set");
    chown(path, Some(owner), Some(owner)).expect("root may");
}

#[test]
fn programs_in_user_namespaces_meet_in_a_folder() {
    const BWRAP: [&str; 5] = ["bwrap", "--unshare-user", "--dev-bind", "/", "/"];
    let Some(user) = OtherUser::new(12_345) else { return };
    let meet = user.folder.path().join("meet");
    for around in [&UNSHARE[..], &BWRAP] {
        if user.may(around) {
            let options = ["--fabric", around[0], "--meet", meet.to_str().expect("text")];
            meet_by(["passive -", "active -"].map(|role| user.program(around, &options, role)));
        }
    }
}

#[test]
fn programs_in_one_user_namespace_meet() {
    let Some(user) = OtherUser::new(12_346).filter(|user| user.may(&UNSHARE)) else { return };
    if installed("nsenter").is_none() {
        return;
    }
    let options = ["--fabric", "within"];
    let passive = Running::of(user.program(&UNSHARE, &options, "passive -"));
    let target = passive.child.id().to_string();
    let enter = ["nsenter", "--user", "--preserve-credentials", "--target", &target, "--"];
    converse(passive, || Running::of(user.program(&enter, &options, "active -")));
}

#[test]
fn a_library_of_an_unknown_user_is_refused() {
    let Some(user) = OtherUser::new(12_347).filter(|user| user.may(&UNSHARE)) else { return };
    let other = tempfile::tempdir().expect("a folder");
    let copy = other.path().join("libibverbs.so");
    std::fs::copy(library(), &copy).expect("it can be copied");
    [other.path(), &copy].into_iter().for_each(|path| own_by(path, 4711, 0o755));
    let options = ["--lib", copy.to_str().expect("text")];
    let run = user.program(&UNSHARE, &options, "active -").output().expect("it starts");
    assert!(text(&run).contains("the number stands for all unmapped users"), "{}", text(&run));
    assert_eq!(run.status.code(), Some(2), "{}", text(&run));
}

#[test]
fn a_name_that_another_user_has_taken_is_passed_over() {
    let Some(user) = OtherUser::new(12_348) else { return };
    let namespace = std::fs::metadata("/proc/self/ns/pid").expect("it is there").ino();
    let taken = [
        format!("/dev/shm/doorbell-{}-{namespace}-taken", user.number),
        format!("/dev/shm/doorbell-libraries-{}", user.number),
    ];
    for path in &taken {
        std::fs::create_dir(path).expect("it is free");
        own_by(Path::new(path), 4711, 0o700);
    }
    let said = meet_by(["passive -", "active -"].map(|role| {
        let mut program = user.program(&[], &["--fabric", "taken"], role);
        program.env_remove("XDG_RUNTIME_DIR");
        program
    }));
    for path in &taken {
        std::fs::remove_dir(path).expect("nobody has put anything there");
        let told = format!("{path} belongs to user 4711");
        assert!(said.iter().all(|said| said.contains(&told)), "{path}: {said:?}");
    }
    std::fs::remove_dir_all(format!("{}.1", taken[1])).expect("the library was found there");
}
