//! The service thread of this process. It accesses this process's memory for peers that cannot access the
//! memory themselves: the peer is in another PID namespace, or the kernel denies the access.
//!
//! The thread never blocks on a peer, and trusts no peer. It checks each request against this process's own
//! regions.

use super::copier::Copier;
use super::link::{Delivery, ServedBytes};
use super::mapping;
use super::member::FabricMember;
use super::peer::Owner;
use super::pipe::tell;
use super::wire::{self, AnswerKind, Head, MAX_PART, RequestKind, WireMessage};
use super::words::{Word, WordLocks};
use crate::descriptors::Private;
use crate::memory::copy::Piece;
use crate::memory::maps::{self, MapsOf};
use crate::memory::objects::HostMemory;
use crate::memory::records::EventRecord;
use crate::memory::regions::{Place, Regions};
use crate::memory::segment::Segment;
use crate::memory::transfer::{self, Direction, Far, Unreachable};
use crate::point::{Point, reach};
use crate::thread::spawn;
use doorbell_abi::CEnum;
use doorbell_launch::qp_numbers::slot_of;
use doorbell_transport::{AtomicOp, takes_requests};
use doorbell_verbs::{AccessFlags, QpState};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::collections::HashMap;
use std::fmt::Display;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Sleep of the thread when no file descriptor is left for a new connection.
const NO_FILE: Duration = Duration::from_millis(20);
/// Maximum number of bytes of a message that is sent in parts.
const LONGEST: usize = doorbell_transport::MAX_MESSAGE_BYTES as usize + 64;

/// Delivers messages to QPs and SRQs of this process.
pub(crate) trait Delivers: Sync {
    /// Receives a message as if this process had sent it to itself. `message` is a header and the payload.
    /// Returns the reason if the message is refused.
    fn deliver(&self, delivery: &Delivery, message: &[u8]) -> Option<u64>;
}

static DELIVERS: OnceLock<&'static dyn Delivers> = OnceLock::new();

/// Sets the object that delivers messages in this process. Only the first call counts.
pub(crate) fn deliver_by(delivers: &'static dyn Delivers) {
    let _ = DELIVERS.set(delivers);
}

/// Creates a socket that listens under `name` in an open folder. The name is the number of a slot, or a name
/// that rdma_cm has claimed. The caller ensures that no socket of a living process has the name.
pub(crate) fn listen(folder: &File, name: impl Display + Copy) -> io::Result<OwnedFd> {
    let socket = wire::socket()?;
    let path = format!("/proc/thread-self/fd/{}/{name}", folder.as_raw_fd());
    // A socket of this name is left if its process was killed.
    let _ = std::fs::remove_file(&path);
    net::bind(&socket, &wire::address(folder, name)?)?;
    net::listen(&socket, libc::SOMAXCONN)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(socket)
}

/// The parts of this process that the thread serves.
#[derive(Clone, Debug)]
pub(crate) struct ServedProcess {
    pub(crate) member: FabricMember,
    pub(crate) segment: &'static Segment,
    pub(crate) regions: &'static Regions,
    /// The thread's own copier. Its copy record covers the thread's accesses to this process's memory.
    pub(crate) copier: Arc<Copier>,
    pub(crate) words: WordLocks<'static>,
}

/// Starts the service thread.
pub(crate) fn start(served: ServedProcess, listener: Private) -> io::Result<()> {
    spawn(c"doorbell", move || Service { served, listener, callers: Vec::new() }.run())
}

struct Service {
    served: ServedProcess,
    listener: Private,
    callers: Vec<Caller>,
}

/// A connected process that sends requests.
struct Caller {
    socket: OwnedFd,
    /// Whether the process has sent a valid HELLO.
    is_known: bool,
    /// Messages that have not arrived completely, by sending QP. Each has the number of its work request, and
    /// the bytes that have arrived.
    parts: HashMap<u64, (u64, Vec<u8>)>,
}

