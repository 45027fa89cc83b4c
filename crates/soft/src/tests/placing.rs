//! Tests that payload is placed as a NIC places it: each aligned unit of 1, 2, 4 or 8 bytes is stored once,
//! as a whole, and in ascending order.
//!
//! The stepper, a process, single-steps another process that copies (ptrace(2)). After each instruction, the
//! stepper checks the target. It marks new bytes, so that it detects a second store to them. It also changes
//! the source of a READ after each instruction, as the owner of that memory may do.

use super::peer::exact;
use super::{PD, Patience, Side};
use crate::fabric::process::Process;
use crate::memory::copy::Piece;
use crate::memory::objects::{HostMemory, Object};
use crate::memory::transfer::{self, Far};
use crate::point::{Point, arm};
use doorbell_launch::variables;
use doorbell_transport::Region;
use doorbell_verbs::*;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// Environment variables. `STEPPED` is set in the process that copies, to the path of the shared memory's
/// file. `STEPPER` is set in the stepper.
const STEPPED: &str = "DOORBELL_TEST_STEPPED";
const STEPPER: &str = "DOORBELL_TEST_STEPPER";
/// Bytes of the shared memory. Targets are before `SOURCE`, and sources of READs from `SOURCE` on.
const BYTES: usize = 8192;
const SOURCE: usize = 4096;
/// The value of a target's bytes before the copy, and the value by which the stepper marks new bytes. Sources
/// contain neither value.
const OLD: u8 = 0;
const SEEN: u8 = 0xee;

/// A copy with its targets in the order of the payload.
#[derive(Clone, Debug)]
struct Step {
    what: What,
    targets: Vec<Range>,
}

/// An offset in the shared memory, and a length.
type Range = (usize, usize);

/// The operation that copies.
#[derive(Clone, Debug)]
enum What {
    /// A copy to mapped memory from pieces of these lengths.
    Write(Vec<usize>),
    /// A copy from mapped memory that begins this many bytes behind `SOURCE`.
    Read(usize),
    /// A work request of a QP that is connected to itself.
    Verb(&'static str),
}

/// The value of the source byte with this index: 1 to 200.
fn byte(at: usize) -> u8 {
    (at % 200) as u8 + 1
}

/// All copies in the order in which both processes handle them.
fn steps() -> Vec<Step> {
    let mut all = Vec::new();
    let mut write = |pieces: &[usize], at: usize| {
        let targets = vec![(at, pieces.iter().sum())];
        all.push(Step { what: What::Write(pieces.to_vec()), targets });
    };
    for at in 64..72 {
        [1, 2, 3, 4, 7, 8, 9, 12, 15, 16].into_iter().for_each(|len| write(&[len], at));
        [[4, 4, 9], [1, 1, 7]].iter().for_each(|pieces| write(pieces, at));
    }
    for at in [64, 67] {
        [31, 64, 100, 200, 333].into_iter().for_each(|len| write(&[len], at));
        write(&[3, 2, 150], at);
    }
    for (from, at) in [(0, 64), (0, 68), (5, 69)] {
        for len in [4, 8, 13, 100] {
            all.push(Step { what: What::Read(from), targets: vec![(at, len)] });
        }
    }
    all.push(Step { what: What::Read(3), targets: vec![(64, 4), (1000, 12), (2001, 600)] });
    all.push(Step { what: What::Read(0), targets: vec![(64, 4), (1000, 200)] });
    for (verb, targets) in [
        ("write", vec![(68, 60)]),
        ("write inline", vec![(66, 30)]),
        ("write two", vec![(64, 44)]),
        ("write with imm", vec![(64, 20)]),
        ("send small", vec![(65, 100)]),
        ("send small, two", vec![(64, 12), (201, 88)]),
        ("send", vec![(68, 300)]),
        ("send, two", vec![(64, 20), (403, 280)]),
        ("read", vec![(70, 90)]),
        ("read, two", vec![(64, 4), (132, 50)]),
        ("add", vec![(72, 8)]),
    ] {
        all.push(Step { what: What::Verb(verb), targets });
    }
    all
}

/// Stops this process, so that the stepper continues it.
fn trap() {
    // SAFETY: the tracing process continues this process after the trap.
    unsafe { std::arch::asm!("int3") };
}

/// Maps the shared memory.
fn map(file: &File) -> *mut u8 {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: the call creates a new mapping.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, file.as_raw_fd(), 0) };
    assert_ne!(base, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    base.cast()
}

