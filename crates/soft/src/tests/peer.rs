//! The peer: a process that tests start as the other side. It carries out commands of the test.

use super::own_time::OwnTime;
use super::revoking::{CAUGHT, CAUGHT_AT};
use super::{PD, Patience, Side, rounds, scribble};
use crate::fabric::peer::Owner;
use crate::fabric::process::Process;
use crate::memory::copy::Piece;
use crate::memory::maps;
use crate::memory::objects::HostMemory;
use crate::memory::records::MrRecord;
use crate::memory::transfer::{self, Far};
use crate::point::{Point, arm};
use crate::rings::recvs::{Carried, Completer, RecvClaim, RecvDone, Slots};
use doorbell_abi::{CEnum, ibv_wc};
use doorbell_transport::{Keys, Region};
use doorbell_verbs::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::*};

/// An environment variable that is set in the peer's process.
const PEER: &str = "DOORBELL_TEST_PEER";
/// The prefix of the peer's answers. The test harness prints to the same pipe.
const ANSWER: &str = "answer:";

pub(super) const PAGE: usize = 4096;
/// The layout of a buffer of `BUFFER` bytes: bytes for one-sided requests from 0 on, buffers of RECVs from
/// `OPEN` on, and an unmapped page at `HOLE`.
pub(super) const OPEN: usize = 2 * PAGE;
pub(super) const HOLE: usize = 3 * PAGE;
pub(super) const BUFFER: usize = 5 * PAGE;
pub(super) const RECV_BYTES: usize = 256;
pub(super) const RECVS: usize = PAGE / RECV_BYTES;
/// Sizes of the queues.
const CAP: QpCap = QpCap {
    max_send_wr: 2048,
    max_recv_wr: RECVS as u32,
    max_send_sge: 2,
    max_recv_sge: 1,
    max_inline_data: 64,
};
const CQE: u32 = 4096;

/// Registered memory.
#[derive(Clone, Copy)]
pub(super) struct Buffer {
    pub(super) addr: u64,
    pub(super) key: u32,
}

/// Maps and registers a private buffer with a page that nobody may access. The page stays reserved: another
/// thread's mapping could fill a gap of one page, and requests would then reach that mapping.
pub(super) fn buffer(process: &'static Process) -> Buffer {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the mapping is new, and nothing uses its pages yet.
    let addr = unsafe {
        let addr = libc::mmap(std::ptr::null_mut(), BUFFER, protection, flags, -1, 0);
        assert_ne!(addr, libc::MAP_FAILED, "memory");
        assert_eq!(libc::mprotect(addr.byte_add(HOLE), PAGE, libc::PROT_NONE), 0, "a hole");
        addr as u64
    };
    Buffer { addr, key: register(process, addr) }
}

/// Creates memory that the program shares: `system-v`, `sealed` or `unsealed`. Returns the registered buffer,
/// the address of a second mapping, the System V identifier, and the file. All of it goes with the process.
fn shared(process: &'static Process, how: &str) -> (Buffer, u64, i32, Option<File>) {
    let twice = |map: &dyn Fn() -> *mut libc::c_void| {
        let (first, second) = (map(), map());
        assert!(first as isize != -1 && second as isize != -1, "{}", std::io::Error::last_os_error());
        (first as u64, second as u64)
    };
    let ((addr, second), id, file) = if how == "system-v" {
        // SAFETY: the calls create a new segment and new mappings of it.
        unsafe {
            let id = libc::shmget(libc::IPC_PRIVATE, BUFFER, 0o600);
            let both = twice(&|| libc::shmat(id, std::ptr::null(), 0));
            assert_eq!(libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()), 0, "it goes with its users");
            (both, id, None)
        }
    } else {
        // SAFETY: the calls create a new file and new mappings of it.
        unsafe {
            let fd = libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
            let file = File::from_raw_fd(fd);
            file.set_len(BUFFER as u64).expect("its size");
            if how == "sealed" {
                assert_eq!(libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK), 0, "a seal");
            }
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let map = || libc::mmap(std::ptr::null_mut(), BUFFER, protection, libc::MAP_SHARED, fd, 0);
            (twice(&map), 0, Some(file))
        }
    };
    (Buffer { addr, key: register(process, addr) }, second, id, file)
}

