//! The harms of the soak. A process harms itself when it reaches the armed point.

use super::super::scribble;
use crate::fabric::process::Process;
use crate::memory::records::*;
use crate::memory::segment::Segment;
use crate::point::{Point, arm};
use crate::rings::completions::RingPlace;
use crate::rings::recvs::stride;
use crate::sync::thread_id;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// The process gets SIGSTOP, and later SIGCONT.
    Stop,
    Kill,
    /// The process may not open further files (`RLIMIT_NOFILE`).
    NoFiles,
    /// The process may map less memory than it needs to open a peer (`RLIMIT_AS`).
    NoMemory,
    /// /dev/shm is full.
    FullShm,
    /// The process overwrites random words of its own segment, again and again.
    Hostile,
    /// The thread sleeps, while other threads of the process go on.
    Hold,
    /// The thread gets `SCHED_IDLE` beside load, with all processes of the case on one processor.
    Idle,
}

impl Harm {
    pub(super) const ALL: [Harm; 8] = {
        use Harm::*;
        [Stop, Kill, NoFiles, NoMemory, FullShm, Hostile, Hold, Idle]
    };

    pub(super) fn named(name: &str) -> Option<Harm> {
        Harm::ALL.into_iter().find(|harm| format!("{harm:?}") == name)
    }
}

/// How long a thread is held.
pub(super) const HELD: Duration = Duration::from_millis(300);
/// The line that a process prints when it reaches the armed point.
pub(super) const REACHED: &str = "reached";
/// The file that fills /dev/shm.
pub(super) const FILLER: &str = "/dev/shm/soak-filler";

/// The number of the prepared harm, and its random seed.
static DUE: AtomicU32 = AtomicU32::new(0);
static SEED: AtomicU64 = AtomicU64::new(0);
/// The thread with `SCHED_IDLE`; 0 if there is none.
static IDLE: AtomicU32 = AtomicU32::new(0);
/// Whether this process corrupts its segment.
static HOSTILE: AtomicBool = AtomicBool::new(false);

/// Prepares a harm, which happens when this process reaches the point for the `nth` time.
pub(super) fn prepare(point: Point, nth: u32, harm: Harm, seed: u64) {
    DUE.store(harm as u32, SeqCst);
    SEED.store(seed, SeqCst);
    arm(point, nth, strike);
}

fn strike() {
    let line = format!("\n{REACHED}\n");
    // SAFETY: the string has this length.
    unsafe { libc::write(1, line.as_ptr().cast(), line.len()) };
    match Harm::ALL[DUE.load(SeqCst) as usize] {
        // The signal goes to this thread. If another thread got the signal, the process would stop later.
        // SAFETY: the call takes only a number.
        Harm::Stop => drop(unsafe { libc::raise(libc::SIGSTOP) }),
        // SAFETY: the call takes only numbers.
        Harm::Kill => drop(unsafe { libc::kill(libc::getpid(), libc::SIGKILL) }),
        Harm::NoFiles => limit(libc::RLIMIT_NOFILE, first_free_file()),
        Harm::NoMemory => limit(libc::RLIMIT_AS, mapped_bytes() + LEFT_TO_MAP),
        Harm::FullShm => fill_shm(),
        Harm::Hostile => {
            HOSTILE.store(true, SeqCst);
            misbehave();
        }
        Harm::Hold => std::thread::sleep(HELD),
        Harm::Idle => {
            IDLE.store(thread_id(), SeqCst);
            schedule(0, libc::SCHED_IDLE);
        }
    }
}

/// Sets the scheduling policy of a thread; 0 is this thread.
fn schedule(thread: u32, policy: libc::c_int) {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter outlives the call.
    unsafe { libc::sched_setscheduler(thread as libc::pid_t, policy, &priority) };
}

/// Bytes that remain for small allocations. A Rust program aborts if it cannot make these.
const LEFT_TO_MAP: u64 = 32 << 20;

fn first_free_file() -> u64 {
    // SAFETY: the descriptor is a new duplicate, which only this function uses.
    unsafe {
        let free = libc::dup(2);
        libc::close(free);
        free as u64
    }
}

fn mapped_bytes() -> u64 {
    let about = std::fs::read_to_string("/proc/self/statm").expect("it can be read");
    4096 * about.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).expect("a number")
}

