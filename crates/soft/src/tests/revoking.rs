//! Tests calls that revoke access to memory. The calls must wait for copies that still use the memory.
//!
//! A test halts a copy at a point, revokes the copy's rights, and then reuses the memory. No byte of the copy
//! may arrive afterwards.

use super::own_time::HANGS;
use super::peer::{Peer, exact};
use super::{PD, Side};
use crate::fabric::process::Process;
use crate::memory::arena;
use crate::memory::copies::running;
use crate::memory::maps;
use crate::memory::objects::HostMemory;
use crate::memory::window::WindowKind;
use crate::memory::windows::{Bind, WindowPart};
use crate::point::{Point, arm};
use crate::queues::qp::window_wr::{WindowOp, WindowWr};
use doorbell_launch::variables;
use doorbell_transport::{Keys, Region};
use doorbell_verbs::*;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Instant;

/// An environment variable that is set in the owner: the process whose memory a peer accesses.
const OWNER: &str = "DOORBELL_TEST_OWNER";
/// The points at which a test halts a copy.
pub(super) const CAUGHT_AT: [Point; 9] = [
    Point::CopyBegun,
    Point::BeforeCopy,
    Point::WithinCopy,
    Point::BeforeForeign,
    Point::LockHeld,
    Point::AtomicRead,
    Point::CopyEnding,
    Point::PlacingBegun,
    Point::PlacingEnds,
];
/// The answer of a peer that is halted at a point.
pub(super) const CAUGHT: u64 = 0xca11;
const PAGE: usize = 4096;
const BYTES: usize = 2 * PAGE;
/// The value of the memory's bytes before the copy, and after the program reuses the memory.
const OLD: u8 = 0x11;
const REUSED: u8 = 0x55;

/// The kind of memory. A peer accesses each kind in a different way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Arena,
    Private,
    SystemV,
}

/// The call that revokes the rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Revoke {
    Deregister,
    Reregister,
    Err,
    Reset,
    Destroy,
    /// Changes the QP's access flags so that it rejects WRITEs and atomics.
    QpRights,
    Invalidate,
    DeallocWindow,
}

impl Revoke {
    fn is_of_window(self) -> bool {
        matches!(self, Revoke::Invalidate | Revoke::DeallocWindow)
    }
}

/// A copy that a peer makes, and the point at which the test halts it.
#[derive(Clone, Copy, Debug)]
struct PeerCopy {
    op: &'static str,
    kind: Kind,
    point: Point,
    len: usize,
    /// An earlier request of 8 bytes. After a WRITE, this copy takes the direct path. After a SEND, whose
    /// payload is in the receive queue, this copy first places that payload.
    before: Option<&'static str>,
    qp_type: QpType,
}

const fn copy(op: &'static str, kind: Kind, point: Point, len: usize) -> PeerCopy {
    PeerCopy { op, kind, point, len, before: None, qp_type: QpType::Rc }
}

const fn on_uc(copy: PeerCopy) -> PeerCopy {
    PeerCopy { qp_type: QpType::Uc, ..copy }
}

const fn direct(kind: Kind, point: Point, len: usize) -> PeerCopy {
    PeerCopy { before: Some("write"), ..copy("write", kind, point, len) }
}

const fn placing(kind: Kind, point: Point) -> PeerCopy {
    PeerCopy { before: Some("send"), ..copy("write", kind, point, 8) }
}