/// The answer to a request.
enum ServedAnswer {
    /// The request was carried out. The answer has this word 0 and these bytes.
    Done { word: u64, bytes: Vec<u8> },
    /// As [`AnswerKind::Memory`].
    Memory,
    /// As [`AnswerKind::Again`].
    Again,
    /// The message was refused for this reason.
    Refused(u64),
}

impl ServedAnswer {
    /// A request was carried out that returns nothing.
    fn done() -> ServedAnswer {
        ServedAnswer::Done { word: 0, bytes: Vec::new() }
    }

    /// The head and the bytes of the answer to request `sequence`.
    fn encode(self, sequence: u64) -> (Head, Vec<u8>) {
        let (kind, word, bytes) = match self {
            ServedAnswer::Done { word, bytes } => (AnswerKind::Done, word, bytes),
            ServedAnswer::Memory => (AnswerKind::Memory, 0, Vec::new()),
            ServedAnswer::Again => (AnswerKind::Again, 0, Vec::new()),
            ServedAnswer::Refused(why) => (AnswerKind::Refused, why, Vec::new()),
        };
        (Head::of_answer(kind, sequence, [word, 0, 0, 0, 0, 0]), bytes)
    }
}

/// The connection to a caller must be closed.
struct Hangup;

impl Service {
    fn run(mut self) {
        loop {
            let ready = self.wait();
            let mut nth = 0;
            self.callers.retain_mut(|caller| {
                nth += 1;
                !ready[nth] || caller.serve(&self.served).is_ok()
            });
            if ready[0] && !self.accept() {
                return;
            }
        }
    }

    /// Waits until a socket is ready. Returns which sockets are ready, the listener first.
    fn wait(&self) -> Vec<bool> {
        let sockets =
            std::iter::once(self.listener.get()).chain(self.callers.iter().map(|caller| &caller.socket));
        let mut all: Vec<PollFd<'_>> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        // If the call fails, no socket is marked as ready.
        let _ = poll(&mut all, None);
        all.iter().map(|entry| !entry.revents().is_empty()).collect()
    }

    /// Accepts a connection. Returns `false` if the program has closed or replaced the listener's descriptor,
    /// because then no connection can arrive any more.
    fn accept(&mut self) -> bool {
        match wire::accept(self.listener.get()) {
            Ok(Some(socket)) => self.callers.push(Caller::new(socket)),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                std::thread::sleep(NO_FILE);
            }
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EBADF | libc::ENOTSOCK | libc::EINVAL)) =>
            {
                return false;
            }
            // The process belongs to another user, or has closed the connection.
            Ok(None) | Err(_) => {}
        }
        true
    }
}

impl Caller {
    fn new(socket: OwnedFd) -> Caller {
        Caller { socket, is_known: false, parts: HashMap::new() }
    }

    /// Answers all requests that have arrived.
    fn serve(&mut self, served: &ServedProcess) -> Result<(), Hangup> {
        while let Some(received) = wire::receive(&self.socket).map_err(|_| Hangup)? {
            let sequence = received.head.sequence;
            match received.head.request() {
                Some(RequestKind::Hello) => self.welcome(served, &received)?,
                _ if !self.is_known => return Err(Hangup),
                Some(RequestKind::Wake) => wake(&received.head),
                kind => {
                    reach(Point::RequestRead);
                    let copying = served.copier.begin();
                    let answer = match kind {
                        Some(kind) => self.answer(served, kind, received),
                        // An unknown request fails like a request for missing memory.
                        None => ServedAnswer::Memory,
                    };
                    drop(copying);
                    reach(Point::RequestDone);
                    let (head, bytes) = answer.encode(sequence);
                    self.send(head, &bytes, &[])?;
                }
            }
        }
        Ok(())
    }

    /// Sends an answer. Closes the connection to a process that does not read its answers.
    fn send(&self, head: Head, bytes: &[u8], files: &[RawFd]) -> Result<(), Hangup> {
        let piece = Piece { addr: bytes.as_ptr() as u64, len: bytes.len() };
        wire::send(&self.socket, head, &[piece], files).map_err(|_| Hangup)
    }

