//! The records that a process shows to its peers in its segment.
//!
//! Every field is atomic, so a reference to a record is sound even if another process changes the bytes.
//! Readers check indices and lengths at each use, because any process of the user may have written them. A
//! process keeps everything that it must know of its own objects in private memory too.

use crate::point::{Point, reach};
use crate::sync::atomics::{AtomicU8, AtomicU32, AtomicU64, Ordering::*, fence};
use doorbell_abi::CEnum;
use doorbell_launch::qp_numbers::{QP_BITS, qp_num, slot_of};
use doorbell_verbs::QpState;

/// Maximum number of registry slots of a process.
pub(crate) const SLOTS: usize = 9;
/// QP numbers of a slot. If a process's slots are counted from 0, QP `n` of slot `s` has index `s *
/// QPS_OF_SLOT + n` in the process.
const QPS_OF_SLOT: u32 = 1 << QP_BITS;
/// Number of QP indices of a process.
pub(crate) const QPS: usize = SLOTS * QPS_OF_SLOT as usize;
/// The QPs of a slot that may exist. In some slot, the other QP numbers are reserved for management QPs (0
/// and 1) or for multicast (all ones).
pub(crate) const QPS_IN_SLOT: std::ops::Range<u32> = 2..QPS_OF_SLOT - 1;
/// Maximum number of memory regions and windows of a process.
pub(crate) const MRS: usize = 1 << 20;
/// Maximum number of CQs of a process.
pub(crate) const CQS: usize = 1 << 16;
/// Maximum number of SRQs of a process.
pub(crate) const SRQS: usize = 1 << 13;
/// Maximum number of receive queues of a process. The QPs' receive queues come first, and then the SRQs.
pub(crate) const RQS: usize = QPS + SRQS;
/// Maximum number of attachments of a process's QPs to multicast groups.
pub(crate) const GROUPS: usize = 1 << 10;
/// Number of locks for atomics in a segment.
pub(crate) const ATOMIC_LOCKS: usize = 256;
/// Maximum number of copiers that access a process's memory, including the process's own QPs and receive
/// queues.
pub(crate) const COPIES: usize = 1 << 17;

/// The registry slots of a process, in the order in which the process took them.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Each slot's number plus 1; 0 for no slot.
    slots: [AtomicU32; SLOTS],
}

impl Slots {
    /// Sets the slot at a place in the order of slots.
    pub(crate) fn set(&self, place: usize, slot: u32) {
        // Relaxed: a thread gets a QP number of the slot only after this store.
        self.slots[place].store(slot + 1, Relaxed);
    }

    /// The numbers of the slots, in the order in which the process took them.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().filter_map(|slot| slot.load(Relaxed).checked_sub(1))
    }

    /// Whether the process has this slot.
    #[inline(always)]
    pub(crate) fn has(&self, slot: u32) -> bool {
        self.slots[0].load(Relaxed) == slot + 1 || self.place(slot).is_some()
    }

    /// The place of a slot in the order of slots; `None` if the process does not have the slot.
    #[inline(never)]
    fn place(&self, slot: u32) -> Option<usize> {
        self.slots.iter().position(|known| known.load(Relaxed) == slot + 1)
    }

    /// The number of the QP with this index in the process. [`NO_QP`] if its slot is not known.
    #[inline(always)]
    pub(crate) fn qp_num(&self, index: u32) -> u32 {
        let slot = self.slots.get((index >> QP_BITS) as usize).map_or(0, |slot| slot.load(Relaxed));
        slot.checked_sub(1).map_or(NO_QP, |slot| qp_num(slot, index & (QPS_OF_SLOT - 1)))
    }

    /// A QP's index within the process. [`NO_QP`] if the process has no such slot.
    #[inline(always)]
    pub(crate) fn index_of(&self, qpn: u32) -> u32 {
        let low = qpn & (QPS_OF_SLOT - 1);
        match self.slots[0].load(Relaxed) == slot_of(qpn) + 1 {
            true => low,
            false => self.place(slot_of(qpn)).map_or(NO_QP, |place| (place as u32) << QP_BITS | low),
        }
    }
}