/// Allocates and registers a buffer in this process's arena. The buffer is never freed.
pub(super) fn arena(process: &'static Process) -> Buffer {
    let addr = crate::memory::arena::alloc_own(BUFFER).expect("there is room") as u64;
    Buffer { addr, key: register(process, addr) }
}

/// Arms a point by its number: the thread that reaches the point raises the signal.
fn signal_at(point: u32, signal: i32) {
    static SIGNAL: AtomicI32 = AtomicI32::new(0);
    fn raise() {
        // SAFETY: the call takes only a number.
        unsafe { libc::raise(SIGNAL.load(SeqCst)) };
    }
    SIGNAL.store(signal, SeqCst);
    let points =
        [Point::TakingBegun, Point::PlacingBegun, Point::PlacingEnds, Point::TurnPassed, Point::CellWritten];
    let point = points.into_iter().find(|of| *of as u32 == point).expect("one of these points");
    arm(point, 1, raise);
}

fn register(process: &'static Process, addr: u64) -> u32 {
    let region = Region { pd: PD, addr, len: BUFFER as u64, access: AccessFlags::all() };
    // Checks only the bytes before the unmapped page.
    let object = maps::check(addr..addr + HOLE as u64, maps::Wanted { write: true, atomics: true })
        .expect("it is mapped");
    process.regions.register(process.segment, region, HostMemory { addr, object }).expect("a region")
}

/// Registers the whole address space for local access, and returns the lkey.
pub(super) fn register_all(process: &'static Process) -> u32 {
    let region = Region { pd: PD, addr: 0, len: u64::MAX, access: AccessFlags::LOCAL_WRITE };
    process.regions.register(process.segment, region, 0).expect("a region")
}

/// Creates a QP that is not connected.
fn side(process: &'static Process, qp_type: QpType) -> Side {
    Side::new(process, qp_type, CAP, CQE)
}

/// Connects a QP to QP `dest` of the other process.
fn connect(side: &Side, dest: u32) {
    side.connect(dest, Patience { timeout: 10, rnr_retry: 7 });
}

impl Side {
    /// Polls all completions. Returns `wr_id`, status and opcode of each.
    pub(super) fn completions(&self) -> Vec<[u64; 3]> {
        let mut all = Vec::new();
        let mut wcs = [ibv_wc::default(); 16];
        while let Ok(n @ 1..) = self.cq.poll(&mut wcs) {
            all.extend(wcs[..n].iter().map(|wc| [wc.wr_id, wc.status.into(), wc.opcode.into()]));
        }
        all
    }

    /// Polls until there were at least `count` completions. Returns them like [`Side::completions`].
    pub(super) fn wait_for(&self, count: usize) -> Vec<[u64; 3]> {
        let begin = OwnTime::start();
        let mut all = Vec::new();
        while all.len() < count {
            assert!(!begin.is_hang(), "only {all:?}");
            all.extend(self.completions());
            std::thread::yield_now();
        }
        all
    }
}

