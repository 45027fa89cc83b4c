//! Tests atomics on memory that several processes share and register. No addition to a word is lost,
//! whichever region the requests name.

use crate::common::own_time::HANGS;
use crate::common::running::{end_in_time, exchanged, role, told};
use crate::common::verbs::{Endpoint, Node};
use crate::common::{finish, launch, own_program, text};
use doorbell_launch::{Launch, Link, Ptrace};
use doorbell_verbs::SendOp;
use libc::{c_int, c_void, pid_t};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

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
/// Number of additions of each process.
const ADDITIONS: u64 = 400;
/// Offset of a word by which all processes wait for each other, so that their additions meet.
const READY: usize = BYTES / 2;
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
    // SAFETY: the memory stays mapped, and nobody writes to it any more.
    let word = unsafe { memory.cast::<u64>().read_volatile() };
    assert_eq!(word, 2 * PAIRS as u64 * ADDITIONS, "{kind}: additions are lost");
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
    exchanged(client, &node, 0);
    let own = node.endpoint(1);
    node.connect(1, &own);
    wait_for_all(memory);
    add(&node, 1, &own, 64 + 64 * pair);
    told(client, &node, 0);
}

fn ask(memory: *mut c_void, owner: &UnixStream) {
    let node = Node::open(4096, 1);
    let peer = exchanged(owner, &node, 0);
    wait_for_all(memory);
    add(&node, 0, &peer, 0);
    told(owner, &node, 0);
}

fn wait_for_all(memory: *mut c_void) {
    // SAFETY: the word is mapped and aligned, and all processes use it in this way.
    let ready = unsafe { &*memory.byte_add(READY).cast::<AtomicUsize>() };
    ready.fetch_add(1, SeqCst);
    let begin = Instant::now();
    while ready.load(SeqCst) < 2 * PAIRS {
        assert!(begin.elapsed() < HANGS, "a process does not come");
        std::thread::yield_now();
    }
}

/// Adds 1 to the first word of the peer's memory again and again, in turn by an addition and by swaps. Their
/// results go to the offset `into` of this node's memory.
fn add(node: &Node, qp: usize, peer: &Endpoint, into: usize) {
    let (remote, result) = (peer.at(0), [(into, 8)]);
    let found = || u64::from_ne_bytes(*node.read(into, 8).first_chunk().expect("8 bytes"));
    for _ in 0..ADDITIONS / 2 {
        node.carry_out(qp, SendOp::FetchAdd { remote, add: 1 }, &result);
        let mut compare = found() + 1;
        loop {
            node.carry_out(qp, SendOp::CompareSwap { remote, compare, swap: compare + 1 }, &result);
            if found() == compare {
                break;
            }
            compare = found();
        }
    }
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