    fn welcome(&mut self, served: &ServedProcess, received: &WireMessage) -> Result<(), Hangup> {
        let [version, slot, number, ..] = received.head.words;
        if version != wire::VERSION {
            // The answer tells the other process the version of this process.
            let head = Head::of_answer(AnswerKind::Done, 1, [wire::VERSION, 0, 0, 0, 0, 0]);
            self.send(head, &[], &[])?;
            return Err(Hangup);
        }
        let is_own = u32::try_from(slot).is_ok_and(|slot| served.segment.slots.has(slot));
        if !is_own || number != served.member.start_time {
            return Err(Hangup);
        }
        let segment = crate::memory::arena::own().map_err(|_| Hangup)?.file.as_raw_fd();
        // Without a pidfd, for example because of a seccomp(2) filter, the other process learns of this
        // process's exit by its lock in the registry.
        if doorbell_launch::say::broken("n-served") { pidfd_open(getpid(), PidfdFlags::empty()).map_err(|_| Hangup)?; }
        let own = pidfd_open(getpid(), PidfdFlags::empty()).ok();
        let files: Vec<RawFd> = std::iter::once(segment).chain(own.iter().map(OwnedFd::as_raw_fd)).collect();
        let head = Head::of_answer(AnswerKind::Done, 1, [wire::VERSION, number, 0, 0, 0, 0]);
        self.is_known = true;
        self.send(head, &[], &files)
    }

    /// Carries out a request of this kind.
    fn answer(&mut self, served: &ServedProcess, kind: RequestKind, received: WireMessage) -> ServedAnswer {
        use RequestKind::{CompareSwap, Deliver, FetchAdd, Hello, Part, Read, Wake, Write};
        let WireMessage { head: Head { words, .. }, bytes, .. } = received;
        let is_for_memory = matches!(kind, Write | Read | CompareSwap | FetchAdd);
        if is_for_memory && !is_taken(served, ServedBytes::to(&words)) {
            return ServedAnswer::Again;
        }
        let [key, offset, third, fourth, ..] = words;
        match kind {
            Write => write(served, key, offset, &bytes),
            Read => read(served, key, offset, third),
            CompareSwap => {
                atomic(served, key, offset, AtomicOp::CompareSwap { compare: third, swap: fourth })
            }
            FetchAdd => atomic(served, key, offset, AtomicOp::FetchAdd { add: third }),
            Part => self.take_part(words, &bytes),
            Deliver => self.deliver(words),
            Hello | Wake => unreachable!("`serve` handles {kind:?}"),
        }
    }

    fn take_part(&mut self, words: [u64; 6], bytes: &[u8]) -> ServedAnswer {
        let [at, qpn, number, ..] = words;
        if at == 0 {
            self.parts.insert(qpn, (number, Vec::new()));
        }
        match self.parts.get_mut(&qpn) {
            Some((of, all))
                if *of == number && all.len() as u64 == at && all.len() + bytes.len() <= LONGEST =>
            {
                all.extend_from_slice(bytes);
                ServedAnswer::done()
            }
            _ => ServedAnswer::Again,
        }
    }

    fn deliver(&mut self, words: [u64; 6]) -> ServedAnswer {
        let delivery = Delivery::from_words(words);
        let whole = u64::from(delivery.header) + u64::from(delivery.len);
        let message = self
            .parts
            .remove(&delivery.from.into())
            .filter(|(of, all)| *of == delivery.number && all.len() as u64 == whole);
        let (Some((_, message)), Some(delivers)) = (message, DELIVERS.get()) else {
            return ServedAnswer::Again;
        };
        match delivers.deliver(&delivery, &message) {
            None => ServedAnswer::done(),
            Some(why) => ServedAnswer::Refused(why),
        }
    }
}

