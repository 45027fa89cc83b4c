//! This process as a user of the device.

use super::copier::{Copier, CopyHolder};
use super::domains::{Domain, Domains, Opening};
use super::link::Meeting;
use super::member::FabricMember;
use super::peer::Peer;
use super::progress::Progress;
use super::ptrace;
use super::registry::Registry;
use super::service::{self, ServedProcess};
use super::spare_copies::SpareCopies;
use super::words::{WordLocks, WordMutexes};
use crate::descriptors::Private;
use crate::errno::{ENOMEM, Errno};
use crate::identity::{FabricPlace, Identity};
use crate::memory::groups::{Group, Groups};
use crate::memory::records::{CLAIMER_BITS, CQS, QPS_IN_SLOT, SLOTS, SRQS};
use crate::memory::regions::{PdNumbers, Regions};
use crate::memory::segment::{Heap, Segment};
use crate::path::Paths;
use crate::point::{Point, reach};
use crate::sync::platform::{has_global_fence, has_heavy_fence, takes_global_fence};
use crate::sync::{Anew, lock};
use doorbell_launch::qp_numbers::{PROCESSES, QP_BITS, slot_of};
use doorbell_launch::say::say;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicPtr, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock};

/// Upper bound on the index of a process's first QP, exclusive. The index depends on the fabric's identity,
/// so that fabrics have different QP numbers. The bound is low because the records below the first QP's
/// record take memory.
const FIRST_QPS: usize = 1 << 10;

/// Everything of the device that belongs to this process, apart from its objects. It is created when the
/// first device is opened, and never freed.
#[derive(Debug)]
pub(crate) struct Process {
    /// Number of this process's first slot in the registry.
    pub(crate) slot: u32,
    pub(crate) segment: &'static Segment,
    pub(crate) heap: Heap,
    pub(crate) regions: Regions,
    pub(crate) pds: PdNumbers,
    pub(crate) paths: Paths,
    /// The attachments of this process's QPs to multicast groups.
    pub(crate) groups: Groups,
    domains: Domains,
    qp_indices: QpIndices,
    pub(crate) cq_numbers: Numbers,
    pub(crate) srq_numbers: Numbers,
    pub(crate) progress: Progress,
    /// The number under which this process claims RECVs.
    pub(crate) claimer: u32,
    /// This process as the holder of copy records.
    copies: CopyHolder,
    /// Spare copy records in this process's own segment: this process holds them, and no copier uses them.
    spare_copies: SpareCopies,
    /// Copies from and to this process's memory that calls have given up (`revoking`). The keys are indices
    /// of copy records, and the values are the counts in these records.
    pub(super) given_up: Mutex<HashMap<usize, u64>>,
    word_mutexes: WordMutexes,
    /// The name of the socket for requests of peers, if this process has one.
    listens_as: Option<String>,
    registry: Registry,
    /// This process's entry in the registry.
    member: FabricMember,
    /// Peers that have not identified themselves yet, by their slots. A thread that opens a peer holds the
    /// lock, so that no other thread opens this peer, too.
    meetings: Mutex<HashMap<u32, Meeting>>,
    /// PID of the process that was met last in each slot; 0 if the process may be in another PID namespace.
    met: Mutex<HashMap<u32, u32>>,
}

/// The only instance in this process. Release publishes it to the Acquire load of `at_exit`. All other
/// threads load it under the lock of `current`. The child of a fork(2) sets null while it has only one
/// thread.
static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