#[test]
fn each_unit_is_stored_once_and_whole_and_in_order() {
    let output = exact("tests::placing::the_stepper")
        .env(STEPPER, "1")
        .env(variables::FABRIC, format!("placing-{}", std::process::id()))
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// Runs the process that copies.
#[test]
#[ignore = "a process that another test starts"]
fn the_stepped() {
    let Some(path) = std::env::var_os(STEPPED) else { return };
    let file = OpenOptions::new().read(true).write(true).open(path).expect("the shared memory");
    let base = map(&file);
    let source: Vec<u8> = (0..BYTES).map(byte).collect();
    let mut verbs = None;
    // SAFETY: the parent of this process traces it.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0), 0, "{}", std::io::Error::last_os_error());
        libc::raise(libc::SIGSTOP);
    }
    for Step { what, targets } in steps() {
        let target = |(at, len): Range| Piece { addr: base.wrapping_add(at) as u64, len };
        match what {
            What::Write(lens) => {
                let mut from = 3;
                let piece = |len: usize| {
                    from += len + 5;
                    Piece { addr: source[from..].as_ptr() as u64, len }
                };
                let pieces: Vec<Piece> = lens.into_iter().map(piece).collect();
                let to = Far::Mapped(target(targets[0]).addr as *mut u8);
                trap();
                transfer::write(&pieces, to).expect("mapped");
                trap();
            }
            What::Read(from) => {
                let pieces: Vec<Piece> = targets.into_iter().map(target).collect();
                let from = Far::Mapped(base.wrapping_add(SOURCE + from));
                trap();
                transfer::read(&pieces, from).expect("mapped");
                trap();
            }
            What::Verb(verb) => {
                verbs.get_or_insert_with(|| Verbs::new(base, &source)).carry_out(verb, &targets);
            }
        }
    }
}

/// A QP that is connected to itself, with regions for the shared memory and the source.
struct Verbs {
    side: Side,
    base: u64,
    source: u64,
    key: u32,
    source_key: u32,
}

impl Verbs {
    fn new(base: *mut u8, source: &[u8]) -> Verbs {
        let process = Process::current().expect("this process can use the device");
        let cap =
            QpCap { max_send_wr: 8, max_recv_wr: 8, max_send_sge: 2, max_recv_sge: 2, max_inline_data: 64 };
        let side = Side::new(process, QpType::Rc, cap, 16);
        side.connect(side.qp.num(), Patience { timeout: 10, rnr_retry: 7 });
        let register = |addr: u64| {
            let region = Region { pd: PD, addr, len: BYTES as u64, access: AccessFlags::all() };
            let host = HostMemory { addr, object: Object::Private };
            process.regions.register(process.segment, region, host).expect("a region")
        };
        let (base, source) = (base as u64, source.as_ptr() as u64);
        Verbs { side, base, source, key: register(base), source_key: register(source) }
    }