/// Whether the QP takes the request: its number has the generation that the requester found, and its state
/// takes requests. A request may arrive so late that the QP has been reset. A QP of another process is not
/// checked (XRC).
fn is_taken(served: &ServedProcess, (qpn, generation): (u32, u32)) -> bool {
    if !served.segment.slots.has(slot_of(qpn)) {
        return true;
    }
    let qp = served.segment.qp(served.segment.index_of(qpn));
    // Acquire: the state is read after the generation. A reset changes the state before the generation, so a
    // thread that sees the new generation does not see a state from before the reset.
    qp.is_some_and(|qp| {
        let is_it = qp.generation.load(Acquire) == generation;
        is_it && QpState::from_c(qp.shown().state()).is_some_and(takes_requests)
    })
}

/// The region of a request does not exist, does not allow the access, or is not mapped.
struct Refused;

/// The address of `len` bytes in a region of this process. Fails unless the region exists, contains the
/// bytes, and allows the access `need`.
fn find(
    served: &ServedProcess,
    key: u64,
    offset: u64,
    len: u64,
    need: AccessFlags,
) -> Result<HostMemory, Refused> {
    let key = u32::try_from(key).map_err(|_| Refused)?;
    let place = served.regions.find(key).ok_or(Refused)?;
    // A peer may have invalidated a memory window. Only the window's record in the segment shows this. The
    // peer has changed the record before it sends later requests, so these requests find the change. Acquire
    // only as in `Window::is_bound`.
    let record = served.segment.mr(place.slot());
    if record.is_none_or(|record| record.key.load(Acquire) != key) {
        return Err(Refused);
    }
    let Place { region, host, object, .. } = place;
    let addr = region.addr.checked_add(offset).ok_or(Refused)?;
    place.check(region.pd, addr, len, need).map_err(|_| Refused)?;
    Ok(HostMemory { addr: host.checked_add(offset).ok_or(Refused)?, object: object.at(offset) })
}

fn write(served: &ServedProcess, key: u64, offset: u64, bytes: &[u8]) -> ServedAnswer {
    let moved = find(served, key, offset, bytes.len() as u64, AccessFlags::REMOTE_WRITE)
        .and_then(|host| move_bytes(Direction::Write, bytes.as_ptr() as u64, host.addr, bytes.len()));
    if moved.is_ok() { ServedAnswer::done() } else { ServedAnswer::Memory }
}

fn read(served: &ServedProcess, key: u64, offset: u64, len: u64) -> ServedAnswer {
    match read_bytes(served, key, offset, len) {
        Ok(bytes) => ServedAnswer::Done { word: 0, bytes },
        Err(Refused) => ServedAnswer::Memory,
    }
}

fn atomic(served: &ServedProcess, key: u64, offset: u64, op: AtomicOp) -> ServedAnswer {
    match carry_out_atomic(served, key, offset, op) {
        Ok(Some(original)) => ServedAnswer::Done { word: original, bytes: Vec::new() },
        Ok(None) => ServedAnswer::Again,
        Err(Refused) => ServedAnswer::Memory,
    }
}

fn read_bytes(served: &ServedProcess, key: u64, offset: u64, len: u64) -> Result<Vec<u8>, Refused> {
    let len = usize::try_from(len).ok().filter(|len| *len <= MAX_PART).ok_or(Refused)?;
    let HostMemory { addr, .. } = find(served, key, offset, len as u64, AccessFlags::REMOTE_READ)?;
    let mut bytes = vec![0u8; len];
    move_bytes(Direction::Read, bytes.as_mut_ptr() as u64, addr, len)?;
    Ok(bytes)
}

/// Moves bytes between a buffer of this thread and the program's memory. The program's memory is accessed as
/// if it belonged to another process. So memory that is no longer mapped causes an error instead of SIGSEGV.
/// If the kernel does not allow this kind of access, the memory is accessed directly.
fn move_bytes(direction: Direction, buffer: u64, addr: u64, len: usize) -> Result<(), Refused> {
    let pieces = [Piece { addr: buffer, len }];
    let far = match reaches_itself() {
        true => Far::Foreign { pid: std::process::id(), addr },
        false => Far::Mapped(addr as *mut u8),
    };
    let moved = match direction {
        Direction::Write => transfer::write(&pieces, far),
        Direction::Read => transfer::read(&pieces, far),
    };
    moved.map_err(|_: Unreachable| Refused)
}

