//! Tests several processes on one fabric: different programs, several clients of one server, fork(2), killed
//! processes, and processes that corrupt their own segment.

use crate::common;
use crate::common::own_time::HANGS;
use crate::common::running::{Running, end_in_time, hear, role, say};
use crate::common::verbs::{Endpoint, INLINED, Node, Retries, SIGNALED, Wr, call, fork_init};
use crate::common::{installed, launch, leaves_something, pair};
use doorbell_abi::{ibv_comp_channel, ibv_cq};
use doorbell_launch::process_start::thread_state;
use doorbell_launch::{Launch, Link, Ptrace};
use doorbell_verbs::{QpType, SendOp};
use libc::{c_int, c_void};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::io::Write;
use std::ptr::null_mut;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again, with a role for each process.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    let role = role();
    match role.split_whitespace().collect::<Vec<_>>()[..] {
        ["server"] => serve(),
        ["client", number] => be_client(number.parse().expect("a number")),
        ["target"] => be_target(),
        ["forks", child] => fork_and_go_on(child),
        ["meets-child"] => meet_child(),
        ["without-main-thread", memory] => outlive_main_thread(memory),
        ["meets-without-main-thread"] => meet_without_main_thread(),
        ["scribbles"] => scribble(),
        ["meets-scribbler"] => meet_scribbler(),
        _ => panic!("no role {role:?}"),
    }
}

const ROUNDS: u64 = 500;
const PIECE: usize = 1024;

/// Runs the server of two clients. Each client adds to the first word, writes its piece, and sends a message.
fn serve() {
    let node = Node::open(4096, 2);
    for qp in 0..2 {
        node.post_recv(qp, 1, &[]);
        say(node.endpoint(qp));
    }
    for qp in 0..2 {
        node.connect(qp, &hear().parse().expect("an endpoint"));
    }
    say("ready");
    let mut who: Vec<u32> = node.completions(2).iter().map(|wc| u32::from_be(wc.imm_data)).collect();
    who.sort_unstable();
    assert_eq!(who, [1, 2]);
    assert_eq!(node.first_word(), 2 * ROUNDS);
    for client in [1, 2] {
        assert!(node.is_all(client * PIECE, PIECE, client as u8), "the piece of client {client}");
    }
}

fn be_client(number: u8) {
    let node = Node::open(4096, 1);
    say(node.endpoint(0));
    let server: Endpoint = hear().parse().expect("an endpoint");
    node.connect(0, &server);
    assert_eq!(hear(), "go");
    let mut before = None;
    for _ in 0..ROUNDS {
        node.carry_out(0, SendOp::FetchAdd { remote: server.at(0), add: 1 }, &[(0, 8)]);
        let now = Some(node.first_word());
        assert!(before < now, "{before:?}, then {now:?}");
        before = now;
    }
    node.fill(PIECE, PIECE, number);
    let own = usize::from(number) * PIECE;
    for at in (0..PIECE).step_by(64) {
        node.carry_out(0, SendOp::Write(server.at(own + at)), &[(PIECE + at, 64)]);
    }
    node.carry_out(0, SendOp::Read(server.at(own)), &[(2 * PIECE, PIECE as u32)]);
    assert!(node.is_all(2 * PIECE, PIECE, number));
    node.carry_out(0, SendOp::SendWithImm(number.into()), &[]);
}

/// Launches with shared and with private buffers.
fn launches() -> [Launch; 2] {
    [false, true].map(|private_buffers| Launch { private_buffers, ..launch(Link::Ib) })
}

#[test]
fn two_clients_of_one_server() {
    for launch in launches() {
        let mut server = Running::new(&launch, HERE, "server");
        let endpoints = [server.line(), server.line()];
        let mut clients = ["client 1", "client 2"].map(|role| Running::new(&launch, HERE, role));
        for (client, endpoint) in clients.iter_mut().zip(&endpoints) {
            server.tell(&client.line());
            client.tell(endpoint);
        }
        assert_eq!(server.line(), "ready");
        for client in &mut clients {
            client.tell("go");
        }
        for client in clients {
            client.end("a client");
        }
        server.end("the server");
        assert!(!leaves_something(&launch.fabric.unwrap_or_default()));
    }
}