    /// Posts a work request and polls its completions. The process stops before and after the copy.
    fn carry_out(&self, verb: &str, targets: &[Range]) {
        let here = |(at, len): Range| Sge { addr: self.base + at as u64, length: len as u32, lkey: self.key };
        let sources = |at: usize, len: usize| {
            let (addr, lkey) = (self.source + at as u64, self.source_key);
            Sge { addr, length: len as u32, lkey }
        };
        let there: Vec<Sge> = targets.iter().map(|target| here(*target)).collect();
        let total: usize = targets.iter().map(|(_, len)| len).sum();
        let remote = RemoteAddr { addr: there[0].addr, rkey: self.key };
        let fetched = RemoteAddr { addr: self.source + 16, rkey: self.source_key };
        let one = vec![sources(9, total)];
        let (op, sges, flags) = match verb {
            "write" => (SendOp::Write(remote), one, SendFlags::empty()),
            "write inline" => (SendOp::Write(remote), one, SendFlags::INLINE),
            "write two" => {
                let two = vec![sources(9, 21), sources(500, total - 21)];
                (SendOp::Write(remote), two, SendFlags::empty())
            }
            "write with imm" => (SendOp::WriteWithImm(remote, 7), one, SendFlags::empty()),
            "read" | "read, two" => (SendOp::Read(fetched), there.clone(), SendFlags::empty()),
            "add" => (SendOp::FetchAdd { remote: fetched, add: 0 }, there.clone(), SendFlags::empty()),
            _ => (SendOp::Send, one, SendFlags::empty()),
        };
        let takes_recv = op.opcode().consumes_recv();
        if takes_recv {
            self.side.qp.post_recv(1, &there).expect("a RECV");
        }
        // A poll places the payload of a small message, which the receive queue holds until then.
        let is_placed_late = verb.starts_with("send small");
        let wr = SendWr::new(2, op, &sges).flags(flags | SendFlags::SIGNALED);
        if !is_placed_late {
            arm(Point::BeforeCopy, 1, trap);
            // The copies to the two buffers of a RECV are separate.
            arm(Point::CopyEnding, 1, trap);
        }
        self.side.qp.begin_post().post_wr(&wr, None).expect("there is room");
        if is_placed_late {
            arm(Point::CopyBegun, 1, trap);
            arm(Point::CopyEnding, 1, trap);
        }
        let wcs = self.side.wait_for(if takes_recv { 2 } else { 1 });
        assert!(wcs.iter().all(|wc| wc[1] == 0), "{verb}: {wcs:?}");
    }
}

/// Runs the stepper, which checks the targets.
#[test]
#[ignore = "a process that another test starts"]
fn the_stepper() {
    if std::env::var_os(STEPPER).is_none() {
        return;
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC)) };
    file.set_len(BYTES as u64).expect("its size");
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let mut command = exact("tests::placing::the_stepped");
    // SAFETY: the calls take only numbers.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    // The child's output does not matter, and this process must not wait for it.
    #[expect(clippy::zombie_processes, reason = "the tracee is waited for by waitpid(2)")]
    let child = command.env(STEPPED, path).stdout(Stdio::null()).spawn().expect("it starts");
    let target = Target { base: map(&file) };
    let mut tracee = Tracee { thread: child.id() as i32 };
    tracee.wait(libc::SIGSTOP);
    for step in steps() {
        tracee.go_on(libc::PTRACE_CONT);
        target.clear();
        let (mut payload, mut instructions) = (Vec::new(), 0);
        while !tracee.makes_step() {
            target.look(&step, &mut payload);
            instructions += 1;
            target.change_source(instructions);
        }
        target.look(&step, &mut payload);
        let total: usize = step.targets.iter().map(|(_, len)| len).sum();
        assert_eq!(payload.len(), total, "{step:?}: bytes stored while it was looked at");
        target.check_rest(&step);
        if let What::Read(from) = step.what {
            check_words(&step, from, &payload);
        }
    }
    tracee.ends();
}

/// The stepper's mapping of the shared memory.
struct Target {
    base: *mut u8,
}

impl Target {
    fn at(&self, at: usize) -> u8 {
        // SAFETY: the byte is within the mapping. The other process is stopped.
        unsafe { self.base.add(at).read_volatile() }
    }

    fn set(&self, at: usize, byte: u8) {
        // SAFETY: the byte is within the mapping. The other process is stopped.
        unsafe { self.base.add(at).write_volatile(byte) };
    }

    fn clear(&self) {
        (0..SOURCE).for_each(|at| self.set(at, OLD));
        self.change_source(0);
    }

    /// Stores a new value to each word of the sources of READs. All bytes of a word are equal.
    fn change_source(&self, instructions: usize) {
        let word = u64::from_ne_bytes([byte(instructions); 8]);
        for at in (SOURCE..BYTES).step_by(8) {
            // SAFETY: the word is within the mapping and aligned. The other process is stopped.
            unsafe { self.base.add(at).cast::<u64>().write_volatile(word) };
        }
    }