const COPIES: [PeerCopy; 30] = [
    copy("write", Kind::Arena, Point::CopyBegun, 64),
    copy("write", Kind::Arena, Point::BeforeCopy, 64),
    copy("write", Kind::Arena, Point::WithinCopy, 64),
    copy("write", Kind::SystemV, Point::BeforeCopy, 1000),
    copy("write", Kind::SystemV, Point::WithinCopy, 1001),
    copy("write", Kind::Private, Point::BeforeForeign, 64),
    direct(Kind::Arena, Point::CopyBegun, 64),
    direct(Kind::Arena, Point::WithinCopy, 64),
    direct(Kind::Arena, Point::WithinCopy, 5000),
    direct(Kind::Arena, Point::CopyEnding, 8),
    direct(Kind::Private, Point::BeforeForeign, 64),
    copy("list", Kind::Private, Point::BeforeForeign, 64),
    copy("imm", Kind::Arena, Point::BeforeCopy, 64),
    copy("imm", Kind::Private, Point::BeforeForeign, 64),
    copy("send", Kind::Arena, Point::WithinCopy, 300),
    copy("send", Kind::Private, Point::BeforeForeign, 300),
    copy("read", Kind::Arena, Point::BeforeCopy, 64),
    copy("read", Kind::Private, Point::BeforeForeign, 64),
    copy("add", Kind::Private, Point::AtomicRead, 8),
    placing(Kind::Arena, Point::PlacingBegun),
    placing(Kind::Arena, Point::BeforeCopy),
    placing(Kind::Arena, Point::PlacingEnds),
    placing(Kind::Private, Point::BeforeForeign),
    on_uc(copy("write", Kind::Arena, Point::WithinCopy, 64)),
    on_uc(direct(Kind::Arena, Point::WithinCopy, 5000)),
    on_uc(copy("write", Kind::SystemV, Point::WithinCopy, 1001)),
    on_uc(copy("list", Kind::Private, Point::BeforeForeign, 64)),
    on_uc(copy("imm", Kind::Arena, Point::BeforeCopy, 64)),
    on_uc(copy("send", Kind::Arena, Point::WithinCopy, 300)),
    on_uc(copy("send", Kind::Private, Point::BeforeForeign, 300)),
];

/// Revocations other than deregistration, and a copy for each.
const REVOCATIONS: [(Revoke, PeerCopy); 19] = [
    (Revoke::Reregister, direct(Kind::Arena, Point::WithinCopy, 64)),
    (Revoke::Err, direct(Kind::Arena, Point::WithinCopy, 64)),
    (Revoke::Err, copy("send", Kind::Arena, Point::WithinCopy, 300)),
    (Revoke::Err, placing(Kind::Arena, Point::BeforeCopy)),
    (Revoke::Reset, direct(Kind::Arena, Point::WithinCopy, 64)),
    (Revoke::Reset, placing(Kind::Arena, Point::BeforeCopy)),
    (Revoke::Destroy, direct(Kind::Arena, Point::WithinCopy, 64)),
    (Revoke::Destroy, copy("send", Kind::Private, Point::BeforeForeign, 300)),
    (Revoke::Destroy, placing(Kind::Arena, Point::BeforeCopy)),
    (Revoke::QpRights, direct(Kind::Arena, Point::WithinCopy, 64)),
    (Revoke::Invalidate, direct(Kind::Arena, Point::WithinCopy, 64)),
    (Revoke::DeallocWindow, copy("write", Kind::Private, Point::BeforeForeign, 64)),
    (Revoke::Reregister, on_uc(direct(Kind::Arena, Point::WithinCopy, 64))),
    (Revoke::Err, on_uc(copy("write", Kind::Private, Point::BeforeForeign, 64))),
    (Revoke::Reset, on_uc(direct(Kind::Arena, Point::WithinCopy, 64))),
    (Revoke::Destroy, on_uc(copy("send", Kind::Arena, Point::WithinCopy, 300))),
    (Revoke::QpRights, on_uc(direct(Kind::Arena, Point::WithinCopy, 64))),
    (Revoke::Invalidate, on_uc(direct(Kind::Arena, Point::WithinCopy, 64))),
    (Revoke::DeallocWindow, on_uc(copy("write", Kind::Private, Point::BeforeForeign, 64))),
];

/// The number of a point in commands to the peer.
pub(super) fn caught_at(point: Point) -> usize {
    CAUGHT_AT.iter().position(|known| *known == point).expect("it is known")
}

/// Runs an ignored test of this module in a process of its own, and asserts that it succeeds.
fn run(test: &str, ptrace: &str) -> Output {
    let output = exact(&format!("tests::revoking::{test}"))
        .env(OWNER, "1")
        .env(variables::FABRIC, format!("{test}-{}", std::process::id()))
        .env(variables::PTRACE, ptrace)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    output
}

fn is_owner() -> bool {
    std::env::var_os(OWNER).is_some()
}