/// A QP number and a QP index that no QP has.
pub(crate) const NO_QP: u32 = u32::MAX;

/// A lock between processes; see `lock.rs`. It has a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct LockRecord {
    /// ID of the thread that holds the lock (gettid(2)); 0 if the lock is free.
    pub(crate) holder: AtomicU32,
}

/// The copies of one copier; see `copies.rs`. The record has a cache line of its own, which mostly only the
/// copier uses.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct CopyRecord {
    /// Odd while a copy runs.
    pub(crate) steps: AtomicU64,
    /// Claimer number plus 1 of the process that holds the record; 0 if the record is free.
    pub(crate) holder: AtomicU32,
}

/// The number of copy records in use, and the fence for copies.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct CopiesRecord {
    /// All records in use have indices below this number.
    pub(crate) used: AtomicU32,
    /// 1 if the segment's owner can pass `global_fence`, the costly side of the pair of fences.
    pub(crate) has_fence: AtomicU32,
}

/// The record of a memory region or window. `sequence` orders the other fields, so they are Relaxed: see
/// `change` and `read_once`.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct MrRecord {
    /// Sequence number, odd while the owner changes the record.
    pub(crate) sequence: AtomicU32,
    /// rkey of the region; 0 if the record has no region.
    pub(crate) key: AtomicU32,
    pub(crate) pd: AtomicU32,
    /// `AccessFlags`.
    pub(crate) access: AtomicU32,
    /// Address of the first byte in remote requests.
    pub(crate) start: AtomicU64,
    pub(crate) len: AtomicU64,
    /// Address of the first byte in the process that owns the region.
    pub(crate) host: AtomicU64,
    /// Offset of the first byte in the segment, plus 1; 0 if the region does not lie in the arena.
    pub(crate) shared: AtomicU64,
    /// The memory object, and the offset of the first byte in the object, as `Object` encodes them.
    pub(crate) object: [AtomicU64; 2],
}

/// The record of a QP, for requesters.
///
/// The owner stores `shown` after the other fields. A requester loads `shown` by Acquire before it loads the
/// other fields, or checks afterwards that `shown` is unchanged. So the other fields are Relaxed, except that
/// `generation`, `lane` and `processor` have orderings of their own. Reports and injected faults may load an
/// old value.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct QpRecord {
    /// A [`Shown`]. Requesters may set the state Err. Only the owner sets other states.
    shown: AtomicU32,
    /// Counts the QPs that have used this record.
    pub(crate) generation: AtomicU32,
    /// The QP's `QpType`, as verbs.h numbers it.
    pub(crate) qp_type: AtomicU32,
    pub(crate) pd: AtomicU32,
    /// `AccessFlags`.
    pub(crate) access: AtomicU32,
    pub(crate) dest_qpn: AtomicU32,
    pub(crate) qkey: AtomicU32,
    /// The first PSN that the QP expects.
    pub(crate) rq_psn: AtomicU32,
    /// Index of the QP's receive queue.
    pub(crate) rq: AtomicU32,
    /// Index of the CQ of the QP's receive queue.
    pub(crate) cq: AtomicU32,
    pub(crate) min_rnr_timer: AtomicU8,
    /// `enum ibv_mtu`; 0 if it is not set.
    pub(crate) path_mtu: AtomicU8,
    pub(crate) max_dest_rd_atomic: AtomicU32,
    /// File descriptor for asynchronous events, plus 1.
    pub(crate) async_fd: AtomicU32,
    /// 1 if the receive queue is an SRQ.
    pub(crate) uses_srq: AtomicU32,
    /// 1 if the receive queue is its CQ's lane: the CQ polls the queue itself, and needs no entry in its
    /// ring.
    pub(crate) lane: AtomicU32,
    /// Number plus 1 of the processor that last posted a single message; 0 if it is not known. The peer sets
    /// the field to 0 when it has seen the number.
    pub(crate) processor: AtomicU32,
}