/// Whether this process may call process_vm_readv(2) on itself. A seccomp(2) filter may forbid the call.
fn reaches_itself() -> bool {
    static REACHES: OnceLock<bool> = OnceLock::new();
    *REACHES.get_or_init(|| {
        let byte = 1u8;
        transfer::is_readable(std::process::id(), (&raw const byte) as u64)
    })
}

/// Carries out an atomic on a word of this process. Returns the old value of the word. Returns `None` if the
/// word's lock is not free in time, or if the word's memory object cannot be found out.
fn carry_out_atomic(
    served: &ServedProcess,
    key: u64,
    offset: u64,
    op: AtomicOp,
) -> Result<Option<u64>, Refused> {
    let HostMemory { addr, object } = find(served, key, offset, 8, AccessFlags::REMOTE_ATOMIC)?;
    if !addr.is_multiple_of(8) {
        return Err(Refused);
    }
    let Some(object) = maps::object_of_word(object, MapsOf::ThisProcess, addr) else { return Ok(None) };
    // All processes use the processor's atomics on a System V segment. This thread attaches the segment once
    // more, because the program cannot unmap this second mapping.
    let own = if object.is_system_v() { mapping::of_own_system_v(addr) } else { None };
    let mapped = match &own {
        Some(view) => Some(view.address(0)),
        None => (!reaches_itself()).then_some(addr as *mut u8),
    };
    let word = Word { segment: served.segment, addr, object, is_mapped: mapped.is_some() };
    let Some(_others) = served.words.lock_word(word, MapsOf::ThisProcess) else { return Ok(None) };
    if let Some(word) = mapped {
        // SAFETY: aligned, and mapped by `own` or within a region, which the program keeps mapped while it is
        // registered.
        return Ok(Some(unsafe { transfer::atomic_mapped(word, op, || false) }));
    }
    transfer::atomic_foreign(std::process::id(), addr, op, || false).map(Some).map_err(|_| Refused)
}

/// Writes an event to a pipe of this process.
fn wake(head: &Head) {
    let [fd, event_type, index, generation, ..] = head.words.map(|word| word as u32);
    // An event for a full pipe is lost, as with every writer of a pipe.
    tell(Owner::This, fd.wrapping_add(1), EventRecord { event_type, index, generation });
}

#[cfg(test)]
mod tests {
    use super::super::copier::CopyHolder;
    use super::super::link::SendOperand;
    use super::super::process::Process;
    use super::*;
    use doorbell_transport::Region;

    const MEMBER: FabricMember = FabricMember { pid: 1, fd: 0, start_time: 77, first_slot: 5, place: 0 };
    const PAGE: usize = 4096;

    /// A caller of the service thread, and the other end of its socket.
    struct Asking {
        served: ServedProcess,
        caller: Caller,
        other: OwnedFd,
        sequence: u64,
    }

    impl Asking {
        fn new() -> Asking {
            let (kind, flags) = (net::SocketType::SEQPACKET, net::SocketFlags::NONBLOCK);
            let (one, other) =
                net::socketpair(net::AddressFamily::UNIX, kind, flags, None).expect("there is room");
            static SEGMENT: OnceLock<Segment> = OnceLock::new();
            let segment = SEGMENT.get_or_init(|| Segment::create().expect("a segment").1);
            segment.slots.set(0, 5);
            segment.slots.set(1, 8);
            let regions = Box::leak(Box::default());
            let holder = CopyHolder { number: 1, takes_fence: false };
            let own = (segment, &*Box::leak(Box::default()));
            let copier = Copier::own(own, holder, |_| false).expect("a copy record");
            let words = Process::current().expect("a process").word_locks();
            let served = ServedProcess { member: MEMBER, segment, regions, copier, words };
            Asking { served, caller: Caller::new(one), other, sequence: 0 }
        }