    /// Checks the bytes that the last instruction stored, marks them, and appends them to `payload`.
    fn look(&self, step: &Step, payload: &mut Vec<u8>) {
        let (mut place, stored) = (0, payload.len());
        for &(at, len) in &step.targets {
            for offset in 0..len {
                let found = self.at(at + offset);
                if place + offset < stored {
                    assert_eq!(found, SEEN, "{step:?}: byte {} is stored twice", place + offset);
                } else if place + offset == payload.len() && found != OLD {
                    self.set(at + offset, SEEN);
                    payload.push(found);
                } else {
                    let now = payload.len();
                    assert_eq!(found, OLD, "{step:?}: byte {} before byte {now}", place + offset);
                }
            }
            let now = payload.len();
            if (place + 1..place + len).contains(&now) {
                check_boundary(step, (at, len), at + now - place);
            }
            place += len;
        }
    }

    /// Asserts that nothing was stored outside the targets.
    fn check_rest(&self, step: &Step) {
        let is_target = |byte: usize| step.targets.iter().any(|(at, len)| (*at..at + len).contains(&byte));
        assert!((0..SOURCE).all(|at| is_target(at) || self.at(at) == OLD), "{step:?}: beside its targets");
    }
}

/// Asserts that the boundary between stored and other bytes splits no aligned unit of a target.
fn check_boundary(step: &Step, (at, len): Range, boundary: usize) {
    for unit in [2, 4, 8] {
        let first = boundary / unit * unit;
        let is_split = first != boundary && first >= at && first + unit <= at + len;
        assert!(!is_split, "{step:?}: the unit of {unit} bytes at {first} is stored in parts");
    }
}

/// Asserts that each aligned unit of a READ's source was loaded as a whole. All bytes of a unit have equal
/// values at any time.
fn check_words(step: &Step, from: usize, payload: &[u8]) {
    for unit in [2, 4, 8] {
        let first = from.next_multiple_of(unit) - from;
        for bytes in payload.get(first..).unwrap_or_default().chunks_exact(unit) {
            let is_one = bytes.iter().all(|byte| *byte == bytes[0]);
            assert!(is_one, "{step:?}: a unit of {unit} bytes is loaded in parts: {bytes:x?}");
        }
    }
}

/// The process that copies, as a traced child. `thread` is the thread that stopped last.
struct Tracee {
    thread: i32,
}

impl Tracee {
    /// Waits until a thread stops by this signal.
    fn wait(&mut self, signal: i32) {
        let mut status = 0;
        // SAFETY: the status belongs to this function.
        self.thread = unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
        assert!(libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == signal, "it stops with {status:#x}");
    }

    /// Continues the thread by this ptrace(2) request, and waits for its next SIGTRAP.
    fn go_on(&mut self, request: libc::c_uint) {
        self.ask(request);
        self.wait(libc::SIGTRAP);
    }

    fn ask(&self, request: libc::c_uint) {
        // SAFETY: the thread belongs to a traced child and is stopped.
        let asked = unsafe { libc::ptrace(request, self.thread, 0, 0) };
        assert_eq!(asked, 0, "{}", std::io::Error::last_os_error());
    }

    /// Single-steps the thread. Returns whether the instruction was a [`trap`].
    fn makes_step(&mut self) -> bool {
        self.go_on(libc::PTRACE_SINGLESTEP);
        // SAFETY: the struct has only integers, which may be zero. The call fills it in.
        let code = unsafe {
            let mut about: libc::siginfo_t = std::mem::zeroed();
            assert_eq!(libc::ptrace(libc::PTRACE_GETSIGINFO, self.thread, 0, &mut about), 0);
            about.si_code
        };
        // An int3 instruction reports SI_KERNEL (0x80). A single step reports TRAP_TRACE.
        code == 0x80
    }

    /// Continues the process, and asserts that it exits with success.
    fn ends(&self) {
        self.ask(libc::PTRACE_CONT);
        let mut status = 0;
        // SAFETY: the status belongs to this function.
        while unsafe { libc::waitpid(-1, &mut status, libc::__WALL) } > 0 {
            assert!(!libc::WIFSTOPPED(status), "it stops with {status:#x}");
        }
        assert_eq!(status, 0, "how it ends");
    }
}