/// The state of a QP and the version of its record, in one word. If the word is unchanged, the rest of the
/// record is unchanged too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown(u32);

const STATE_BITS: u32 = 4;

/// The state in the record of a QP that was destroyed. It is no `QpState`.
pub(crate) const DESTROYED: u32 = (1 << STATE_BITS) - 1;

impl Shown {
    /// The QP's `QpState`, as verbs.h numbers it.
    pub(crate) fn state(self) -> u32 {
        self.0 & ((1 << STATE_BITS) - 1)
    }

    fn with_state(self, state: u32) -> Shown {
        Shown(self.0 >> STATE_BITS << STATE_BITS | state)
    }
}

impl QpRecord {
    /// Loads the state and the version. Readers call this before they load other fields of the record.
    #[inline(always)]
    pub(crate) fn shown(&self) -> Shown {
        Shown(self.shown.load(Acquire))
    }

    /// Whether the QP is in Err. SeqCst: one total order contains the loads and stores that decide whether
    /// the QP is in Err, and which process flushes it.
    #[inline(always)]
    pub(crate) fn is_in_error(&self) -> bool {
        Shown(self.shown.load(SeqCst)).state() == QpState::Err.to_c()
    }

    /// Shows a state to requesters, and with it all earlier changes of the record. Only the owner calls this.
    pub(crate) fn show(&self, state: QpState) {
        self.show_state(state.to_c());
    }

    /// Shows requesters that the QP was destroyed. Only the owner calls this.
    pub(crate) fn show_destroyed(&self) {
        self.show_state(DESTROYED);
    }

    fn show_state(&self, state: u32) {
        // Relaxed: only the owner changes the version. SeqCst: see `is_in_error`.
        let changes = (self.shown.load(Relaxed) >> STATE_BITS).wrapping_add(1);
        self.shown.store(Shown(changes << STATE_BITS).with_state(state).0, SeqCst);
    }

    /// Puts the QP into Err if `from` accepts its current state; returns whether it did so. Requesters call
    /// this.
    pub(crate) fn enter_error(&self, from: impl Fn(u32) -> bool) -> bool {
        // SeqCst: see `is_in_error`.
        let error =
            |shown| from(Shown(shown).state()).then(|| Shown(shown).with_state(QpState::Err.to_c()).0);
        self.shown.fetch_update(SeqCst, SeqCst, error).is_ok()
    }
}

/// The reason why a peer's request put a QP into Err, as the peer recorded it. See `cause.rs`.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct CauseRecord {
    /// Number of a `Check`; 0 if the record has no cause.
    pub(crate) check: AtomicU32,
    /// The requester's QP number and PID. The PID is 0 if other processes cannot use it, because of PID
    /// namespaces.
    pub(crate) from: AtomicU32,
    pub(crate) pid: AtomicU32,
    /// The request's `Opcode`, as verbs.h numbers it.
    pub(crate) opcode: AtomicU32,
    pub(crate) number: AtomicU64,
    /// The claimer number of the requester's process.
    pub(crate) claimer: AtomicU32,
    pub(crate) key: AtomicU32,
    pub(crate) addr: AtomicU64,
    pub(crate) len: AtomicU64,
    pub(crate) found: AtomicU64,
    pub(crate) other: AtomicU64,
}

/// A QP's attachment to a multicast group; see `groups.rs`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct GroupRecord {
    /// The lower half is the index of the QP plus 1, or 0 without a QP. The upper half counts the changes of
    /// the record.
    pub(crate) member: AtomicU64,
    pub(crate) gid: [AtomicU64; 2],
    pub(crate) lid: AtomicU64,
}