/// Offers memory to a peer. At the end, all its bytes must equal the byte that the test sends.
fn be_target() {
    let node = Node::open(8192, 1);
    say(node.endpoint(0));
    node.connect(0, &hear().parse().expect("an endpoint"));
    say("ready");
    let byte: u8 = hear().parse().expect("a byte");
    assert!(node.is_all(0, 8192, byte), "not all bytes are {byte}");
}

/// Forks with registered memory and a connected QP, and then uses both. `child` names the child's action.
fn fork_and_go_on(child: &str) {
    fork_init();
    let node = Node::open(8192, 1);
    say(node.endpoint(0));
    let target: Endpoint = hear().parse().expect("an endpoint");
    node.connect(0, &target);
    let whole: &[(usize, u32)] = &[(0, 8192)];
    node.fill(0, 8192, 1);
    node.carry_out(0, SendOp::Write(target.at(0)), whole);
    // SAFETY: the child calls only functions that are safe if other threads held locks.
    let forked = unsafe { libc::fork() };
    assert!(forked >= 0);
    if forked == 0 {
        let copied = node.is_all(0, 8192, 1);
        node.fill(0, 8192, 0xee);
        // SAFETY: the arguments are C strings. No branch returns.
        unsafe {
            match child {
                _ if !copied => libc::_exit(3),
                "execs" => {
                    let name = c"/bin/true".as_ptr();
                    libc::execl(name, name, std::ptr::null::<libc::c_char>());
                    libc::_exit(4)
                }
                "exits" => libc::exit(0),
                _ => {
                    libc::kill(libc::getpid(), libc::SIGKILL);
                    libc::_exit(5)
                }
            }
        }
    }
    let status = wait_for(forked);
    let as_wanted = if child == "dies" { libc::WIFSIGNALED(status) } else { status == 0 };
    assert!(as_wanted, "the child ended with {status:#x}");
    assert!(node.is_all(0, 8192, 1), "the child wrote into its parent's memory");
    for byte in 2..=9 {
        node.fill(0, 8192, byte);
        node.carry_out(0, SendOp::Write(target.at(0)), whole);
        node.fill(0, 8192, 0);
        node.carry_out(0, SendOp::Read(target.at(0)), whole);
        assert!(node.is_all(0, 8192, byte));
    }
}