/// Allocates zeroed memory of `BYTES` bytes, which is never freed.
fn memory(kind: Kind) -> u64 {
    match kind {
        Kind::Arena => arena::alloc_own(BYTES).expect("there is room") as u64,
        // SAFETY: the call creates a new mapping.
        Kind::Private => unsafe {
            let (protection, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, -1, 0) as u64
        },
        // SAFETY: the calls create a new segment and a new mapping.
        Kind::SystemV => unsafe {
            let id = libc::shmget(libc::IPC_PRIVATE, BYTES, 0o600);
            let addr = libc::shmat(id, std::ptr::null(), 0);
            assert!(addr as isize != -1, "{}", std::io::Error::last_os_error());
            libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
            addr as u64
        },
    }
}

/// Fills memory from [`memory`] with a byte, as the program itself does.
fn fill(addr: u64, byte: u8) {
    // SAFETY: the memory comes from `memory` and is never freed.
    unsafe { (addr as *mut u8).write_bytes(byte, BYTES) };
}

fn bytes(addr: u64) -> Vec<u8> {
    // SAFETY: the memory comes from `memory` and is never freed.
    unsafe { std::slice::from_raw_parts(addr as *const u8, BYTES) }.to_vec()
}

fn region(addr: u64, access: AccessFlags) -> Region {
    Region { pd: PD, addr, len: BYTES as u64, access }
}

fn host(addr: u64) -> HostMemory {
    let object = maps::check(addr..addr + BYTES as u64, maps::Wanted { write: true, atomics: true })
        .expect("it is mapped");
    HostMemory { addr, object }
}

/// Whether the revoking call waits for a copy, and whether it has returned.
static AWAITED: AtomicBool = AtomicBool::new(false);
static RETURNED: AtomicBool = AtomicBool::new(false);
/// Whether a thread of the owner is halted, and whether it may go on.
static IS_CAUGHT: AtomicBool = AtomicBool::new(false);
static GOES_ON: AtomicBool = AtomicBool::new(false);

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < HANGS, "{what}");
        std::thread::yield_now();
    }
}

/// Halts a thread of this process until `GOES_ON` is set.
fn catch_here() {
    IS_CAUGHT.store(true, SeqCst);
    wait_until("it may not go on", || GOES_ON.load(SeqCst));
}

/// The owner of the memory, and the peer that accesses it.
struct Owner {
    process: &'static Process,
    peer: Peer,
}

impl Owner {
    fn new() -> Owner {
        Owner { process: Process::current().expect("this process can use the device"), peer: Peer::start() }
    }

    fn register(&self, addr: u64) -> u32 {
        let region = region(addr, AccessFlags::all());
        self.process.regions.register(self.process.segment, region, host(addr)).expect("a region")
    }

    fn deregister(&self, key: u32) {
        if let Some(revoked) = self.process.regions.deregister(self.process.segment, key) {
            self.process.settle(revoked, "ibv_dereg_mr(3)");
        }
    }

    /// Binds a window over all the memory to a QP, and returns the rkey.
    fn window(&self, side: &Side, addr: u64, lkey: u32) -> u32 {
        let process = self.process;
        let rkey = process.regions.add_window(process.segment, PD, WindowKind::Two).expect("a window");
        let (len, access) = (BYTES as u64, AccessFlags::REMOTE_WRITE);
        let part = WindowPart { lkey, may_be_bound: true, addr, len, access, is_zero_based: false };
        let slot = Keys::slot_of(rkey).expect("a slot");
        post_window(side, WindowOp::Bind(Bind { slot, tag: rkey as u8, part: Some(part) }));
        rkey
    }