impl Process {
    /// The only instance in this process, created on first use.
    pub(crate) fn current() -> Result<&'static Process, Errno> {
        static MAKING: Anew<()> = Anew::new(());
        let _making = MAKING.lock();
        let known = CURRENT.load(Acquire);
        if !known.is_null() {
            // SAFETY: set below from a leaked box.
            return Ok(unsafe { &*known });
        }
        let (process, listener) = Process::new()?;
        let process: &'static Process = Box::leak(Box::new(process));
        if let Some(listener) = listener {
            let Process { member, segment, ref regions, .. } = *process;
            let copier =
                process.copier().map_err(|errno| explain(std::io::Error::from_raw_os_error(errno.0)))?;
            let words = process.word_locks();
            let served = ServedProcess { member, segment, regions, copier, words };
            service::start(served, listener).map_err(explain)?;
        }
        CURRENT.store(std::ptr::from_ref(process).cast_mut(), Release);
        Ok(process)
    }

    /// Creates the instance. Also creates the listening socket for requests of peers, if peers need the
    /// service thread.
    fn new() -> Result<(Process, Option<Private>), Errno> {
        prepare();
        let own = crate::memory::arena::own().map_err(explain)?;
        let fd = own.file.as_raw_fd() as u32;
        let registry = Registry::open().map_err(explain_fabric)?;
        let slot = registry.join(fd).map_err(explain)?;
        let listens = registry.is_joined() || !ptrace::is_wanted();
        let listen = || service::listen(registry.folder(), slot).and_then(Private::new);
        let listener = listens.then(listen).transpose().map_err(explain)?;
        let member = registry.find(slot).map_err(explain)?.ok_or(ENOMEM)?;
        let claimer = claimer(&member);
        own.segment.slots.set(0, slot);
        // A child of fork(2) registers itself. Relaxed: no other process can find the segment yet.
        let copies = CopyHolder { number: claimer + 1, takes_fence: takes_global_fence() };
        own.segment.copies().has_fence.store(has_global_fence().into(), Relaxed);
        let first = |of: usize| Identity::own().first(of as u32);
        let process = Process {
            slot,
            segment: &own.segment,
            heap: Heap::new(&own.segment),
            regions: Regions::default(),
            pds: PdNumbers::default(),
            paths: Paths::default(),
            groups: Groups::default(),
            domains: Domains::default(),
            qp_indices: QpIndices::new(first(FIRST_QPS)),
            cq_numbers: Numbers::new(0..CQS as u32, 0),
            srq_numbers: Numbers::new(0..SRQS as u32, 0),
            progress: Progress::new().map_err(explain)?,
            claimer,
            copies,
            spare_copies: SpareCopies::default(),
            given_up: Mutex::default(),
            word_mutexes: WordMutexes::default(),
            listens_as: listens.then(|| slot.to_string()),
            registry,
            member,
            meetings: Mutex::default(),
            met: Mutex::default(),
        };
        Ok((process, listener))
    }

    /// Whether the process with this claimer number has exited, or has become another program by execve(2).
    /// `false` if that cannot be found out.
    pub(crate) fn is_gone(&self, who: u32) -> bool {
        if who == self.claimer {
            return false;
        }
        let slot = who & (PROCESSES as u32 - 1);
        let Ok(found) = self.registry.find(slot) else { return false };
        found.is_none_or(|member| claimer(&member) != who || !self.registry.is_alive(slot, &member))
    }

    /// PID of the process with this claimer number; `None` if the process has left its slot, or may be in
    /// another PID namespace.
    pub(super) fn pid_of(&self, who: u32) -> Option<u32> {
        let slot = who & (PROCESSES as u32 - 1);
        let member = self.registry.find(slot).ok().flatten()?;
        (claimer(&member) == who && member.has_pid()).then_some(member.pid)
    }

    /// A copier of this process for memory of this process. Fails with `ENOMEM` if all copy records of this
    /// process are in use.
    pub(crate) fn copier(&'static self) -> Result<Arc<Copier>, Errno> {
        let own = (self.segment, &self.spare_copies);
        Copier::own(own, self.copies, |holder| self.is_gone(holder - 1)).ok_or(ENOMEM)
    }

    /// A copier of this process for memory of a peer. `None` if all copy records of the peer are in use.
    pub(crate) fn copier_at(&self, peer: &Arc<Peer>) -> Option<Arc<Copier>> {
        Copier::at(peer, self.copies, |holder| self.is_gone(holder - 1))
    }

    /// The other process that a QP number belongs to; `None` if no other process has the number, or the
    /// process cannot be reached.
    pub(crate) fn peer(&'static self, qpn: u32) -> Option<Arc<Peer>> {
        let slot = slot_of(qpn);
        if slot as usize >= PROCESSES || self.is_own(qpn) {
            return None;
        }
        let mut meetings = lock(&self.meetings);
        if let Some(peer) = self.progress.peer(slot) {
            return Some(peer);
        }
        match self.open(slot, &mut meetings) {
            Ok(peer) => {
                let peer = Arc::new(peer?);
                reach(Point::PeerOpened);
                lock(&self.met).insert(slot, peer.member.number());
                self.progress.watch(peer.clone());
                Some(peer)
            }
            Err(error) => {
                say_unreachable(qpn, &error);
                None
            }
        }
    }

    pub(crate) fn word_locks(&self) -> WordLocks<'_> {
        WordLocks { mutexes: &self.word_mutexes, registry: &self.registry }
    }

    /// The fabric's folder. It exists as long as this process belongs to the fabric.
    pub(crate) fn folder(&self) -> &File {
        self.registry.folder()
    }

    /// Attaches a QP of this process to a multicast group.
    pub(crate) fn attach(&self, index: u32, group: Group) -> Result<(), Errno> {
        // The mark comes first, because senders look for group members only in processes with this mark.
        self.registry.set_in_groups(slot_of(self.qp_num(index)), true)?;
        self.groups.attach(self.segment, index, group)
    }

    /// Opens an XRC domain.
    pub(crate) fn open_domain(&self, opening: Opening) -> Result<Domain, Errno> {
        self.domains.open(&self.registry, self.slot, opening)
    }

    pub(crate) fn close_domain(&self, domain: &Domain) {
        self.domains.close(&self.registry, domain);
    }

    /// The slots of processes that may have QPs in multicast groups; empty if that cannot be found out.
    pub(crate) fn slots_with_groups(&self) -> Vec<u32> {
        self.registry.slots_in_groups().unwrap_or_default()
    }

    /// Whether a QP number belongs to this process.
    #[inline(always)]
    pub(crate) fn is_own(&self, qpn: u32) -> bool {
        self.segment.slots.has(slot_of(qpn))
    }

    /// The number of this process's QP with this index.
    #[inline(always)]
    pub(crate) fn qp_num(&self, index: u32) -> u32 {
        self.segment.slots.qp_num(index)
    }

    /// An index for a new QP. Fails with `ENOMEM` if this process has the maximum number of QPs, or if it
    /// needs a further slot and the fabric has none left.
    pub(crate) fn hold_qp_index(&'static self) -> Result<HeldNumber, Errno> {
        self.qp_indices.hold(|place| {
            let slot = self.registry.join_again(self.member, &self.segment.slots)?.ok_or(ENOMEM)?;
            if let Some(name) = &self.listens_as {
                self.registry.link_socket(name, slot)?;
            }
            self.segment.slots.set(place, slot);
            Ok(())
        })
    }

    /// Calls `look` with the segment of the process that a QP number belongs to; `None` if that process
    /// cannot be reached.
    pub(crate) fn look_at<T>(&'static self, qpn: u32, look: impl FnOnce(&Segment) -> Option<T>) -> Option<T> {
        if self.is_own(qpn) { look(self.segment) } else { look(&self.peer(qpn)?.segment) }
    }

    /// Whether a living process has the slot that a QP number belongs to.
    pub(crate) fn has_peer(&self, qpn: u32) -> bool {
        let is_alive = |member: FabricMember| self.registry.is_alive(slot_of(qpn), &member);
        self.is_own(qpn) || self.member_of(qpn).is_some_and(is_alive)
    }

    /// The registry entry of the process that a QP number belongs to.
    fn member_of(&self, qpn: u32) -> Option<FabricMember> {
        self.registry.find(slot_of(qpn)).ok().flatten()
    }

    /// The PID and the claimer number of the process that a QP number belongs to; both are 0 if no process
    /// has its slot. The PID is 0 if the fabric may span PID namespaces.
    pub(crate) fn known_as(&self, qpn: u32) -> (u32, u32) {
        let member = if self.is_own(qpn) { Some(self.member) } else { self.member_of(qpn) };
        member.map_or((0, 0), |member| (member.number(), claimer(&member)))
    }

    /// PID of the process that this process last met in the slot of this QP number. If it has met none, the
    /// PID of the process that has the slot now. `None` if there is no such process. 0 if the fabric may span
    /// PID namespaces.
    pub(crate) fn last_seen(&self, qpn: u32) -> Option<u32> {
        if self.is_own(qpn) {
            return Some(std::process::id());
        }
        let met = lock(&self.met).get(&slot_of(qpn)).copied();
        met.or_else(|| self.member_of(qpn).map(|member| member.number()))
    }

    /// Opens the process in a slot; `None` if the slot is free, or the process has exited or has not answered
    /// yet.
    fn open(&'static self, slot: u32, meetings: &mut HashMap<u32, Meeting>) -> std::io::Result<Option<Peer>> {
        let Some(member) = self.registry.find(slot)? else { return Ok(None) };
        let known = meetings.remove(&slot).filter(|meeting| meeting.is_with(&member));
        // This check comes first: opening files of an exited process again and again would keep the kernel
        // from removing that process.
        if self.registry.has_ended(slot, &member) {
            return Ok(None);
        }
        let meeting = match known {
            None => Meeting::begin(self.registry.folder(), slot, member)?,
            known => known,
        };
        let opened = match meeting.map(Meeting::end) {
            Some(Ok(met)) => Peer::met(slot, member, met, &self.registry),
            Some(Err(Ok(waits))) => {
                meetings.insert(slot, waits);
                return Ok(None);
            }
            Some(Err(Err(error))) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            Some(Err(Err(error))) => Err(error),
            None if member.has_pid() => Peer::open(slot, member, &self.registry),
            None => return Ok(None),
        };
        match opened {
            Ok(peer) => Ok(Some(peer)),
            // The process has exited during this call.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn explain(error: std::io::Error) -> Errno {
    say(format_args!("this process cannot use the software NIC: {error}"));
    Errno::from(error)
}

/// Prints why this process cannot use the device, and the path of the fabric's folder, which the system's
/// error does not contain.
fn explain_fabric(error: std::io::Error) -> Errno {
    let folder = FabricPlace::own().and_then(|place| place.path());
    match (error.raw_os_error(), folder) {
        (Some(errno), Ok(folder)) => {
            say(format_args!("this process cannot use the software NIC: {}: {error}", folder.display()));
            Errno(errno)
        }
        _ => explain(error),
    }
}

/// The number under which a process claims RECVs: its first slot, and bits by which it differs from earlier
/// processes in the slot. The number is not 0, because a 0 in a RECV's slot means that no process is placing
/// a payload there.
fn claimer(member: &FabricMember) -> u32 {
    const REST: u32 = CLAIMER_BITS - PROCESSES.trailing_zeros();
    // Fibonacci hashing, because start times are close to each other.
    let mixed = (member.start_time << 22 ^ u64::from(member.pid)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let rest = ((mixed >> (u64::BITS - REST)) as u32).max(1);
    member.first_slot | rest << PROCESSES.trailing_zeros()
}

/// Prints why a living process cannot be reached, once for each error number. To the program, that process
/// looks as if it had exited.
pub(crate) fn say_unreachable(qpn: u32, error: &std::io::Error) {
    static SAID: Anew<BTreeSet<Option<i32>>> = Anew::new(BTreeSet::new());
    if SAID.lock().insert(error.raw_os_error()) {
        let hint = match error.raw_os_error() {
            Some(libc::EMFILE) => {
                "; each peer needs an open file, and ulimit -n limits the open files of a process"
            }
            Some(libc::ENOMEM) => {
                "; each peer needs addresses for its queues and its buffers, and ulimit -v limits the addresses \
                 of a process"
            }
            _ => "",
        };
        say(format_args!(
            "the process of QP {qpn:#x} cannot be reached and receives nothing from this process: \
             {error}{hint}"
        ));
    }
}

/// Prepares this process for the device before the first use. Only the first call has an effect.
fn prepare() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        ptrace::open();
        // SAFETY: functions of this library, which is never unloaded.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
            libc::atexit(at_exit);
        }
        has_heavy_fence();
    });
}