fn wait_for(child: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    // SAFETY: the child and the variable belong to this test.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

#[test]
fn a_fork_leaves_the_parent_as_it_was() {
    for launch in launches() {
        for child in ["exits", "execs", "dies"] {
            let mut target = Running::new(&launch, HERE, "target");
            let endpoint = target.line();
            let mut parent = Running::new(&launch, HERE, &format!("forks {child}"));
            target.tell(&parent.line());
            assert_eq!(target.line(), "ready");
            parent.tell(&endpoint);
            parent.end("the parent");
            target.tell("9");
            target.end("the target");
        }
        assert!(!leaves_something(&launch.fabric.unwrap_or_default()));
    }
}

/// Forks a child that opens the device too. Parent and child write to each other's memory.
fn meet_child() {
    fork_init();
    let node = Node::open(4096, 1);
    let (mut from_child, mut to_parent) = std::io::pipe().expect("a pipe");
    let (mut from_parent, mut to_child) = std::io::pipe().expect("a pipe");
    let line = |from: &mut std::io::PipeReader| {
        let mut bytes = [0; 64];
        std::io::Read::read_exact(from, &mut bytes).expect("the other side has written");
        String::from_utf8_lossy(&bytes).trim().parse::<Endpoint>().expect("an endpoint")
    };
    // SAFETY: this process has no other thread that allocates.
    let forked = unsafe { libc::fork() };
    assert!(forked >= 0);
    if forked == 0 {
        end_in_time();
        let own = Node::open(4096, 1);
        write!(to_parent, "{:<64}", own.endpoint(0)).expect("it can be written");
        exchange(own, &line(&mut from_parent), 7);
        // Exits with its exit handlers, like any program.
        // SAFETY: the call takes only a number.
        unsafe { libc::exit(0) }
    }
    write!(to_child, "{:<64}", node.endpoint(0)).expect("it can be written");
    let child = line(&mut from_child);
    exchange(node, &child, 8);
    assert_eq!(wait_for(forked), 0);
}

/// Fills the upper half of the peer's memory with `byte`. Waits until the peer has filled this node's upper
/// half.
fn exchange(node: Node, peer: &Endpoint, byte: u8) {
    node.post_recv(0, 1, &[]);
    node.connect(0, peer);
    node.fill(0, 2048, byte);
    let list = [
        Wr { op: SendOp::Write(peer.at(2048)), buffers: &[(0, 2048)], flags: 0 },
        Wr { op: SendOp::Send, buffers: &[], flags: SIGNALED },
    ];
    node.post(0, &list);
    node.completions(2);
    assert!(node.is_all(2048, 2048, 15 - byte), "the peer's bytes are not there");
}

#[test]
fn a_child_can_open_the_device_itself() {
    for launch in launches() {
        Running::new(&launch, HERE, "meets-child").end("parent and child");
        assert!(!leaves_something(&launch.fabric.unwrap_or_default()));
    }
}

/// Serves a peer by a thread of a child, whose main thread has ended. The child registers its heap, or a
/// System V segment.
fn outlive_main_thread(memory: &str) {
    let is_system_v = memory == "system-v";
    // SAFETY: the child begins with this thread only, and uses no lock of another thread.
    let forked = unsafe { libc::fork() };
    assert!(forked >= 0);
    if forked == 0 {
        std::thread::spawn(move || {
            let served = std::panic::catch_unwind(|| serve_without_main_thread(is_system_v));
            // SAFETY: the call takes only a number.
            unsafe { libc::exit(served.is_err().into()) }
        });
        // Ends this thread as pthread_exit(3) does, but without unwinding.
        // SAFETY: nothing of this thread's stack is used any more.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    assert_eq!(wait_for(forked), 0);
}

/// Bytes of the memory of both sides. A peer writes the first half.
const BOTH_HALVES: usize = 4096;
const HALF: usize = BOTH_HALVES / 2;

fn serve_without_main_thread(is_system_v: bool) {
    end_in_time();
    while thread_state(std::process::id()) != Some('Z') {
        std::thread::yield_now();
    }
    let mut node = Node::open(BOTH_HALVES, 0);
    if is_system_v {
        // SAFETY: the calls create a new segment and a new mapping.
        let memory = unsafe {
            let id = libc::shmget(libc::IPC_PRIVATE, BOTH_HALVES, 0o600);
            let memory = libc::shmat(id, std::ptr::null(), 0);
            libc::shmctl(id, libc::IPC_RMID, null_mut());
            memory
        };
        node.register(memory, BOTH_HALVES);
    }
    let (channel, cq) = node.sleeping_cq(8);
    node.cq = cq;
    node.add_qp(QpType::Rc, cq, null_mut());
    node.post_recv(0, 1, &[]);
    // SAFETY: the CQ is live.
    unsafe { (*node.context).ops.req_notify_cq.expect("it is served")(cq, 0) };
    say(node.endpoint(0));
    let peer: Endpoint = hear().parse().expect("an endpoint");
    node.connect(0, &peer);
    say("ready");
    let (mut of, mut context) = (null_mut(), null_mut());
    let got = call!(c"ibv_get_cq_event"(
        channel => *mut ibv_comp_channel, &raw mut of => *mut *mut ibv_cq,
        &raw mut context => *mut *mut c_void
    ) -> c_int);
    assert_eq!(got, 0);
    node.completions(1);
    assert!(node.is_all(0, HALF, 7) && node.read(HALF, 1) == [5]);
    node.fill(0, HALF, 8);
    node.carry_out(0, SendOp::Write(peer.at(0)), &[(0, HALF as u32)]);
    node.carry_out(0, SendOp::Send, &[]);
}

fn meet_without_main_thread() {
    let node = Node::open(BOTH_HALVES, 1);
    node.post_recv(0, 1, &[]);
    say(node.endpoint(0));
    let peer: Endpoint = hear().parse().expect("an endpoint");
    node.connect(0, &peer);
    assert_eq!(hear(), "go");
    node.fill(0, HALF, 7);
    node.carry_out(0, SendOp::Write(peer.at(0)), &[(0, HALF as u32)]);
    node.carry_out(0, SendOp::Read(peer.at(0)), &[(HALF, HALF as u32)]);
    assert!(node.is_all(HALF, HALF, 7));
    node.carry_out(0, SendOp::FetchAdd { remote: peer.at(HALF), add: 5 }, &[(HALF, 8)]);
    node.carry_out(0, SendOp::Send, &[]);
    node.completions(1);
    assert!(node.is_all(0, HALF, 8), "the peer has written before it sends");
}

#[test]
fn a_process_whose_main_thread_has_ended_is_reached() {
    let served = Launch { ptrace: Ptrace::No, ..launch(Link::Ib) };
    for launch in launches().into_iter().chain([served]) {
        for memory in ["heap", "system-v"] {
            let role = format!("without-main-thread {memory}");
            let mut server = Running::new(&launch, HERE, &role);
            let mut client = Running::new(&launch, HERE, "meets-without-main-thread");
            let endpoint = server.line();
            server.tell(&client.line());
            assert_eq!(server.line(), "ready");
            client.tell(&endpoint);
            client.tell("go");
            client.end("the client");
            server.end(&role);
        }
        assert!(!leaves_something(&launch.fabric.unwrap_or_default()));
    }
}

#[test]
fn programs_of_all_kinds_at_once() {
    let launch = launch(Link::Ib);
    let programs: [(&str, &[&str], &str); 6] = [
        ("ib_write_bw", &["-n", "20000", "-s", "4096"], "20000"),
        ("ib_send_lat", &["-n", "5000", "-s", "32"], "5000"),
        ("ib_read_bw", &["-n", "5000", "-q", "4"], "20000"),
        ("ib_atomic_bw", &["-n", "5000"], "5000"),
        ("ib_send_bw", &["-n", "5000", "-c", "UD", "-s", "1024"], "5000"),
        // With `-c`, this program checks the bytes that it receives.
        ("ibv_rc_pingpong", &["-n", "5000", "-c", "-e"], "5000 iters"),
    ];
    if programs.iter().any(|(program, ..)| installed(program).is_none()) {
        return;
    }
    std::thread::scope(|scope| {
        for (program, arguments, said) in programs {
            let launch = &launch;
            scope.spawn(move || {
                let output = pair(launch, program, arguments).expect("it is installed");
                assert!(output.contains(said), "{program}: {output}");
            });
        }
    });
    assert!(!leaves_something(&launch.fabric.unwrap_or_default()));
}

#[test]
fn what_killed_processes_leave_goes_with_the_next_one() {
    let launch = launch(Link::Ib);
    let mut both = ["target", "target"].map(|role| Running::new(&launch, HERE, role));
    for program in &mut both {
        program.line();
    }
    for program in &mut both {
        program.child.kill().expect("it can be killed");
        program.child.wait().expect("it ends");
    }
    let killed = launch.fabric.unwrap_or_default();
    // A process of another fabric removes the dead fabric's files.
    let other = common::launch(Link::Ib);
    let mut next = Running::new(&other, HERE, "target");
    let endpoint = next.line();
    assert!(!leaves_something(&killed), "the fabric {killed} is still there");
    next.tell(&endpoint);
    next.tell("0");
    next.end("the next process");
    assert!(!leaves_something(&other.fabric.unwrap_or_default()));
}

/// All nonzero words in the records and queues of this process's segment. The segment has several mappings.
fn words_in_use() -> Vec<*mut u32> {
    const BUFFERS_AT: usize = 1 << 30;
    let hexadecimal = |text: &str| usize::from_str_radix(text, 16).expect("a number");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("it can be read");
    let mapped = maps.lines().filter(|line| line.contains("memfd:doorbell") && line.contains(" rw-s "));
    let words = mapped.flat_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let (start, end) = fields[0].split_once('-').expect("two addresses");
        let (start, end) = (hexadecimal(start), hexadecimal(end));
        let is_record = hexadecimal(fields[2]) < BUFFERS_AT;
        (start..end).step_by(4).filter(move |_| is_record).map(|at| at as *mut u32)
    });
    // SAFETY: the addresses are within the mappings, which stay.
    words.filter(|word| unsafe { word.read_volatile() } != 0).collect()
}

