//! This process as a user of the device.

use super::peer::Peer;
use super::progress::Progress;
use super::ptrace;
use super::registry::{Member, Registry};
use crate::errno::{ENOMEM, Errno};
use crate::identity::Identity;
use crate::memory::records::{CLAIMER_BITS, CQS, PROCESSES, QP_INDICES, QPS, RQS, slot_of};
use crate::memory::regions::{PdNumbers, Regions};
use crate::memory::segment::{Heap, Segment};
use crate::path::Paths;
use crate::point::{Point, reach};
use crate::say::say;
use crate::sync::{Anew, lock};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicPtr, Ordering::*};
use std::sync::{Arc, Mutex};

/// Everything that this process has of the device, apart from its objects. Made when the first
/// device is opened, and never freed.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its number among the processes that use the device.
    pub(crate) slot: u32,
    pub(crate) segment: &'static Segment,
    pub(crate) heap: Heap,
    pub(crate) regions: Regions,
    pub(crate) pds: PdNumbers,
    pub(crate) paths: Paths,
    pub(crate) qp_numbers: Numbers,
    pub(crate) cq_numbers: Numbers,
    pub(crate) srq_numbers: Numbers,
    pub(crate) progress: Progress,
    /// Number of this process as one that takes RECVs.
    pub(crate) claimer: u32,
    registry: Registry,
    /// Taken by who meets a peer, so that nobody else meets it too.
    meeting: Mutex<()>,
    /// The process that was met last in each slot.
    met: Mutex<HashMap<u32, u32>>,
}

static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

impl Process {
    /// The one of this process, made on first use.
    pub(crate) fn current() -> Result<&'static Process, Errno> {
        static MAKING: Anew<()> = Anew::new(());
        let _making = MAKING.lock();
        let known = CURRENT.load(Acquire);
        if !known.is_null() {
            // SAFETY: set below from a leaked box.
            return Ok(unsafe { &*known });
        }
        let process = Box::leak(Box::new(Process::new()?));
        CURRENT.store(process, Release);
        Ok(process)
    }

    fn new() -> Result<Process, Errno> {
        prepare();
        let explain = |error: std::io::Error| {
            say(format_args!("this process cannot use the software NIC: {error}"));
            Errno::from(error)
        };
        let own = crate::memory::arena::own().map_err(explain)?;
        let fd = own.file.as_raw_fd() as u32;
        let registry = Registry::open().map_err(explain)?;
        let slot = registry.join(fd).map_err(explain)?;
        let claimer = registry.find(slot).map_err(explain)?.map_or(0, |me| claimer(slot, &me));
        let first = |of: usize| Identity::own().first(of as u32);
        Ok(Process {
            slot,
            segment: &own.segment,
            heap: Heap::new(),
            regions: Regions::default(),
            pds: PdNumbers::default(),
            paths: Paths::default(),
            qp_numbers: Numbers::new(QP_INDICES, first(QPS)),
            cq_numbers: Numbers::new(0..CQS as u32, 0),
            srq_numbers: Numbers::new(0..(RQS - QPS) as u32, 0),
            progress: Progress::new().map_err(explain)?,
            claimer,
            registry,
            meeting: Mutex::default(),
            met: Mutex::default(),
        })
    }

    /// Whether the process with this number of a claimer has ended. What cannot be found out is not so.
    pub(crate) fn is_gone(&self, who: u32) -> bool {
        if who == self.claimer {
            return false;
        }
        let slot = who & (PROCESSES as u32 - 1);
        let Ok(found) = self.registry.find(slot) else { return false };
        found
            .is_none_or(|member| claimer(slot, &member) != who || member.is_alive().is_ok_and(|alive| !alive))
    }

    /// The process that a QP number belongs to; `None` where there is no such process, or it
    /// cannot be reached.
    pub(crate) fn peer(&'static self, qpn: u32) -> Option<Arc<Peer>> {
        let slot = slot_of(qpn);
        if slot as usize >= PROCESSES || slot == self.slot {
            return None;
        }
        let _meeting = lock(&self.meeting);
        if let Some(peer) = self.progress.peer(slot) {
            return Some(peer);
        }
        match self.open(slot) {
            Ok(peer) => {
                let peer = Arc::new(peer?);
                reach(Point::PeerOpened);
                lock(&self.met).insert(slot, peer.member.pid);
                self.progress.watch(peer.clone());
                Some(peer)
            }
            Err(error) => {
                say_unreachable(qpn, &error);
                None
            }
        }
    }

    /// Whether a QP number is of this process.
    pub(crate) fn is_own(&self, qpn: u32) -> bool {
        slot_of(qpn) == self.slot
    }

    /// Looks at the segment of the process that a QP number belongs to; `None` where that cannot be reached either.
    pub(crate) fn look_at<T>(&'static self, qpn: u32, look: impl FnOnce(&Segment) -> Option<T>) -> Option<T> {
        if self.is_own(qpn) { look(self.segment) } else { look(&self.peer(qpn)?.segment) }
    }

    /// Whether a process has the slot that a QP number belongs to, and runs.
    pub(crate) fn has_peer(&self, qpn: u32) -> bool {
        let member = self.registry.find(slot_of(qpn)).ok().flatten();
        member.is_some_and(|member| member.is_alive().unwrap_or(true))
    }

    /// Number of the process that a QP number belongs to, or was last seen to belong to.
    pub(crate) fn last_seen(&self, qpn: u32) -> Option<u32> {
        if self.is_own(qpn) {
            return Some(std::process::id());
        }
        let slot = slot_of(qpn);
        let met = lock(&self.met).get(&slot).copied();
        met.or_else(|| self.registry.find(slot).ok().flatten().map(|member| member.pid))
    }

    /// The process in a slot; `None` where there is none, or no longer.
    fn open(&'static self, slot: u32) -> std::io::Result<Option<Peer>> {
        let Some(member) = self.registry.find(slot)? else { return Ok(None) };
        match Peer::open(slot, member, &self.registry) {
            Ok(peer) => Ok(Some(peer)),
            // It has ended meanwhile.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The number of a process as one that takes RECVs: its slot, and what tells it from those that had the slot before.
fn claimer(slot: u32, member: &Member) -> u32 {
    const REST: u32 = CLAIMER_BITS - PROCESSES.trailing_zeros();
    // Fibonacci hashing: start times follow each other.
    let mixed = (member.start_time << 22 ^ u64::from(member.pid)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    slot | ((mixed >> (u64::BITS - REST)) as u32) << PROCESSES.trailing_zeros()
}

/// Says why a process cannot be reached that lives, for each cause once: programs see no more of it than of one that is gone.
pub(crate) fn say_unreachable(qpn: u32, error: &std::io::Error) {
    static SAID: Anew<BTreeSet<Option<i32>>> = Anew::new(BTreeSet::new());
    if SAID.lock().insert(error.raw_os_error()) {
        let hint = match error.raw_os_error() {
            Some(libc::EMFILE) => {
                "; ulimit -n says how many files a process may have open, and meeting a peer takes one"
            }
            Some(libc::ENOMEM) => {
                "; ulimit -v says how much a process may map, and each peer takes eight gigabytes of addresses, and those of its buffers"
            }
            _ => "",
        };
        say(format_args!(
            "the process of QP {qpn:#x} cannot be reached, and what is sent to it is not received: {error}{hint}"
        ));
    }
}

/// What is done once, before the first use.
fn prepare() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        ptrace::open();
        // SAFETY: functions of this library, which is never unloaded.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
            libc::atexit(at_exit);
        }
    });
}