fn limit(what: libc::__rlimit_resource_t, to: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit(2) fills the struct in before it is read.
    unsafe {
        libc::getrlimit(what, &mut limit);
        limit.rlim_cur = to;
        libc::setrlimit(what, &limit);
    }
}

/// Ends the harm: restores the resource limits and the scheduling policy, and stops corrupting the segment.
/// Without privileges, the kernel may refuse to restore the policy.
pub(super) fn relent() {
    HOSTILE.store(false, SeqCst);
    let idle = IDLE.swap(0, SeqCst);
    if idle != 0 {
        schedule(idle, libc::SCHED_OTHER);
    }
    for what in [libc::RLIMIT_NOFILE, libc::RLIMIT_AS] {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: getrlimit(2) fills the struct in before it is read.
        unsafe {
            libc::getrlimit(what, &mut limit);
            limit.rlim_cur =
                if what == libc::RLIMIT_NOFILE { 1024.min(limit.rlim_max) } else { limit.rlim_max };
            libc::setrlimit(what, &limit);
        }
    }
}

fn fill_shm() {
    let mut filler = std::fs::File::create(FILLER).expect("a file in /dev/shm");
    while filler.write_all(&[0; 4096]).is_ok() {}
}

/// Overwrites words of this process's segment if the process is hostile.
pub(super) fn misbehave() {
    if !HOSTILE.load(Relaxed) {
        return;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED.fetch_add(1, SeqCst));
    let Ok(process) = Process::current() else { return };
    let segment = process.segment;
    let is_used = |n: &usize| segment.qp(*n).is_some_and(|qp| ![0, DESTROYED].contains(&qp.shown().state()));
    let used: Vec<usize> = (0..QPS).filter(is_used).collect();
    for _ in 0..20 {
        if let Some(index) = used.get(random.next_u64() as usize % used.len().max(1)) {
            scribble_one(segment, *index, &mut random);
        }
    }
}

/// Overwrites words of one record, ring or slot that is in use.
fn scribble_one(segment: &Segment, index: usize, random: &mut Xoshiro256PlusPlus) {
    let Some(qp) = segment.qp(index) else { return };
    let (rq, cq) = (qp.rq.load(Relaxed) as usize, qp.cq.load(Relaxed) as usize);
    match random.next_u64() % 13 {
        0 => scribble(qp, random, &[]),
        1 => segment.rq(rq).into_iter().for_each(|record| scribble(record, random, &[])),
        2 => segment.cq(cq).into_iter().for_each(|record| scribble(record, random, &[])),
        3 => segment.mr(random.next_u64() as usize % 8).into_iter().for_each(|r| scribble(r, random, &[])),
        4 | 5 => scribble_ring(segment, cq, random),
        6 => {
            let turn = segment.rq(rq).and_then(|rq| segment.in_heap::<SenderTurn>(rq.turn.load(Relaxed)));
            turn.into_iter().for_each(|turn| scribble(turn, random, &[]));
        }
        7 => {
            let index = random.next_u64() as usize % 64;
            segment.copy(index).into_iter().for_each(|record| scribble(record, random, &[]));
            scribble(segment.copies(), random, &[]);
        }
        _ => scribble_slot(segment, rq, random),
    }
}

fn scribble_ring(segment: &Segment, cq: usize, random: &mut Xoshiro256PlusPlus) {
    let Some(record) = segment.cq(cq) else { return };
    let at = RingPlace::of_record(record.ring.load(Relaxed)).at();
    let at = at + random.next_u64() % 6 * size_of::<CqRing>() as u64 / 2 / 64 * 64;
    if let Some(cells) = segment.in_heap::<CacheLine<[AtomicU64; 8]>>(at) {
        scribble(cells, random, &[]);
    }
}

fn scribble_slot(segment: &Segment, rq: usize, random: &mut Xoshiro256PlusPlus) {
    let Some(record) = segment.rq(rq) else { return };
    let at = random.next_u64() % 16 * stride(record.max_sge.load(Relaxed).min(32));
    if let Some(slot) = segment.in_heap::<RqSlot>(record.slots.load(Relaxed).wrapping_add(at)) {
        scribble(slot, random, &[]);
    }
}
