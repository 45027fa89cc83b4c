//! Two processes that check what a NIC guarantees about data. An *asker* sends requests, and an *owner*
//! answers them and owns the memory. Each process works in threads of its own, so that its actor answers
//! commands while such a thread is held at a point.
//!
//! A round of the asker has these steps. Each line names the guarantee that it checks.
//! 1. It SENDs a request. In the same instant, it READs the request's RECV buffer, and WRITEs to this buffer.
//!    The READ has the payload of the SEND, and the WRITE's bytes stay. The completion of the SEND precedes
//!    the owner's answer, which another thread polls.
//! 2. It WRITEs to a range that the owner reads all the time. Each aligned word is old or new. If the device
//!    promises an order of the bytes, they appear in this order.
//! 3. It adds to a word that both processes have registered, and swaps another such word. No addition and no
//!    swap is lost. Each result is in the requester's buffer when the completion is polled.
//! 4. It WRITEs to memory whose rights the owner soon revokes. No byte changes after the revocation.
//! 5. In some rounds, it SENDs on a second QP, which the owner destroys before it polls. All completions that
//!    arrived before are still there.

mod asker;
mod owner;

use super::super::Patience;
use super::super::own_time::HANGS;
use super::parts::{Queue, queue, register};
use super::server::system_v;
use crate::fabric::process::Process;
use crate::memory::arena;
use crate::queues::cq::Cq;
use crate::sync::lock;
use asker::Asker;
use doorbell_abi::{CEnum, ibv_wc};
use doorbell_verbs::*;
use owner::Owner;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time-out of the QPs, 2^20 times 4.096 us: requests wait for a process that is held or stopped.
const PATIENCE: Patience = Patience { timeout: 20, rnr_retry: 7 };
/// Number of RECVs of a QP, and bytes of a RECV's buffer.
const RECVS: u64 = 8;
const RECV_BYTES: u64 = 1024;
/// Bytes of a request's head, which no later WRITE changes.
const HEAD: usize = 64;
/// Lengths of requests. Payloads of up to 224 bytes wait in the receive queue.
const LENGTHS: [usize; 5] = [72, 100, 224, 300, 199];
/// Number of kinds of memory: private, in the arena, and System V. Bytes of the memory that WRITEs change.
const KINDS: usize = 3;
const PRIVATE: usize = 0;
const TARGET: usize = 8192;
/// Bytes of the memory whose rights the owner revokes, and the bytes that the asker writes there.
const OFFERED: usize = 4096;
const WRITTEN: u8 = 0xab;
/// Number of SENDs to a QP that the owner destroys soon.
const BRIEF_SENDS: u64 = 3;
/// Marks of the numbers of completions: of WRITEs and READs, and of atomics.
const MARK: u64 = 1 << 40;
const ATOMIC: u64 = 2 << 40;
/// The value of a result's buffer before the request. No atomic finds this value.
const NO_RESULT: u64 = u64::MAX;
/// Offsets of the shared words for additions and for swaps, in bytes.
const ADDED: u64 = 0;
const SWAPPED: u64 = 8;
/// The most findings that are reported.
const MOST: usize = 4;

/// Memory of this process that peers may access.
#[derive(Clone, Copy)]
struct Memory {
    addr: u64,
    key: u32,
}

impl Memory {
    fn new(process: &'static Process, addr: u64, bytes: usize) -> Memory {
        Memory { addr, key: register(process, addr, bytes) }
    }

    fn at(self, offset: u64) -> RemoteAddr {
        RemoteAddr { addr: self.addr + offset, rkey: self.key }
    }

    fn sge(self, offset: u64, len: usize) -> [Sge; 1] {
        [Sge { addr: self.addr + offset, length: len as u32, lkey: self.key }]
    }

    /// The bytes from `offset` on. Only atomics access them, because peers write them meanwhile.
    fn bytes(self, offset: u64, len: usize) -> &'static [AtomicU8] {
        // SAFETY: the memory stays mapped until the process exits.
        unsafe { std::slice::from_raw_parts((self.addr + offset) as *const AtomicU8, len) }
    }

    fn word(self, offset: u64) -> &'static AtomicU64 {
        // SAFETY: as above, and the offset is a multiple of 8.
        unsafe { &*((self.addr + offset) as *const AtomicU64) }
    }

    fn fill(self, offset: u64, len: usize, value: u8) {
        self.bytes(offset, len).iter().for_each(|byte| byte.store(value, Relaxed));
    }
}