/// The record of a receive queue.
///
/// The owner stores the fields before `capacity`, and for an XRC SRQ also before `domain`. A sender loads
/// one of these two by Acquire first, so it loads the fields Relaxed. `generation`, `limit` and the counts
/// have orderings of their own.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct RqRecord {
    /// Number of slots, a power of two; 0 if the record has no queue. The fields before `posted` are seldom
    /// written.
    pub(crate) capacity: AtomicU32,
    pub(crate) max_sge: AtomicU32,
    pub(crate) pd: AtomicU32,
    /// The SRQ's limit event is due below this many RECVs; 0 if the event is not armed.
    pub(crate) limit: AtomicU32,
    pub(crate) async_fd: AtomicU32,
    /// Index of the SRQ among the SRQs, for events.
    pub(crate) srq: AtomicU32,
    /// Counts the queues that have used this record, and their resets.
    pub(crate) generation: AtomicU32,
    /// Index of the CQ of an XRC SRQ.
    pub(crate) cq: AtomicU32,
    /// Offset of the slots in the segment.
    pub(crate) slots: AtomicU64,
    /// Offset in the segment of the ring that names the slot of each RECV; 0 if RECVs use the slots in order.
    pub(crate) order: AtomicU64,
    /// Offset in the segment of the `SenderTurn` of the only sender; 0 if the queue may have several senders.
    pub(crate) turn: AtomicU64,
    /// The XRC domain of the queue; 0 for no domain. An XRC target QP, which has no queue, has its domain in
    /// the record with its index.
    pub(crate) domain: AtomicU64,
    /// Written by the owner.
    pub(crate) posted: CacheLine<PostedRecvs>,
    /// Written by senders.
    pub(crate) taken: CacheLine<TakenRecvs>,
}

/// Counts of RECVs that the owner writes.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct PostedRecvs {
    /// RECVs posted since the queue was created.
    pub(crate) tail: AtomicU64,
    /// The position up to which all completions were taken or passed over, if completions are taken in order.
    pub(crate) polled: AtomicU64,
    /// The posted state of the RECV whose carried payload the owner is copying to the RECV's buffers. When
    /// the copy has ended, the done state of this RECV.
    pub(crate) taking: AtomicU64,
}

/// Counts of RECVs that senders write.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct TakenRecvs {
    /// A lower bound of the number of RECVs that messages have taken, if the queue has several senders.
    pub(crate) head: AtomicU64,
    /// An earlier value of `polled`, which senders keep to load `polled` less often.
    pub(crate) polled_seen: AtomicU64,
    /// The last generation of the QP with this index whose program got `IBV_EVENT_COMM_EST`.
    pub(crate) established: AtomicU32,
}

/// The next RECV of a queue's only sender, and whether the sender is filling this RECV. The turn has a cache
/// line of its own, which no other process loads while messages arrive.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct SenderTurn {
    /// A `SlotState` of `rings/recvs.rs`, posted or claimed.
    pub(crate) state: AtomicU64,
}

/// A value on a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct CacheLine<T>(pub(crate) T);

/// Bits of a claimer number, by which a process identifies itself when it claims RECVs.
pub(crate) const CLAIMER_BITS: u32 = 22;
/// Words of a slot after its state. The words hold the posted RECV, and later its result. See
/// `rings/recvs.rs`.
pub(crate) const SLOT_WORDS: usize = 31;

/// A slot of a receive queue, which holds a posted RECV. SGEs that do not fit into the slot follow it in
/// memory.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct RqSlot {
    pub(crate) state: AtomicU64,
    pub(crate) words: [AtomicU64; SLOT_WORDS],
}

/// The record of a CQ, for the processes that complete RECVs.
///
/// The owner stores the fields before it publishes the ring, and the QPs that use the CQ. So other processes
/// load them Relaxed. `ring` and `armed` have orderings of their own.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct CqRecord {
    /// The ring, as a `RingPlace` of `rings/completions.rs`; 0 if the record has no CQ.
    pub(crate) ring: AtomicU64,
    /// Maximum number of completions that the CQ holds.
    pub(crate) cqe: AtomicU32,
    pub(crate) generation: AtomicU32,
    /// File descriptor of the completion channel, plus 1.
    pub(crate) channel_fd: AtomicU32,
    pub(crate) async_fd: AtomicU32,
    /// The notification that the program asked for: an `Armed`, and a count of the requests.
    pub(crate) armed: AtomicU32,
    /// Nonzero if completions were lost.
    pub(crate) overrun: AtomicU32,
}

