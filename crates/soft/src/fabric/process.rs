//! This process as a user of the device.

use super::peer::Peer;
use super::progress::Progress;
use super::registry::{Member, Registry};
use crate::errno::{ENOMEM, Errno};
use crate::memory::records::{CQS, PROCESSES, QPS, RQS, slot_of};
use crate::memory::regions::{PdNumbers, Regions};
use crate::memory::segment::{Heap, Segment};
use crate::sync::lock;
use std::collections::HashMap;
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
    pub(crate) qp_numbers: Numbers,
    pub(crate) cq_numbers: Numbers,
    pub(crate) srq_numbers: Numbers,
    pub(crate) progress: Progress,
    registry: Registry,
    peers: Mutex<HashMap<u32, Arc<Peer>>>,
}

static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

impl Process {
    /// The one of this process, made on first use.
    pub(crate) fn current() -> Result<&'static Process, Errno> {
        static MAKING: Mutex<()> = Mutex::new(());
        let _making = lock(&MAKING);
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
            eprintln!("doorbell: this process cannot use the software NIC: {error}");
            Errno::from(error)
        };
        let own = crate::memory::arena::own().map_err(explain)?;
        let fd = own.file.as_raw_fd() as u32;
        let (registry, slot) = loop {
            let registry = Registry::open().map_err(explain)?;
            if let Some(slot) = registry.join(fd).map_err(explain)? {
                break (registry, slot);
            }
        };
        Ok(Process {
            slot,
            segment: &own.segment,
            heap: Heap::new(),
            regions: Regions::default(),
            pds: PdNumbers::default(),
            // QP numbers 0 and 1 are those of the management QPs.
            qp_numbers: Numbers::new(2, QPS as u32),
            cq_numbers: Numbers::new(0, CQS as u32),
            srq_numbers: Numbers::new(0, (RQS - QPS) as u32),
            progress: Progress::default(),
            registry,
            peers: Mutex::default(),
        })
    }

    /// The process that a QP number belongs to; `None` where there is no such process, or it
    /// cannot be reached.
    pub(crate) fn peer(&'static self, qpn: u32) -> Option<Arc<Peer>> {
        let slot = slot_of(qpn);
        if slot as usize >= PROCESSES || slot == self.slot {
            return None;
        }
        let mut peers = lock(&self.peers);
        if let Some(peer) = peers.get(&slot).filter(|peer| !peer.is_dead()) {
            return Some(peer.clone());
        }
        let member: Member = self.registry.find(slot).ok().flatten()?;
        let peer = Arc::new(Peer::open(slot, member).ok()?);
        peers.insert(slot, peer.clone());
        self.progress.watch(peer.clone());
        Some(peer)
    }
}

/// What is done once, before the first use.
fn prepare() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: lets processes of this user read and write this one, where Yama would not; the
        // handlers are functions of this library, which is never unloaded.
        unsafe {
            libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0);
            libc::pthread_atfork(None, None, Some(in_child));
            libc::atexit(at_exit);
        }
    });
}

/// A child starts anew: what its parent has of the device is not the child's.
extern "C" fn in_child() {
    CURRENT.store(std::ptr::null_mut(), Release);
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
    next: u32,
    end: u32,
    free: std::collections::VecDeque<u32>,
}

impl Numbers {
    fn new(next: u32, end: u32) -> Numbers {
        Numbers(Mutex::new(NumbersState { next, end, free: Default::default() }))
    }

    pub(crate) fn take(&self) -> Result<u32, Errno> {
        let mut state = lock(&self.0);
        if state.next < state.end {
            state.next += 1;
            return Ok(state.next - 1);
        }
        state.free.pop_front().ok_or(ENOMEM)
    }

    pub(crate) fn give_back(&self, number: u32) {
        lock(&self.0).free.push_back(number);
    }
}