    /// Halts a copy, revokes its rights, reuses the memory, and lets the copy go on. Asserts that no byte of
    /// the copy arrives after the revocation.
    fn check(&mut self, revoke: Revoke, copy: &PeerCopy) {
        let what = format!("{revoke:?} {copy:?}");
        let addr = memory(copy.kind);
        let side = self.peer.connect(copy.qp_type);
        let lkey = self.register(addr);
        let rkey = if revoke.is_of_window() { self.window(&side, addr, lkey) } else { lkey };
        if matches!(copy.op, "send" | "imm") || copy.before == Some("send") {
            let sge = [Sge { addr, length: BYTES as u32, lkey }];
            side.qp.post_recv(1, &sge).expect("a RECV");
        }
        if let Some(op) = copy.before {
            assert_eq!(self.peer.ask(&format!("post {op} {addr} {rkey} 8")), [0], "{what}");
        }
        fill(addr, OLD);
        catch(&mut self.peer, copy, "catch-at", addr, rkey);
        AWAITED.store(false, SeqCst);
        RETURNED.store(false, SeqCst);
        arm(Point::CopyAwaited, 1, || AWAITED.store(true, SeqCst));
        let (peer, this) = (&mut self.peer, self.process);
        let (side, read) = std::thread::scope(|scope| {
            let revoking = scope.spawn(|| {
                let side = carry_out(this, revoke, side, rkey);
                fill(addr, REUSED);
                RETURNED.store(true, SeqCst);
                side
            });
            // A correct call waits for the copy. If the call returns instead, the copy arrives too late.
            wait_until("nothing happens", || AWAITED.load(SeqCst) || RETURNED.load(SeqCst));
            peer.tell("go on");
            let read = peer.answer();
            (revoking.join().expect("it returns"), read)
        });
        // A poll must not write to the memory either.
        side.iter().for_each(|side| drop(side.completions()));
        assert!(bytes(addr).iter().all(|byte| *byte == REUSED), "{what}: a byte arrives afterwards");
        if copy.op == "read" && read[0] == 0 {
            assert_eq!(read[1], u64::from_ne_bytes([OLD; 8]), "{what}: a byte is read afterwards");
        }
        self.deregister(lkey);
    }
}

/// Makes the peer begin a copy, and waits until the peer is halted.
fn catch(peer: &mut Peer, copy: &PeerCopy, command: &str, addr: u64, key: u32) {
    let PeerCopy { op, point, len, .. } = *copy;
    peer.ask(&format!("{command} {} 1", caught_at(point)));
    peer.tell(&format!("post {op} {addr} {key} {len}"));
    assert_eq!(peer.answer(), [CAUGHT], "{copy:?}");
}

fn post_window(side: &Side, op: WindowOp) {
    let wr = WindowWr { wr_id: 7, flags: SendFlags::SIGNALED, op };
    side.qp.begin_post().post_window(&wr).expect("there is room");
    assert_eq!(side.wait_for(1)[0][1], 0, "{wr:?}");
}

/// Makes the revoking call. Returns the QP, unless the call destroys it.
fn carry_out(process: &'static Process, revoke: Revoke, side: Side, rkey: u32) -> Option<Side> {
    let (regions, segment) = (&process.regions, process.segment);
    let to_state = |state| {
        side.qp.modify(&QpAttr::state(state)).expect("from any state");
    };
    match revoke {
        Revoke::Deregister => {
            let revoked = regions.deregister(segment, rkey).expect("a region");
            process.settle(revoked, "ibv_dereg_mr(3)");
        }
        Revoke::Reregister => {
            let place = regions.find(rkey).expect("a region");
            let region = Region { access: AccessFlags::REMOTE_READ, ..place.region };
            let revoked = regions.replace(segment, rkey, region, host(place.host)).expect("a region");
            process.settle(revoked, "ibv_rereg_mr(3)");
        }
        Revoke::Err => to_state(QpState::Err),
        Revoke::Reset => to_state(QpState::Reset),
        Revoke::Destroy => {
            drop(side);
            return None;
        }
        Revoke::QpRights => {
            let access = Some(AccessFlags::REMOTE_READ);
            let attr = QpAttr { qp_access_flags: access, ..QpAttr::state(QpState::Rts) };
            side.qp.modify(&attr).expect("rights may change");
        }
        Revoke::Invalidate => post_window(&side, WindowOp::Invalidate(rkey)),
        Revoke::DeallocWindow => {
            let slot = Keys::slot_of(rkey).expect("a slot");
            let revoked = regions.remove_window(segment, slot).expect("a window");
            process.settle(revoked, "ibv_dealloc_mw(3)");
        }
    }
    Some(side)
}