/// Runs in the child of a fork(2), which creates an instance of its own when it first uses the device.
extern "C" fn in_child() {
    CURRENT.store(std::ptr::null_mut(), Release);
}

/// Frees this process's slots.
extern "C" fn at_exit() {
    let process = CURRENT.load(Acquire);
    if !process.is_null() {
        // SAFETY: set in `current` from a leaked box.
        let process = unsafe { &*process };
        let slots: Vec<u32> = process.segment.slots.all().collect();
        let _ = process.registry.leave(&slots);
    }
}

/// The indices for QPs of a process. The process takes a further slot when all indices of its slots are in
/// use.
#[derive(Debug)]
struct QpIndices {
    /// The indices of each slot that the process has.
    slots: [OnceLock<Numbers>; SLOTS],
    /// Offset of the first index to give in each slot.
    first: u32,
    /// Held by a thread that takes an index, so that only one thread at a time takes a slot.
    taking: Mutex<()>,
}

impl QpIndices {
    /// The indices of a process with one slot.
    fn new(first: u32) -> QpIndices {
        let indices = QpIndices { slots: Default::default(), first, taking: Mutex::default() };
        indices.of_slot(0);
        indices
    }

    /// The indices of the process's slot number `place`, counted from 0 in the order in which the process
    /// took its slots.
    fn of_slot(&self, place: usize) -> &Numbers {
        let base = (place as u32) << QP_BITS;
        let all = base + QPS_IN_SLOT.start..base + QPS_IN_SLOT.end;
        self.slots[place].get_or_init(|| Numbers::new(all, base + self.first))
    }