        fn register(&self, memory: &[u8], access: AccessFlags) -> u64 {
            let region = Region { pd: 1, addr: 0x1000, len: memory.len() as u64, access };
            let host = memory.as_ptr() as u64;
            self.served.regions.register(self.served.segment, region, host).expect("a region").into()
        }

        /// The answer to a request; `None` if the connection is closed.
        fn ask(&mut self, kind: RequestKind, words: [u64; 6], bytes: &[u8]) -> Option<WireMessage> {
            self.ask_with(Head::of_request(kind, self.sequence + 1, words), bytes)
        }

        fn ask_with(&mut self, head: Head, bytes: &[u8]) -> Option<WireMessage> {
            self.sequence += 1;
            let piece = Piece { addr: bytes.as_ptr() as u64, len: bytes.len() };
            wire::send(&self.other, head, &[piece], &[]).expect("there is room");
            self.caller.serve(&self.served).ok()?;
            let received = wire::receive(&self.other).expect("it is open").expect("an answer");
            assert_eq!(received.head.sequence, self.sequence);
            Some(received)
        }

        fn hello(mut self) -> Asking {
            let welcome =
                self.ask(RequestKind::Hello, [wire::VERSION, 5, 77, 0, 0, 0], &[]).expect("it is met");
            assert_eq!((answer_of(&welcome), welcome.files.len()), (AnswerKind::Done, 2));
            self
        }

        fn comes_to(&mut self, kind: RequestKind, words: [u64; 6], bytes: &[u8]) -> AnswerKind {
            answer_of(&self.ask(kind, words, bytes).expect("it is answered"))
        }
    }

    fn answer_of(received: &WireMessage) -> AnswerKind {
        received.head.answer().expect("a known answer")
    }

    #[test]
    fn who_does_not_say_whom_it_means_is_not_served() {
        for words in [
            [wire::VERSION, 6, 77, 0, 0, 0],
            [wire::VERSION, 5, 78, 0, 0, 0],
            [wire::VERSION + 1, 5, 77, 0, 0, 0],
        ] {
            assert!(Asking::new().ask(RequestKind::Hello, words, &[]).is_none(), "{words:?}");
        }
        assert!(Asking::new().ask(RequestKind::Read, [0; 6], &[]).is_none(), "before it has said who it is");
        let by_another_slot = [wire::VERSION, 8, 77, 0, 0, 0];
        assert!(Asking::new().ask(RequestKind::Hello, by_another_slot, &[]).is_some());
    }

    #[test]
    fn only_what_a_region_allows_is_done_whatever_is_asked() {
        let mut asking = Asking::new().hello();
        let memory = vec![7u8; PAGE];
        let all = asking.register(&memory, AccessFlags::all());
        let local = asking.register(&memory, AccessFlags::LOCAL_WRITE);
        let page = PAGE as u64;
        assert_eq!(
            asking.comes_to(RequestKind::Write, [all, page - 2, 0, 0, 0, 0], &[1, 2]),
            AnswerKind::Done
        );
        let read = asking.ask(RequestKind::Read, [all, page - 3, 3, 0, 0, 0], &[]).expect("it is answered");
        assert_eq!((answer_of(&read), read.bytes), (AnswerKind::Done, vec![7, 1, 2]));
        let added = asking.ask(RequestKind::FetchAdd, [all, 8, 1, 0, 0, 0], &[]).expect("it is answered");
        assert_eq!((answer_of(&added), added.head.words[0]), (AnswerKind::Done, u64::from_ne_bytes([7; 8])));
        let before = memory.clone();
        for (key, offset) in
            [(all, page - 1), (all, page), (all, u64::MAX), (local, 0), (all + 1, 0), (0, 0), (u64::MAX, 0)]
        {
            for (kind, third, bytes) in [
                (RequestKind::Write, 0, &[9u8, 9][..]),
                (RequestKind::Read, 2, &[]),
                (RequestKind::FetchAdd, 1, &[]),
            ] {
                let words = [key, offset, third, 0, 0, 0];
                assert_eq!(asking.comes_to(kind, words, bytes), AnswerKind::Memory, "{kind:?} {words:x?}");
            }
        }
        assert_eq!(
            asking.comes_to(RequestKind::FetchAdd, [all, 4, 1, 0, 0, 0], &[]),
            AnswerKind::Memory,
            "not aligned"
        );
        assert_eq!(
            asking.comes_to(RequestKind::Read, [all, 0, u64::MAX, 0, 0, 0], &[]),
            AnswerKind::Memory,
            "too long"
        );
        let unknown = Head::with_code(99, asking.sequence + 1, [0; 6]);
        let unknown = asking.ask_with(unknown, &[]).expect("it is answered");
        assert_eq!(answer_of(&unknown), AnswerKind::Memory, "no such kind");
        assert!(memory == before);
    }