/// Head and tail of a ring of completions. The ring's cells follow in memory.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct CqRing {
    /// Position of the oldest completion that was not taken. Only the owner writes this position.
    pub(crate) head: CacheLine<AtomicU64>,
    /// Lower bound of the position of the next completion. Only producers write this position.
    pub(crate) tail: CacheLine<AtomicU64>,
    /// An earlier value of `head`, which producers keep to load `head` less often.
    pub(crate) head_seen: AtomicU64,
}

/// `IBV_EVENT_QP_FATAL`, `IBV_EVENT_QP_LAST_WQE_REACHED`.
pub(crate) const EVENT_QP_FATAL: u32 = 1;
pub(crate) const EVENT_QP_LAST_WQE_REACHED: u32 = 16;

/// An event for a program, in the format of the pipe.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventRecord {
    /// An `enum ibv_event_type`.
    pub(crate) event_type: u32,
    /// Index of the QP, CQ or SRQ in its table; 0 for an event of the port. The event type determines the
    /// table.
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Bytes of an event in the pipe.
pub(crate) const EVENT_BYTES: usize = size_of::<EventRecord>();

impl EventRecord {
    /// The bytes that go through the pipe.
    pub(crate) fn to_bytes(self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        for (at, word) in [self.event_type, self.index, self.generation].into_iter().enumerate() {
            bytes[at * 4..at * 4 + 4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: [u8; EVENT_BYTES]) -> EventRecord {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        EventRecord { event_type: word(0), index: word(4), generation: word(8) }
    }
}

impl MrRecord {
    /// Changes the record so that no reader sees a partial change.
    pub(crate) fn change(&self, change: impl FnOnce(&MrRecord)) {
        // Additions, like the addition in `invalidate`, so that no number comes twice.
        self.sequence.fetch_add(1, Relaxed);
        // Release: a reader that sees a changed field also sees the odd sequence number.
        fence(Release);
        change(self);
        reach(Point::MrOdd);
        self.sequence.fetch_add(1, Release);
    }

    /// Invalidates the window with this key. Peers of the window's owner call this.
    pub(crate) fn invalidate(&self, key: u32) {
        // The change fails if the owner has removed the window or bound it again. Release, for the Acquire in
        // `Window::is_bound`: an owner that sees key 0 sees everything that the requester wrote through the
        // window. Relaxed on failure: nothing is read.
        if self.key.compare_exchange(key, 0, AcqRel, Relaxed).is_ok() {
            // Processes that cached the window look it up again. 2: the number stays odd while the owner
            // changes the record. Release: a reader that loads this number, or a later one, sees key 0.
            // Nothing relies on the Acquire of either change.
            self.sequence.fetch_add(2, AcqRel);
        }
    }

    /// Reads the record as a whole; `None` if it keeps changing.
    #[inline]
    pub(crate) fn read<T>(&self, read: impl Fn(&MrRecord) -> T) -> Option<T> {
        for _ in 0..1000 {
            let value = self.read_once(&read);
            if value.is_some() {
                return value;
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Reads the record as a whole; `None` if it is changing.
    #[inline]
    pub(crate) fn read_once<T>(&self, read: impl Fn(&MrRecord) -> T) -> Option<T> {
        let before = self.sequence.load(Acquire);
        let value = read(self);
        // Acquire: the sequence number is loaded again after the fields. If a field was changing, the number
        // is odd or has changed.
        fence(Acquire);
        (before.is_multiple_of(2) && self.sequence.load(Relaxed) == before).then_some(value)
    }
}