/// Addresses of memory of each kind.
fn of_each_kind(bytes: usize) -> [u64; KINDS] {
    let private = || {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the mapping is new.
        let addr = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        assert_ne!(addr, libc::MAP_FAILED, "memory");
        addr as u64
    };
    [private(), arena::alloc_own(bytes).expect("an arena") as u64, system_v(bytes)]
}

/// Maps a file that both processes share.
fn shared_file(path: &str) -> u64 {
    let file = std::fs::File::options().read(true).write(true).open(path).expect("the file exists");
    let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
    // SAFETY: the mapping is new, and the file has a page.
    let addr = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, libc::MAP_SHARED, fd, 0) };
    assert_ne!(addr, libc::MAP_FAILED, "memory");
    addr as u64
}

/// The results of a process of a pair.
#[derive(Default)]
pub(super) struct Found {
    pub(super) wrong: Mutex<Vec<String>>,
    pub(super) rounds: AtomicU64,
    /// Numbers of additions and of successful swaps of the words that both processes have registered.
    adds: AtomicU64,
    swaps: AtomicU64,
    stop: AtomicBool,
    is_over: AtomicBool,
}

impl Found {
    fn say(&self, what: String) {
        let mut wrong = lock(&self.wrong);
        if wrong.len() < MOST {
            wrong.push(what);
        }
    }
}

/// What a process of a pair has: its QPs, and the memory that its peer may access.
pub(super) struct Half {
    process: &'static Process,
    main: Queue,
    /// The QP of WRITEs to memory whose rights are revoked. UC ignores requests without rights.
    uc: Queue,
    inbox: Memory,
    /// Memory of each kind: targets of checked WRITEs, and memory whose rights are revoked.
    targets: [Memory; KINDS],
    offered: [u64; KINDS],
    /// The words that both processes register.
    shared: Memory,
    found: Arc<Found>,
}

/// The memory of the peer.
#[derive(Clone, Copy)]
struct There {
    inbox: Memory,
    targets: [Memory; KINDS],
    shared: Memory,
}

/// A thread of this process that works as a half of a pair.
pub(super) struct Pair {
    half: Option<Half>,
    shared: Memory,
    pub(super) found: Arc<Found>,
}

impl Pair {
    pub(super) fn new(process: &'static Process, path: &str) -> Pair {
        let inbox = arena::alloc_own((RECVS * RECV_BYTES) as usize).expect("an arena") as u64;
        let found = Arc::new(Found::default());
        let half = Half {
            process,
            main: queue(process, QpType::Rc, None, None),
            uc: queue(process, QpType::Uc, None, None),
            inbox: Memory::new(process, inbox, (RECVS * RECV_BYTES) as usize),
            targets: of_each_kind(TARGET).map(|addr| Memory::new(process, addr, TARGET)),
            offered: of_each_kind(OFFERED),
            shared: Memory::new(process, shared_file(path), 4096),
            found: found.clone(),
        };
        Pair { shared: half.shared, half: Some(half), found }
    }

    /// The numbers that the peer needs.
    pub(super) fn about(&self) -> Vec<u64> {
        let Some(half) = &self.half else { return Vec::new() };
        let memory = [&half.inbox].into_iter().chain(&half.targets).chain([&half.shared]);
        let numbers = [u64::from(half.main.qp.num()), u64::from(half.uc.qp.num())];
        numbers.into_iter().chain(memory.flat_map(|memory| [memory.addr, memory.key.into()])).collect()
    }

    /// Connects to the peer with these numbers, and begins.
    pub(super) fn begin(&mut self, (asks, may_be_stopped): (bool, bool), numbers: &[u64]) {
        let Some(half) = self.half.take() else { return };
        let memory = |n: usize| Memory { addr: numbers[2 + 2 * n], key: numbers[3 + 2 * n] as u32 };
        let there = There { inbox: memory(0), targets: [memory(1), memory(2), memory(3)], shared: memory(4) };
        let uc = numbers[1] as u32;
        half.main.connect(numbers[0] as u32, PATIENCE);
        half.uc.connect(uc, PATIENCE);
        (0..RECVS).for_each(|slot| half.post_recv(slot));
        std::thread::spawn(move || {
            let found = half.found.clone();
            if asks {
                Asker::new(half, there).run();
            } else {
                Owner::new(half, there, uc, may_be_stopped).run();
            }
            found.is_over.store(true, Release);
        });
    }