/// The peer's process, from the view of the test.
pub(super) struct Peer {
    pub(super) process: std::process::Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Peer {
    pub(super) fn start() -> Peer {
        let mut process = exact("tests::peer::the_peer")
            .env(PEER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let to = process.stdin.take();
        let from = BufReader::new(process.stdout.take().expect("its output"));
        Peer { process, to, from }
    }

    pub(super) fn ask(&mut self, command: &str) -> Vec<u64> {
        self.tell(command);
        self.answer()
    }

    /// Sends a command without waiting for its answer.
    pub(super) fn tell(&mut self, command: &str) {
        let to = self.to.as_mut().expect("its input");
        writeln!(to, "{command}").expect("it listens");
    }

    /// Waits for the peer's next answer.
    pub(super) fn answer(&mut self) -> Vec<u64> {
        let mut line = String::new();
        while self.from.read_line(&mut line).expect("it answers") > 0 {
            if let Some((_, numbers)) = line.split_once(ANSWER) {
                return numbers.split_whitespace().map(|n| n.parse().expect("a number")).collect();
            }
            line.clear();
        }
        panic!("the peer has ended");
    }

    /// Makes the peer stop when it reaches a point.
    pub(super) fn stop_at(&mut self, point: Point) {
        self.ask(&format!("signal-at {} {}", point as u32, libc::SIGSTOP));
    }

    /// Makes the peer kill itself when it reaches a point.
    pub(super) fn kill_at(&mut self, point: Point) {
        self.ask(&format!("signal-at {} {}", point as u32, libc::SIGKILL));
    }

    /// Continues a stopped peer.
    pub(super) fn go_on(&self) {
        // SAFETY: the process is a child that has not been waited for, so its PID is valid.
        unsafe { libc::kill(self.process.id() as i32, libc::SIGCONT) };
    }

    /// Waits until the peer is stopped.
    pub(super) fn wait_until_stopped(&self) {
        let mut status = 0;
        // SAFETY: the process is a child of this process.
        let found = unsafe { libc::waitpid(self.process.id() as i32, &mut status, libc::WUNTRACED) };
        assert!(found > 0 && libc::WIFSTOPPED(status), "the peer has ended: {status:#x}");
    }

    /// Makes the peer allocate and register a buffer in its arena.
    pub(super) fn arena(&mut self) -> Buffer {
        let answer = self.ask("arena");
        Buffer { addr: answer[0], key: answer[1] as u32 }
    }

    pub(super) fn buffer(&mut self) -> Buffer {
        let answer = self.ask("buffer");
        Buffer { addr: answer[0], key: answer[1] as u32 }
    }

    /// Makes the peer create memory that it shares in this way. Returns the registered buffer, the address of
    /// a second mapping, and the System V identifier.
    pub(super) fn shared(&mut self, how: &str) -> (Buffer, u64, i32) {
        let answer = self.ask(&format!("shared {how}"));
        (Buffer { addr: answer[0], key: answer[1] as u32 }, answer[2], answer[3] as i32)
    }

    /// Creates a QP in this process and a QP in the peer, and connects them.
    pub(super) fn connect(&mut self, qp_type: QpType) -> Side {
        let process = Process::current().expect("this process can use the device");
        let side = self::side(process, qp_type);
        let answer = self.ask(&format!("qp {} {}", qp_type.to_c(), side.qp.num()));
        let dest = answer[0] as u32;
        connect(&side, dest);
        // The peer may have the fabric slot of a process that has just exited. Waits until this process has
        // noticed that exit.
        let begin = OwnTime::start();
        while process.peer(dest).is_none_or(|peer| peer.member.pid != self.process.id()) {
            assert!(!begin.is_hang(), "the peer is not found");
            std::thread::yield_now();
        }
        side
    }

    pub(super) fn far(&self, addr: u64) -> Far {
        Far::Foreign { pid: self.process.id(), addr }
    }

    /// Reads the mapped bytes of the peer's buffer at this address, up to the unmapped page.
    pub(super) fn bytes(&self, addr: u64) -> Vec<u8> {
        let mut bytes = vec![0; HOLE];
        transfer::read(&[all_of(&mut bytes)], self.far(addr)).expect("the peer lives");
        bytes
    }
}

impl Peer {
    /// Kills the process and waits for it.
    pub(super) fn kill(&mut self) {
        self.process.kill().expect("it lives");
        self.process.wait().expect("it ends");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.process.wait();
    }
}

pub(super) fn all_of(bytes: &mut [u8]) -> Piece {
    Piece { addr: bytes.as_mut_ptr() as u64, len: bytes.len() }
}

/// A command that runs only this ignored test of this executable.
pub(super) fn exact(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test has a file"));
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    command
}

/// Pins this thread to one processor.
pub(super) fn run_on(processor: usize) {
    // SAFETY: the set of processors belongs to this function.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set), 0);
    }
}

/// The state of the peer's process.
struct Told {
    process: &'static Process,
    memory: Buffer,
    arena: Buffer,
    side: Option<Side>,
    beside: Option<Side>,
    file: Option<File>,
    begun: Option<Begun>,
}

/// A RECV that the peer has claimed but not completed, and the values that complete it.
struct Begun {
    completer: Completer<'static>,
    claim: RecvClaim<'static>,
    done: RecvDone,
}

impl Told {
    fn side(&self) -> &Side {
        self.side.as_ref().expect("a QP")
    }

    /// The record of the region with this key.
    fn region(&self, key: u64) -> &MrRecord {
        let slot = Keys::slot_of(key as u32).expect("a key");
        self.process.segment.mr(slot).expect("its record")
    }