    /// A free index. `begin` takes a further slot for the process: slot number `place`, counted from 0.
    fn hold(&'static self, begin: impl Fn(usize) -> Result<(), Errno>) -> Result<HeldNumber, Errno> {
        let _taking = lock(&self.taking);
        for (place, slot) in self.slots.iter().enumerate() {
            if slot.get().is_none() {
                begin(place)?;
            }
            if let Ok(held) = self.of_slot(place).hold() {
                return Ok(held);
            }
        }
        Err(ENOMEM)
    }
}

/// Numbers for objects. Unused numbers are given first, then the number that was freed longest ago.
#[derive(Debug)]
pub(crate) struct Numbers(Mutex<NumbersState>);

#[derive(Debug)]
struct NumbersState {
    all: Range<u32>,
    /// The next number that was never used, and how many such numbers are left.
    next: u32,
    left: u32,
    free: std::collections::VecDeque<u32>,
}

impl Numbers {
    /// All numbers of a range. The first number to give is `first`, or the start of the range if `first` lies
    /// outside the range.
    fn new(all: Range<u32>, first: u32) -> Numbers {
        let (next, left) = (if all.contains(&first) { first } else { all.start }, all.len() as u32);
        Numbers(Mutex::new(NumbersState { all, next, left, free: Default::default() }))
    }

    /// Takes a number, which is free again when the result is dropped.
    pub(crate) fn hold(&'static self) -> Result<HeldNumber, Errno> {
        Ok(HeldNumber { numbers: self, number: self.take()? })
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

/// A number in use by an object. Dropping this value frees the number.
#[derive(Debug)]
pub(crate) struct HeldNumber {
    numbers: &'static Numbers,
    pub(crate) number: u32,
}

impl Drop for HeldNumber {
    fn drop(&mut self) {
        self.numbers.give_back(self.number);
    }
}