    /// Ends the work after the current round, which may last for `patience`. Returns the number of additions
    /// and the value of their word, and the number of successful swaps and the value of their word.
    pub(super) fn rest(&self, patience: Duration) -> [u64; 4] {
        self.found.stop.store(true, Release);
        let begin = Instant::now();
        while !self.found.is_over.load(Acquire) && begin.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !self.found.is_over.load(Acquire) {
            self.found.say("a round does not end".to_owned());
        }
        let value = |offset: u64| self.shared.word(offset).load(Acquire);
        let Found { adds, swaps, .. } = &*self.found;
        [adds.load(Acquire), value(ADDED), swaps.load(Acquire), value(SWAPPED)]
    }
}

impl Half {
    fn post_recv(&self, slot: u64) {
        let sge = self.inbox.sge(slot * RECV_BYTES, RECV_BYTES as usize);
        if let Err(errno) = self.main.qp.post_recv(slot, &sge) {
            self.found.say(format!("posting a RECV gives {}", errno.errno()));
        }
    }

    fn poll(&self, cq: &Cq) -> Option<ibv_wc> {
        let mut wcs = [ibv_wc::default()];
        match cq.poll(&mut wcs) {
            Ok(0) => None,
            Ok(_) => Some(wcs[0]),
            Err(errno) => {
                self.found.say(format!("a poll gives {}", errno.0));
                None
            }
        }
    }
}

fn is_recv(wc: &ibv_wc) -> bool {
    wc.opcode >= WcOpcode::Recv.to_c()
}

/// A byte of request `number`.
fn byte_of(number: u64, at: usize) -> u8 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (8 * (at % 7))) as u8 ^ at as u8
}

/// The byte that the WRITE after request `number` stores.
fn later_byte(number: u64) -> u8 {
    (number % 251) as u8 + 1
}

fn length(number: u64) -> usize {
    LENGTHS[number as usize % LENGTHS.len()]
}

/// The words of a request's head, in this order:
/// 1. the number of the request
/// 2. to 4. the range of the WRITEs that follow: kind of memory, offset, length
/// 5. whether these WRITEs are a burst
/// 6. the number of the last offer that the asker has seen
/// 7. the number of the asker's brief QP, or `SENT`
type Head = [u64; 7];
/// The words of an answer: the number of the request, the number of the offer, its address and key, and the
/// owner's brief QP.
type Answer = [u64; 5];
/// The asker has sent all messages to the owner's brief QP.
const SENT: u64 = u64::MAX;
/// The asker ends. The owner's last answer consists of this word.
const BYE: u64 = u64::MAX;

/// The atomics of one process on the shared words. One atomic is outstanding at a time.
#[derive(Default)]
struct Atomics {
    /// The value that the last addition has found.
    added: Option<u64>,
    /// The value of the word after the last swap of this process.
    swapped: u64,
    /// Whether the outstanding atomic is a swap. Additions and swaps alternate.
    is_swap: bool,
}

impl Atomics {
    /// The next atomic: an addition of 1, or a swap that adds 1 if the word is unchanged since the last swap
    /// of this process. Marks the buffer `result` as empty.
    fn next(&mut self, shared: Memory, result: &AtomicU64) -> SendOp {
        result.store(NO_RESULT, Relaxed);
        self.is_swap = !self.is_swap;
        match self.is_swap {
            true => {
                let compare = self.swapped;
                SendOp::CompareSwap { remote: shared.at(SWAPPED), compare, swap: compare + 1 }
            }
            false => SendOp::FetchAdd { remote: shared.at(ADDED), add: 1 },
        }
    }

    /// Checks the value that the outstanding atomic has found, and counts the atomic.
    fn check(&mut self, found: &Found, result: &AtomicU64) {
        let before = result.load(Relaxed);
        match self.is_swap {
            true => self.check_swap(found, before),
            false => self.check_addition(found, before),
        }
    }

    fn check_addition(&mut self, found: &Found, before: u64) {
        found.adds.fetch_add(1, AcqRel);
        if before == NO_RESULT {
            return found.say("the completion of an addition precedes its result".to_owned());
        }
        if let Some(last) = self.added.filter(|last| before <= *last) {
            found.say(format!("an addition finds {before} after {last}"));
        }
        self.added = Some(before);
    }

    fn check_swap(&mut self, found: &Found, before: u64) {
        if before == NO_RESULT {
            return found.say("the completion of a swap precedes its result".to_owned());
        }
        let expected = self.swapped;
        if before < expected {
            found.say(format!("a swap finds {before}, but the word was {expected} before"));
        }
        let is_done = before == expected;
        found.swaps.fetch_add(is_done.into(), AcqRel);
        self.swapped = if is_done { before + 1 } else { before };
    }
}

/// Creates the file that both processes of a pair map.
pub(super) fn create_shared(path: &std::path::Path) {
    std::fs::write(path, [0; 4096]).expect("a file");
}