    /// Carries out a command, and returns the numbers of the answer.
    fn carry_out(&mut self, words: &[&str]) -> Vec<u64> {
        let number = |n: usize| words[n].parse::<u64>().expect("a number");
        match words[0] {
            "buffer" => return vec![self.memory.addr, self.memory.key.into()],
            "qp" => return vec![self.new_qp(number(1) as u32, number(2) as u32)],
            "poll" => return self.side().completions().concat(),
            "register" => return vec![register(self.process, number(1)).into()],
            "shared" => {
                let (buffer, second, id, file) = shared(self.process, words[1]);
                self.file = file;
                return vec![buffer.addr, buffer.key.into(), second, id as u64];
            }
            "map" => {
                let file = File::options().read(true).write(true).open(words[1]).expect("a file");
                let protection = libc::PROT_READ | libc::PROT_WRITE;
                // SAFETY: the call creates a new mapping.
                let addr = unsafe {
                    let fd = file.as_raw_fd();
                    libc::mmap(std::ptr::null_mut(), BUFFER, protection, libc::MAP_SHARED, fd, 0) as u64
                };
                return vec![addr, register(self.process, addr).into()];
            }
            "replace" => {
                self.deregister(number(1) as u32);
                return vec![register(self.process, self.memory.addr).into()];
            }
            "arena" => {
                self.arena = arena(self.process);
                return vec![self.arena.addr, self.arena.key.into()];
            }
            "echo" => {
                let words: Vec<u64> = (1..words.len()).map(number).collect();
                let memory = if words[0] == 0 { self.memory } else { self.arena };
                return vec![rounds::echo(self.side(), memory, &words[1..])];
            }
            "answer" => self.answer(),
            "store" => {
                // SAFETY: the memory belongs to this process and stays mapped.
                let word = unsafe { &*(number(1) as *const AtomicU64) };
                word.store(number(2), SeqCst);
            }
            "signal-at" => signal_at(number(1) as u32, number(2) as i32),
            "recv-at" => {
                let sge = [Sge { addr: number(1), length: RECV_BYTES as u32, lkey: number(2) as u32 }];
                self.side().qp.post_recv(99, &sge).expect("a RECV");
            }
            "word" => {
                // SAFETY: the memory belongs to this process and stays mapped.
                let word = unsafe { &*(number(1) as *const AtomicU64) };
                return vec![word.load(SeqCst)];
            }
            "write" => {
                let sge = [Sge { addr: self.memory.addr, length: number(3) as u32, lkey: self.memory.key }];
                let remote = RemoteAddr { addr: number(1), rkey: number(2) as u32 };
                let wr = SendWr::new(0, SendOp::Write(remote), &sge).flags(SendFlags::SIGNALED);
                self.side().qp.begin_post().post_wr(&wr, None).expect("there is room");
            }
            "send" => {
                let sge = [Sge { addr: self.memory.addr, length: number(1) as u32, lkey: self.memory.key }];
                let wr = SendWr::new(0, SendOp::Send, &sge);
                self.side().qp.begin_post().post_wr(&wr, None).expect("there is room");
            }
            "deregister" => self.deregister(number(1) as u32),
            "rights" => self.set_rights(number(1) as u32, AccessFlags::from_bits_truncate(number(2) as u32)),
            "allow" => {
                let access = Some(AccessFlags::from_bits_truncate(number(1) as u32));
                let attr = QpAttr { qp_access_flags: access, ..QpAttr::state(QpState::Rts) };
                self.side().qp.modify(&attr).expect("rights may change");
            }
            "state" => {
                let state = QpState::from_c(number(1) as u32).expect("a state");
                self.side().qp.modify(&QpAttr::state(state)).expect("from any state");
            }
            "crowd" => {
                // Adds a second QP at the CQ, and resizes the CQ to this many entries.
                self.beside = Some(self.side().beside());
                self.side().cq.resize(number(1) as u32).expect("nothing is there");
            }
            "bytes" => {
                // SAFETY: the buffer is mapped, and its RECV has completed.
                let at = (self.memory.addr + OPEN as u64 + number(1) * RECV_BYTES as u64) as *const u8;
                return (0..number(2)).map(|n| unsafe { at.add(n as usize).read() }.into()).collect();
            }
            "recv-of" => {
                let sge = [Sge { addr: self.memory.addr, length: number(1) as u32, lkey: number(2) as u32 }];
                self.side().qp.post_recv(99, &sge).expect("a RECV");
            }
            "begin" => self.begin(number(1) as u32, None),
            "begin-of-srq" => self.begin(number(1) as u32, Some(number(2) as u32)),
            "end" => {
                let Begun { completer, claim, done } =
                    self.begun.take().expect("a RECV that it has begun to fill");
                completer.complete(&claim, done, &Carried::none());
            }
            "recv" => self.post_recvs(number(1) as usize),
            "post-on" => self.post_on(number(1) as usize),
            // SAFETY: the mapping comes from `shared`.
            "unmap" => assert_eq!(unsafe { libc::munmap(number(1) as *mut libc::c_void, BUFFER) }, 0),
            "truncate" => self.file.as_ref().expect("a file").set_len(0).expect("it can be truncated"),
            "catch-at" => arm(CAUGHT_AT[number(1) as usize], number(2) as u32, catch),
            "stop-at" => arm(CAUGHT_AT[number(1) as usize], number(2) as u32, stop),
            "post" => {
                let remote = RemoteAddr { addr: number(2), rkey: number(3) as u32 };
                return self.post(words[1], remote, number(4) as u32);
            }
            "scribble" => self.scribble(number(1), number(2)),
            // The region's record looks as if its owner were changing it. A second command ends the change.
            "change" => {
                self.region(number(1)).sequence.fetch_add(1, Relaxed);
            }
            "lie" => self.region(number(1)).change(|r| r.len.store(1 << 40, Relaxed)),
            other => panic!("{other} is not known"),
        }
        vec![]
    }