    #[test]
    fn memory_that_the_program_has_unmapped_is_an_answer() {
        let mut asking = Asking::new().hello();
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, which nothing else uses.
        let memory = unsafe {
            let memory = libc::mmap(std::ptr::null_mut(), PAGE, protection, flags, -1, 0);
            std::slice::from_raw_parts(memory.cast::<u8>(), PAGE)
        };
        let key = asking.register(memory, AccessFlags::all());
        assert_eq!(asking.comes_to(RequestKind::Write, [key, 0, 0, 0, 0, 0], &[1]), AnswerKind::Done);
        // The page stays reserved, so that no other thread maps memory there.
        // SAFETY: nothing reads there any more.
        let done = unsafe { libc::mprotect(memory.as_ptr().cast_mut().cast(), PAGE, libc::PROT_NONE) };
        assert_eq!(done, 0, "the page belongs to the test");
        if !reaches_itself() {
            return eprintln!("skipped: the kernel does not let this process at its own memory");
        }
        for (kind, third, bytes) in [
            (RequestKind::Write, 0, &[9u8, 9][..]),
            (RequestKind::Read, 2, &[]),
            (RequestKind::FetchAdd, 1, &[]),
        ] {
            assert_eq!(
                asking.comes_to(kind, [key, 0, third, 0, 0, 0], bytes),
                AnswerKind::Memory,
                "{kind:?}"
            );
        }
    }

    #[test]
    fn parts_that_do_not_follow_each_other_are_asked_for_again() {
        let mut asking = Asking::new().hello();
        let part = |at: u64, number: u64| [at, 3, number, 0, 0, 0];
        assert_eq!(asking.comes_to(RequestKind::Part, part(0, 1), &[1; 10]), AnswerKind::Done);
        assert_eq!(asking.comes_to(RequestKind::Part, part(11, 1), &[1; 10]), AnswerKind::Again);
        assert_eq!(asking.comes_to(RequestKind::Part, part(10, 2), &[1; 10]), AnswerKind::Again);
        assert_eq!(asking.comes_to(RequestKind::Part, part(10, 1), &[1; 10]), AnswerKind::Done);
        let delivery = Delivery {
            to: 9,
            generation: 0,
            from: 3,
            operand: SendOperand::None,
            solicited: false,
            has_grh: false,
            sl: 0,
            header: 0,
            len: 21,
            number: 1,
            srqn: None,
        };
        assert_eq!(
            asking.comes_to(RequestKind::Deliver, delivery.to_words(), &[]),
            AnswerKind::Again,
            "a byte is missing"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_request_is_answered_or_closes(code in 0u64..12, words: [u64; 6], small: [u8; 6], bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..100)) {
            for words in [words, small.map(u64::from)] {
                let mut asking = Asking::new().hello();
                let memory = vec![0u8; PAGE];
                asking.register(&memory, AccessFlags::all());
                let head = Head::with_code(code, asking.sequence + 1, words);
                if head.request() != Some(RequestKind::Wake) {
                    asking.ask_with(head, &bytes);
                }
            }
        }
    }
}
