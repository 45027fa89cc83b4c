//! Tests a fabric with more processes than the files that a process may open. All their segments together
//! would also exceed an address space.

use super::own_time::HANGS;
use super::{PD, Patience, Side};
use crate::fabric::pipe::EventPipe;
use crate::fabric::process::Process;
use crate::memory::arena;
use crate::queues::cq::Cq;
use doorbell_abi::{CEnum, ibv_wc};
use doorbell_launch::variables;
use doorbell_transport::Region;
use doorbell_verbs::*;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An environment variable that is set in the process that meets all others.
const CROWD: &str = "DOORBELL_TEST_CROWD";
const OTHERS: usize = 1100;
/// Bytes in each process's arena before the buffer that a peer writes. A peer does not map that far at first.
const BEFORE: usize = 80 << 20;
/// The default limit of open files.
const FILES: u64 = 1024;
const PAGE: usize = 4096;
const CAP: QpCap =
    QpCap { max_send_wr: 4, max_recv_wr: 2, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 8 };
const PATIENCE: Patience = Patience { timeout: 20, rnr_retry: 7 };

/// The word that the first process writes to the child with this number, and that the child sends back.
fn word(number: usize) -> u64 {
    0x5eed_0000_0000 + number as u64
}

#[test]
fn a_process_meets_more_than_a_thousand_others() {
    let fabric = format!("crowd-{}", std::process::id());
    let output = Command::new(std::env::current_exe().expect("this test has a file"))
        .args(["--exact", "tests::many::the_crowd", "--ignored", "--nocapture", "--test-threads=1"])
        .env(CROWD, "1")
        .env(variables::FABRIC, &fabric)
        .env(variables::SHARED_BUFFERS, "1")
        .output()
        .expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    let left = std::fs::read_dir("/dev/shm").expect("it can be read").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(&fabric)), "{left:?}");
}

/// Runs the process that meets all others. The others are its children.
#[test]
#[ignore = "a process that another test starts"]
fn the_crowd() {
    if std::env::var_os(CROWD).is_none() {
        return;
    }
    allow_files(FILES);
    goes_on();
    let process = Process::current().expect("this process can use the device");
    let pipe = Arc::new(EventPipe::new().expect("a pipe"));
    let cq = Arc::new(Cq::new(process, 4 * OTHERS as u32, 0, pipe.in_record()).expect("a CQ"));
    let side = || Side::of(process, QpType::Rc, CAP, cq.clone(), None, pipe.clone());
    let sides: Vec<Side> = (0..OTHERS).map(|_| side()).collect();
    let (mut told, tell) = pipe_of_two();
    let (written, mut write) = pipe_of_two();
    let (over, end) = pipe_of_two();
    let mut children = Vec::new();
    for (number, side) in sides.iter().enumerate() {
        // Under AddressSanitizer, all forks together take more than a minute.
        goes_on();
        // SAFETY: the child only calls `be_one_of_many`, which does not return.
        match unsafe { libc::fork() } {
            0 => {
                drop(end);
                be_one_of_many(number, side.qp.num(), &tell, &written, &over)
            }
            child => children.push(child),
        }
    }
    let memory = Memory::new(process, PAGE);
    let begin = Instant::now();
    for _ in 0..OTHERS {
        goes_on();
        let [number, qpn, key, addr] = read_words(&mut told);
        let side = &sides[number as usize];
        side.connect(qpn as u32, PATIENCE);
        memory.set(word(number as usize));
        let sge = [Sge { addr: memory.addr, length: 8, lkey: memory.key }];
        let to = SendOp::Write(RemoteAddr { addr, rkey: key as u32 });
        post(side, &SendWr::new(number, to, &sge).flags(SendFlags::INLINE | SendFlags::SIGNALED));
        let sge = [Sge { addr: memory.addr + 8 + 8 * (number % 500), length: 8, lkey: memory.key }];
        side.qp.post_recv(number, &sge).expect("a RECV");
    }
    assert_eq!(completions(&cq, WcOpcode::Write), (0..OTHERS as u64).collect::<BTreeSet<_>>());
    println!("{OTHERS} met in {:?}: {}", begin.elapsed(), of_status(&["VmSize", "VmRSS", "VmPTE"]));
    write.write_all(&[0; OTHERS]).expect("they listen");
    assert_eq!(completions(&cq, WcOpcode::Recv), (0..OTHERS as u64).collect::<BTreeSet<_>>());
    let files = std::fs::read_dir("/proc/self/fd").expect("it can be read").count();
    assert!(files < FILES as usize * 3 / 4, "{files} files are open");
    end_all(process, &sides, &children, end);
}

/// The lines of this process's proc_pid_status(5) that begin with one of these names.
fn of_status(names: &[&str]) -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("it can be read");
    let is_asked = |line: &&str| names.iter().any(|name| line.starts_with(name));
    status.lines().filter(is_asked).map(|line| line.replace('\t', " ")).collect::<Vec<_>>().join(", ")
}