/// Overwrites words of this process's own records until the test sends a line. Then restores the records, so
/// that the process can exit with success.
fn scribble() {
    let node = Node::open(4096, 1);
    say(node.endpoint(0));
    node.connect(0, &hear().parse().expect("an endpoint"));
    node.post_recv(0, 32, &[(0, 2048)]);
    let words: Vec<(*mut u32, u32)> = {
        let words = words_in_use();
        // SAFETY: the words are within mappings that stay.
        words.into_iter().map(|word| (word, unsafe { word.read_volatile() })).collect()
    };
    assert!(words.len() > 50, "{} words are in use", words.len());
    say("ready");
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let waits = done.clone();
    std::thread::spawn(move || {
        hear();
        waits.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let mut random = Xoshiro256PlusPlus::seed_from_u64(0x5eed_0002);
    while !done.load(std::sync::atomic::Ordering::Relaxed) {
        let (word, right) = words[random.next_u64() as usize % words.len()];
        // The value has a random magnitude, so many values are just in or just out of range.
        let wrong = random.next_u32() >> (random.next_u32() % 32);
        // SAFETY: the words are within mappings that stay.
        unsafe { word.write_volatile(wrong) };
        // Keeps the value for the duration of a few requests of the peer.
        (0..random.next_u64() % 20_000).for_each(|_| std::hint::spin_loop());
        // Restores most words, so that some requests succeed.
        if !random.next_u64().is_multiple_of(16) {
            // SAFETY: the words are within mappings that stay.
            unsafe { word.write_volatile(right) };
        }
        if random.next_u64().is_multiple_of(64) {
            // SAFETY: the words are within mappings that stay.
            words.iter().for_each(|(word, right)| unsafe { word.write_volatile(*right) });
        }
    }
    // SAFETY: the words are within mappings that stay.
    words.iter().for_each(|(word, right)| unsafe { word.write_volatile(*right) });
}

/// Sends requests of several kinds to a process that overwrites its own records.
fn meet_scribbler() {
    const OWN: usize = 4096;
    let node = Node::open(2 * OWN, 1);
    say(node.endpoint(0));
    let peer: Endpoint = hear().parse().expect("an endpoint");
    let retries = Retries { timeout: 1, retry_cnt: 1, rnr_retry: 1 };
    node.connect_with(0, &peer, retries);
    assert_eq!(hear(), "go");
    // No request names this memory, so it must not change.
    node.fill(OWN, OWN, 0x5a);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(0x5eed_0003);
    let (mut succeeded, mut failed) = (0, 0);
    let begin = std::time::Instant::now();
    // On a busy machine, the requests go on until some have succeeded and some have failed.
    while begin.elapsed() < std::time::Duration::from_secs(4) || succeeded == 0 || failed == 0 {
        assert!(begin.elapsed() < HANGS, "{succeeded} succeeded, {failed} failed");
        let op = match random.next_u64() % 5 {
            0 => SendOp::Write(peer.at(0)),
            1 => SendOp::Read(peer.at(0)),
            2 => SendOp::FetchAdd { remote: peer.at(0), add: 1 },
            3 => SendOp::SendWithImm(1),
            _ => SendOp::Send,
        };
        let atomic = matches!(op, SendOp::FetchAdd { .. });
        let bytes = if atomic { 8 } else { [8, 64, 1024, 4000][random.next_u64() as usize % 4] };
        let inline = if bytes <= 64 && !matches!(op, SendOp::Read(_)) && !atomic { INLINED } else { 0 };
        node.post(0, &[Wr { op, buffers: &[(0, bytes)], flags: SIGNALED | inline }]);
        // A request may wait long for a lock whose holder seems to be alive.
        let posted = std::time::Instant::now();
        let wc = loop {
            if let Some(wc) = node.poll() {
                break wc;
            }
            assert!(posted.elapsed() < HANGS, "a request neither succeeds nor fails");
        };
        assert_eq!(wc.wr_id, 0);
        if wc.status == 0 {
            succeeded += 1;
        } else {
            failed += 1;
            node.reset(0);
            node.connect_with(0, &peer, retries);
        }
    }
    assert!(node.is_all(OWN, OWN, 0x5a), "memory was written that no request names");
    println!("{succeeded} succeeded, {failed} failed");
}

#[test]
fn a_neighbour_that_scribbles_over_its_records_does_no_harm() {
    for launch in launches() {
        let mut scribbler = Running::new(&launch, HERE, "scribbles");
        let endpoint = scribbler.line();
        let mut other = Running::new(&launch, HERE, "meets-scribbler");
        scribbler.tell(&other.line());
        assert_eq!(scribbler.line(), "ready");
        other.tell(&endpoint);
        other.tell("go");
        other.end("the neighbour of a process that scribbles");
        // The scribbler may have crashed: if its records give wrong addresses, its peer writes there.
        let _ = writeln!(scribbler.hears, "enough");
        scribbler.child.wait().expect("it ends");
    }
}