    /// Changes the access rights of a region. The key stays.
    fn set_rights(&self, key: u32, access: AccessFlags) {
        let place = self.process.regions.find(key).expect("a region");
        let region = Region { access, ..place.region };
        let changed = self.process.regions.replace(self.process.segment, key, region, place.host);
        self.process.settle(changed.expect("it is there"), "rights");
    }

    fn deregister(&self, key: u32) {
        let revoked = self.process.regions.deregister(self.process.segment, key).expect("a region");
        self.process.settle(revoked, "deregister");
    }

    fn new_qp(&mut self, qp_type: u32, dest: u32) -> u64 {
        self.side = None;
        let made = side(self.process, QpType::from_c(qp_type).expect("a type"));
        connect(&made, dest);
        let num = made.qp.num();
        self.side = Some(made);
        num.into()
    }

    /// Claims the next RECV of a QP, or of the SRQ with this index, as a sender does. Does not complete the
    /// RECV.
    fn begin(&mut self, qpn: u32, srq: Option<u32>) {
        let peer = Box::leak(Box::new(self.process.peer(qpn).expect("the peer lives")));
        let (owner, segment) = (Owner::Peer(peer), &peer.segment);
        let qp = segment.qp(segment.index_of(qpn)).expect("its record");
        let rq = segment.rq(srq.unwrap_or(qp.rq.load(Relaxed)) as usize).expect("its queue");
        let slots = Box::leak(Box::new(Slots::of(segment, rq).expect("its slots")));
        let Ok(front) = slots.front(rq.generation.load(Relaxed)) else { panic!("a RECV") };
        let completer = Completer { owner, segment, qp, qpn, srq, claimer: self.process.claimer };
        let claim = front.claim(&completer).expect("nobody else takes it");
        let done = RecvDone::failed(qpn, qp.generation.load(Relaxed), WcStatus::Success);
        self.begun = Some(Begun { completer, claim, done });
    }

    fn post_recvs(&self, count: usize) {
        for n in 0..count {
            let addr = self.memory.addr + (OPEN + n * RECV_BYTES) as u64;
            let sge = [Sge { addr, length: RECV_BYTES as u32, lkey: self.memory.key }];
            self.side().qp.post_recv(n as u64, &sge).expect("a RECV");
        }
    }

    /// Sends 8 bytes, and waits for the completion of the SEND.
    fn answer(&self) {
        let sge = [Sge { addr: self.memory.addr, length: 8, lkey: self.memory.key }];
        let wr = SendWr::new(0, SendOp::Send, &sge).flags(SendFlags::SIGNALED);
        self.side().qp.begin_post().post_wr(&wr, None).expect("there is room");
        self.side().wait_for(1);
    }

