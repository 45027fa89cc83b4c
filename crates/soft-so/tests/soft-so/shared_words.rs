//! Tests atomics on memory that several processes share and register. No addition to a word is lost,
//! whichever region the requests name.

use crate::common::own_time::HANGS;
use crate::common::running::{end_in_time, role, told};
use crate::common::verbs::{Endpoint, Node, Retries};
use crate::common::{finish, launch, own_program, text};
use doorbell_launch::{Launch, Link, Ptrace};
use doorbell_verbs::SendOp;
use libc::{c_int, c_void, pid_t};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// Kinds of memory that processes share. Huge pages are skipped if the kernel has none. Doorbell's library
/// replaces those of System V segments by usual pages then.
const KINDS: [&str; 9] = [
    "anonymous",
    "memfd",
    "sealed memfd",
    "POSIX",
    "file",
    "System V",
    "huge anonymous",
    "huge memfd",
    "huge System V",
];
/// Bytes of the memory: a huge page.
const BYTES: usize = 2 << 20;
/// Time for which each process adds. The kernel lets processes with one processor take turns meanwhile.
const TIME: Duration = Duration::from_millis(100);
/// Offsets of two words that only the processes themselves change: the number of processes that are ready to
/// add, and the number of additions of all processes.
const READY: usize = BYTES / 2;
const ADDED: usize = READY + 64;
/// Time-out of the QPs, 4.3 s: a process may hold a word's lock while it waits for a processor.
const PATIENT: Retries = Retries { timeout: 20, retry_cnt: 7, rnr_retry: 7 };
/// Number of owners, each of which has a region of the memory and a client.
const PAIRS: usize = 2;
/// The program's last word if the kernel has no huge page.
const SKIPPED: &str = "no huge page is free";

/// The program that the tests start. Forks the owners and clients, and checks the word at the end.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    let kind = role();
    let Some(memory) = shared(&kind) else { return println!("{SKIPPED}") };
    let children: Vec<pid_t> = (0..PAIRS).flat_map(|pair| start_pair(pair, memory)).collect();
    for child in children {
        let mut status = 0;
        // SAFETY: the child and the variable belong to this function.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "{kind}: a process failed");
    }
    let [word, added] = [0, ADDED].map(|at| own_word(memory, at).load(SeqCst));
    assert_eq!(word, added, "{kind}: additions are lost");
}

/// The word at this offset, which this process accesses by the processor.
fn own_word(memory: *mut c_void, at: usize) -> &'static AtomicU64 {
    // SAFETY: the word is aligned, and the memory stays mapped.
    unsafe { &*memory.byte_add(at).cast() }
}

/// Memory of this kind, which children of this process inherit. `None` if no huge page is free.
fn shared(kind: &str) -> Option<*mut c_void> {
    let (is_huge, kind) = kind.strip_prefix("huge ").map_or((false, kind), |kind| (true, kind));
    let if_huge = |flag: c_int| if is_huge { flag } else { 0 };
    // SAFETY: the calls create new files, segments and mappings. The names are C strings.
    let memory = unsafe {
        match kind {
            "anonymous" => map(-1, libc::MAP_ANONYMOUS | if_huge(libc::MAP_HUGETLB)),
            "System V" => {
                let id = libc::shmget(libc::IPC_PRIVATE, BYTES, 0o600 | if_huge(libc::SHM_HUGETLB));
                let memory = libc::shmat(id, null(), 0);
                libc::shmctl(id, libc::IPC_RMID, null_mut());
                memory
            }
            "file" => map_file(tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).expect("a file")),
            "POSIX" => {
                let name = std::ffi::CString::new(format!("/words-{}", std::process::id())).expect("a name");
                let file = libc::shm_open(name.as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600);
                assert_eq!(libc::shm_unlink(name.as_ptr()), 0);
                map_file(File::from_raw_fd(file))
            }
            _ => {
                let flags = libc::MFD_ALLOW_SEALING | if is_huge { libc::MFD_HUGETLB } else { 0 };
                let file = File::from_raw_fd(libc::memfd_create(c"words".as_ptr(), flags));
                let fd = file.as_raw_fd();
                let memory = map_file(file);
                if kind.starts_with("sealed") {
                    assert_eq!(libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK), 0);
                }
                memory
            }
        }
    };
    let is_mapped = memory != libc::MAP_FAILED;
    assert!(is_mapped || is_huge, "{kind}: {}", std::io::Error::last_os_error());
    is_mapped.then_some(memory)
}

/// Maps a file, which stays open so that peers can find it.
fn map_file(file: File) -> *mut c_void {
    file.set_len(BYTES as u64).expect("its size");
    let memory = map(file.as_raw_fd(), 0);
    std::mem::forget(file);
    memory
}