#[test]
fn no_copy_goes_on_when_its_rights_are_revoked() {
    run("the_owner", "yes");
}

#[test]
#[ignore = "a process that another test starts"]
fn the_owner() {
    if !is_owner() {
        return;
    }
    let mut owner = Owner::new();
    for copy in &COPIES {
        owner.check(Revoke::Deregister, copy);
    }
    for (revoke, copy) in &REVOCATIONS {
        owner.check(*revoke, copy);
    }
    check_unplaced(&mut owner);
    for revoke in [Revoke::Deregister, Revoke::Reregister] {
        check_two_writers(&mut owner, revoke);
    }
}

/// Halts two writers, whose QPs of type UC use one region, and revokes the rights of both. The call waits for
/// both.
fn check_two_writers(owner: &mut Owner, revoke: Revoke) {
    let addr = memory(Kind::Arena);
    let (process, key) = (owner.process, owner.register(addr));
    let mut other = Peer::start();
    let [side, _second] = [&mut owner.peer, &mut other].map(|peer| peer.connect(QpType::Uc));
    fill(addr, OLD);
    let copy = on_uc(copy("write", Kind::Arena, Point::WithinCopy, 5000));
    let mut writers = [&mut owner.peer, &mut other];
    writers.iter_mut().for_each(|peer| catch(peer, &copy, "catch-at", addr, key));
    AWAITED.store(false, SeqCst);
    RETURNED.store(false, SeqCst);
    arm(Point::CopyAwaited, 1, || AWAITED.store(true, SeqCst));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _side = carry_out(process, revoke, side, key);
            fill(addr, REUSED);
            RETURNED.store(true, SeqCst);
        });
        wait_until("nothing happens", || AWAITED.load(SeqCst) || RETURNED.load(SeqCst));
        for peer in writers {
            assert!(!RETURNED.load(SeqCst), "{revoke:?} does not wait for a writer");
            peer.tell("go on");
            peer.answer();
        }
    });
    assert!(bytes(addr).iter().all(|byte| *byte == REUSED), "{revoke:?}: a byte arrives afterwards");
    owner.deregister(key);
}

/// Checks a payload that is in the receive queue when the QP moves to Err. The move places the payload in the
/// RECV's buffer, and the later poll does not write to the buffer.
fn check_unplaced(owner: &mut Owner) {
    let addr = memory(Kind::Arena);
    let (side, lkey) = (owner.peer.connect(QpType::Rc), owner.register(addr));
    fill(addr, OLD);
    side.qp.post_recv(1, &[Sge { addr, length: BYTES as u32, lkey }]).expect("a RECV");
    let from = owner.peer.buffer();
    owner.peer.ask(&format!("store {} 7", from.addr));
    assert_eq!(owner.peer.ask("post send 0 0 8"), [0]);
    side.qp.modify(&QpAttr::state(QpState::Err)).expect("from any state");
    assert_eq!(bytes(addr)[..8], 7u64.to_ne_bytes(), "the payload is not in place");
    fill(addr, REUSED);
    assert_eq!(side.wait_for(1)[0][..2], [1, 0]);
    assert_eq!(bytes(addr)[..8], [REUSED; 8], "the poll writes to the buffer");
}

/// Halts copies of the owner's own threads: the fetch of a READ, the placement of a small message's payload,
/// and the service for a peer.
#[test]
fn no_thread_of_the_process_itself_copies_afterwards() {
    run("the_owner_of_threads", "yes");
    run("the_owner_of_a_thread_that_serves", "no");
}

#[test]
#[ignore = "a process that another test starts"]
fn the_owner_of_threads() {
    if !is_owner() {
        return;
    }
    let mut owner = Owner::new();
    let there = owner.peer.arena();
    let addr = memory(Kind::Private);
    for is_read in [true, false] {
        let side = owner.peer.connect(QpType::Rc);
        let lkey = owner.register(addr);
        let sge = [Sge { addr, length: 64, lkey }];
        if !is_read {
            side.qp.post_recv(1, &sge).expect("a RECV");
            assert_eq!(owner.peer.ask("post send 0 0 64"), [0]);
        }
        check_here(&owner, lkey, addr, Point::WithinCopy, || {
            if is_read {
                let remote = RemoteAddr { addr: there.addr, rkey: there.key };
                let wr = SendWr::new(1, SendOp::Read(remote), &sge).flags(SendFlags::SIGNALED);
                side.qp.begin_post().post_wr(&wr, None).expect("there is room");
            }
            side.wait_for(1);
        });
    }
}