fn allow_files(files: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is filled in before it is read. The new limit is the old one or lower.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = files.min(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
}

/// Kills half of the children, and lets the rest exit. This process notices all exits soon, even of children
/// for which it has no open file.
fn end_all(process: &'static Process, sides: &[Side], children: &[i32], end: File) {
    // SAFETY: the children have not been waited for, so their PIDs are valid.
    children.iter().step_by(2).for_each(|child| unsafe {
        libc::kill(*child, libc::SIGKILL);
    });
    drop(end);
    for child in children {
        goes_on();
        // SAFETY: the process is a child of this process.
        unsafe { libc::waitpid(*child, std::ptr::null_mut(), 0) };
    }
    for side in sides {
        let dest = side.qp.query().1.dest_qp_num.expect("it is connected");
        while process.peer(dest).is_some() {
            std::thread::sleep(Duration::from_millis(10));
        }
        goes_on();
    }
}

/// Notes progress: restarts the alarm that kills this process after [`HANGS`].
fn goes_on() {
    // SAFETY: the call takes only a number.
    unsafe { libc::alarm(HANGS.as_secs() as u32) };
}

/// Runs a child: reports its memory and QP, waits until its word is written, and sends the word back.
fn be_one_of_many(number: usize, dest: u32, tell: &File, written: &File, over: &File) -> ! {
    // SAFETY: the call takes only numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let process = Process::current().expect("this process can use the device");
    let pipe = Arc::new(EventPipe::new().expect("a pipe"));
    let cq = Arc::new(Cq::new(process, 8, 0, pipe.in_record()).expect("a CQ"));
    let side = Side::of(process, QpType::Rc, CAP, cq.clone(), None, pipe);
    arena::alloc(PAGE, BEFORE).expect("addresses");
    let memory = Memory::new(process, PAGE);
    side.connect(dest, PATIENCE);
    let words = [number as u64, side.qp.num().into(), memory.key.into(), memory.addr];
    let (mut tell, mut written, mut over) = (tell, written, over);
    tell.write_all(&words.map(u64::to_ne_bytes).concat()).expect("it listens");
    written.read_exact(&mut [0]).expect("it tells");
    assert_eq!(memory.get(), word(number));
    let sge = [Sge { addr: memory.addr, length: 8, lkey: memory.key }];
    post(&side, &SendWr::new(number as u64, SendOp::Send, &sge).flags(SendFlags::SIGNALED));
    assert_eq!(wait_for_one(&cq).status, 0);
    let _ = over.read(&mut [0]);
    // SAFETY: the process exits, with or without its exit handlers.
    unsafe { if number % 4 == 1 { libc::_exit(0) } else { libc::exit(0) } }
}

fn post(side: &Side, wr: &SendWr<'_>) {
    side.qp.begin_post().post_wr(wr, None).expect("there is room");
}

/// Waits for one completion for each child. All must have this opcode. Returns their `wr_id`s.
fn completions(cq: &Cq, opcode: WcOpcode) -> BTreeSet<u64> {
    let all = (0..OTHERS).map(|_| wait_for_one(cq));
    all.map(|wc| {
        goes_on();
        assert_eq!((wc.status, wc.opcode), (0, opcode.to_c()));
        wc.wr_id
    })
    .collect()
}

fn wait_for_one(cq: &Cq) -> ibv_wc {
    let mut wcs = [ibv_wc::default()];
    while cq.poll(&mut wcs) != Ok(1) {
        std::thread::yield_now();
    }
    wcs[0]
}

/// Registered memory in this process's arena.
struct Memory {
    addr: u64,
    key: u32,
}

impl Memory {
    fn new(process: &'static Process, len: usize) -> Memory {
        let addr = arena::alloc(PAGE, len).expect("a page") as u64;
        let region = Region { pd: PD, addr, len: len as u64, access: AccessFlags::all() };
        let key = process.regions.register(process.segment, region, addr).expect("a region");
        Memory { addr, key }
    }

    fn set(&self, word: u64) {
        // SAFETY: the page belongs to this process.
        unsafe { (self.addr as *mut u64).write_volatile(word) };
    }

    fn get(&self) -> u64 {
        // SAFETY: the page belongs to this process.
        unsafe { (self.addr as *const u64).read_volatile() }
    }
}

/// Creates a pipe. Returns its reading end and its writing end.
fn pipe_of_two() -> (File, File) {
    let (from, to) = std::io::pipe().expect("a pipe");
    (File::from(OwnedFd::from(from)), File::from(OwnedFd::from(to)))
}

fn read_words(from: &mut File) -> [u64; 4] {
    let mut bytes = [0; 32];
    from.read_exact(&mut bytes).expect("they tell");
    std::array::from_fn(|n| u64::from_ne_bytes(std::array::from_fn(|b| bytes[8 * n + b])))
}