fn map(fd: c_int, flags: c_int) -> *mut c_void {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    unsafe { libc::mmap(null_mut(), BYTES, protection, libc::MAP_SHARED | flags, fd, 0) }
}

/// Moves the mapping to another address.
fn moved(memory: *mut c_void) -> *mut c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the new mapping lies within a reservation of this function.
    let moved = unsafe {
        let reserved = libc::mmap(null_mut(), 2 * BYTES, libc::PROT_NONE, flags, -1, 0);
        let to = reserved.map_addr(|at| at.next_multiple_of(BYTES));
        libc::mremap(memory, BYTES, BYTES, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, to)
    };
    assert_ne!(moved, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    moved
}

/// Starts an owner of the memory, and a client of the owner.
fn start_pair(pair: usize, memory: *mut c_void) -> [pid_t; 2] {
    let (client, owner) = UnixStream::pair().expect("a pair of sockets");
    [child(|| own(pair, memory, &client)), child(|| ask(memory, &owner))]
}

fn child(run: impl FnOnce()) -> pid_t {
    // SAFETY: this process has no other thread that allocates.
    let forked = unsafe { libc::fork() };
    assert!(forked >= 0);
    if forked > 0 {
        return forked;
    }
    end_in_time();
    let ran = catch_unwind(AssertUnwindSafe(run));
    // SAFETY: the call takes only a number.
    unsafe { libc::exit(ran.is_err().into()) }
}

/// Registers the memory, adds to its first word, and waits for the client. The second owner has the memory at
/// another address.
fn own(pair: usize, memory: *mut c_void, client: &UnixStream) {
    let mut node = Node::open(4096, 2);
    let memory = if pair == 0 { memory } else { moved(memory) };
    node.register(memory, BYTES);
    connect(&node, client);
    let own = node.endpoint(1);
    node.connect_with(1, &own, PATIENT);
    add((&node, 1), &own, memory, 64 + 64 * pair);
    told(client, &node, 0);
}

fn ask(memory: *mut c_void, owner: &UnixStream) {
    let node = Node::open(4096, 1);
    let peer = connect(&node, owner);
    add((&node, 0), &peer, memory, 0);
    told(owner, &node, 0);
}

/// Connects the first QP to the peer's.
fn connect(node: &Node, stream: &UnixStream) -> Endpoint {
    let peer = told(stream, node, 0);
    node.connect_with(0, &peer, PATIENT);
    // The second exchange shows that the peer is ready too.
    told(stream, node, 0)
}

/// Waits until all processes are ready to add, so that their additions meet.
fn wait_for_all(memory: *mut c_void) {
    let ready = own_word(memory, READY);
    ready.fetch_add(1, SeqCst);
    let begin = Instant::now();
    while ready.load(SeqCst) < 2 * PAIRS as u64 {
        assert!(begin.elapsed() < HANGS, "a process does not come");
        std::thread::yield_now();
    }
}

/// Adds 1 to the first word of the peer's memory for some time, in turn by an addition and by swaps. Their
/// results go to the offset `into` of this node's memory. `memory` is this process's mapping.
fn add((node, qp): (&Node, usize), peer: &Endpoint, memory: *mut c_void, into: usize) {
    let (remote, result) = (peer.at(0), [(into, 8)]);
    let found = || u64::from_ne_bytes(*node.read(into, 8).first_chunk().expect("8 bytes"));
    wait_for_all(memory);
    let (begin, mut added) = (Instant::now(), 0);
    while begin.elapsed() < TIME {
        node.carry_out(qp, SendOp::FetchAdd { remote, add: 1 }, &result);
        let mut compare = found() + 1;
        loop {
            node.carry_out(qp, SendOp::CompareSwap { remote, compare, swap: compare + 1 }, &result);
            if found() == compare {
                break;
            }
            compare = found();
        }
        added += 2;
    }
    own_word(memory, ADDED).fetch_add(added, SeqCst);
}

#[test]
fn no_addition_to_a_word_of_several_owners_is_lost() {
    for kind in KINDS {
        for ptrace in [Ptrace::Yes, Ptrace::No] {
            let launch = Launch { ptrace, ..launch(Link::Ib) };
            let child = own_program(&launch, HERE, kind).spawn().expect("it starts");
            let output = finish(child, kind);
            assert!(output.status.success(), "{kind}, {ptrace:?}: {}", text(&output));
            if text(&output).contains(SKIPPED) {
                eprintln!("skipped: {kind}, {SKIPPED}");
            }
        }
    }
}