/// A child starts anew: what its parent has of the device is not the child's.
extern "C" fn in_child() {
    let parents = CURRENT.swap(std::ptr::null_mut(), AcqRel);
    if !parents.is_null() {
        // SAFETY: set in `current` from a leaked box.
        unsafe { (*parents).registry.forget() };
    }
}

/// Gives the slot back.
extern "C" fn at_exit() {
    let process = CURRENT.load(Acquire);
    if !process.is_null() {
        // SAFETY: set in `current` from a leaked box.
        let process = unsafe { &*process };
        let _ = process.registry.leave(process.slot);
    }
}

/// Numbers for objects; the one freed longest ago is used first.
#[derive(Debug)]
pub(crate) struct Numbers(Mutex<NumbersState>);

#[derive(Debug)]
struct NumbersState {
    all: Range<u32>,
    /// The one that is given next of those never given, and how many those are.
    next: u32,
    left: u32,
    free: std::collections::VecDeque<u32>,
}

impl Numbers {
    /// All in a range, from one on.
    fn new(all: Range<u32>, first: u32) -> Numbers {
        let (next, left) = (if all.contains(&first) { first } else { all.start }, all.len() as u32);
        Numbers(Mutex::new(NumbersState { all, next, left, free: Default::default() }))
    }

    pub(crate) fn take(&self) -> Result<u32, Errno> {
        let mut state = lock(&self.0);
        if state.left > 0 {
            let number = state.next;
            state.left -= 1;
            state.next = if number + 1 == state.all.end { state.all.start } else { number + 1 };
            return Ok(number);
        }
        state.free.pop_front().ok_or(ENOMEM)
    }

    pub(crate) fn give_back(&self, number: u32) {
        lock(&self.0).free.push_back(number);
    }
}