#[test]
#[ignore = "a process that another test starts"]
fn the_owner_of_a_thread_that_serves() {
    if !is_owner() {
        return;
    }
    let mut owner = Owner::new();
    let addr = memory(Kind::Private);
    let _side = owner.peer.connect(QpType::Rc);
    let lkey = owner.register(addr);
    owner.peer.tell(&format!("post write {addr} {lkey} 64"));
    check_here(&owner, lkey, addr, Point::BeforeForeign, || ());
}

/// Deregisters memory while a thread of this process is halted at a point, and then reuses the memory. The
/// halted thread runs `copy` or serves the peer.
fn check_here(owner: &Owner, lkey: u32, addr: u64, point: Point, copy: impl FnOnce() + Send) {
    for flag in [&AWAITED, &RETURNED, &IS_CAUGHT, &GOES_ON] {
        flag.store(false, SeqCst);
    }
    fill(addr, OLD);
    arm(point, 1, catch_here);
    std::thread::scope(|scope| {
        scope.spawn(copy);
        wait_until("it is not caught", || IS_CAUGHT.load(SeqCst));
        arm(Point::CopyAwaited, 1, || AWAITED.store(true, SeqCst));
        scope.spawn(|| {
            owner.deregister(lkey);
            fill(addr, REUSED);
            RETURNED.store(true, SeqCst);
        });
        wait_until("nothing happens", || AWAITED.load(SeqCst) || RETURNED.load(SeqCst));
        GOES_ON.store(true, SeqCst);
    });
    assert!(bytes(addr).iter().all(|byte| *byte == REUSED), "{point:?}: a byte arrives afterwards");
}

#[test]
fn a_stopped_or_killed_process_is_not_waited_for() {
    let output = run("the_owner_of_the_stopped", "yes");
    let (told, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let stopped = told.lines().find_map(|line| line.split_once("stopped: ")).expect("its PID").1;
    let expected =
        format!("ibv_dereg_mr(3) does not wait for process {stopped}, which is stopped in the middle");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("does not wait")).collect();
    assert!(lines.len() == 1 && lines[0].contains(&expected), "{said}");
}

#[test]
#[ignore = "a process that another test starts"]
fn the_owner_of_the_stopped() {
    if !is_owner() {
        return;
    }
    let mut owner = Owner::new();
    let addr = memory(Kind::Arena);
    let copy = direct(Kind::Arena, Point::WithinCopy, 64);
    let pid = owner.peer.process.id();
    println!("stopped: {pid}");
    let (side, key) = (owner.peer.connect(QpType::Rc), owner.register(addr));
    assert_eq!(owner.peer.ask(&format!("post write {addr} {key} 8")), [0]);
    catch(&mut owner.peer, &copy, "stop-at", addr, key);
    // Each call returns. Only the first reports the stopped copy, which may still go on.
    let other = owner.register(addr);
    owner.deregister(key);
    owner.deregister(other);
    side.qp.modify(&QpAttr::state(QpState::Err)).expect("from any state");
    // SAFETY: the process is a child of this process.
    unsafe { libc::kill(pid as i32, libc::SIGCONT) };
    owner.peer.answer();
    // A killed process copies nothing any more, and its record becomes free.
    let (side, key) = (owner.peer.connect(QpType::Rc), owner.register(addr));
    assert_eq!(owner.peer.ask(&format!("post write {addr} {key} 8")), [0]);
    catch(&mut owner.peer, &copy, "catch-at", addr, key);
    owner.peer.kill();
    owner.deregister(key);
    drop(side);
    let left = running(owner.process.segment).into_iter().filter_map(|copy| {
        let holder = owner.process.segment.copy(copy.index)?.holder.load(SeqCst);
        (holder != 0).then_some(copy)
    });
    assert_eq!(left.count(), 0, "the record of the killed process");
}