    /// Posts a work request with this process's buffer to a region of the other process. Returns the status.
    /// For a READ, also returns the first word of the buffer.
    fn post(&self, op: &str, remote: RemoteAddr, length: u32) -> Vec<u64> {
        let Buffer { addr, key } = self.memory;
        let side = self.side();
        let sge = [Sge { addr, length, lkey: key }];
        let signaled = SendFlags::SIGNALED;
        let verb = match op {
            "write" => {
                let mut posting = side.qp.begin_post();
                if posting.write_directly(1, remote, &sge[0], signaled) {
                    drop(posting);
                    return vec![side.wait_for(1)[0][1]];
                }
                SendOp::Write(remote)
            }
            "list" => SendOp::Write(remote),
            "imm" => SendOp::WriteWithImm(remote, 7),
            "send" => SendOp::Send,
            "read" => SendOp::Read(remote),
            "add" => SendOp::FetchAdd { remote, add: 1 },
            other => panic!("{other} is not known"),
        };
        let wr = SendWr::new(1, verb, &sge).flags(signaled);
        let count = if op == "list" { 3 } else { 1 };
        let mut posting = side.qp.begin_post();
        (0..count).for_each(|_| posting.post_wr(&wr, None).expect("there is room"));
        drop(posting);
        let status = side.wait_for(count)[count - 1][1];
        // SAFETY: the buffer belongs to this process and is mapped.
        let first = unsafe { (addr as *const u64).read() };
        if op == "read" { vec![status, first] } else { vec![status] }
    }

    /// Pins this thread to a processor and posts a WRITE of 0 bytes.
    fn post_on(&self, processor: usize) {
        run_on(processor);
        let nothing = SendWr::new(0, SendOp::Write(RemoteAddr::default()), &[]).flags(SendFlags::SIGNALED);
        self.side().qp.begin_post().post_wr(&nothing, None).expect("there is room");
        self.side().wait_for(1);
    }

    /// Overwrites words in the record of the peer's QP or of a region.
    fn scribble(&self, key: u64, seed: u64) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut draw = || random.next_u64();
        let region = self.region(key);
        let qp = self.process.segment.qp(self.side().qp.event_identity().0 as usize).expect("its record");
        match draw() % 4 {
            // Changes the low 20 bits of the region's address, which may then lead to other mapped memory.
            0 => region.change(|r| r.host.store(r.host.load(Relaxed) ^ draw() >> 44, Relaxed)),
            1 => region.change(|r| r.len.store(draw() >> (draw() % 64), Relaxed)),
            2 => scribble(qp, &mut random, &[]),
            _ => scribble(region, &mut random, &[]),
        }
    }
}

/// Halts this thread at a point: reports that, and waits for a line of input.
fn catch() {
    println!("{ANSWER} {CAUGHT}");
    let mut byte = 0u8;
    // SAFETY: the buffer is one byte. The buffer of standard input is empty, because the line is written only
    // after the report.
    while unsafe { libc::read(0, (&raw mut byte).cast(), 1) } == 1 && byte != b'\n' {}
}

/// Stops this process at a point by SIGSTOP, after a report.
fn stop() {
    println!("{ANSWER} {CAUGHT}");
    // The signal goes to this thread. If another thread got it, the process would stop a moment later.
    // SAFETY: the call takes only a number.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Runs the peer's process, which carries out commands until its input ends.
#[test]
#[ignore = "the other side of other tests"]
fn the_peer() {
    if std::env::var_os(PEER).is_none() {
        return;
    }
    let process = Process::current().expect("this process can use the device");
    let (memory, arena) = (buffer(process), Buffer { addr: 0, key: 0 });
    let mut told = Told { process, memory, arena, side: None, beside: None, file: None, begun: None };
    for line in std::io::stdin().lines() {
        let line = line.expect("a line");
        let answer = told.carry_out(&line.split_whitespace().collect::<Vec<_>>());
        let numbers: Vec<String> = answer.iter().map(u64::to_string).collect();
        println!("{ANSWER} {}", numbers.join(" "));
    }
}
