//! What a process shows the others in its segment.
//!
//! Every field is atomic, so that a reference is sound whatever another process does to the bytes.
//! Nothing read here is trusted: indices and lengths are checked where they are used, and what a
//! process needs to know of its own objects it keeps in private memory as well.

use crate::point::{Point, reach};
use crate::sync::atomics::{AtomicU32, AtomicU64, Ordering::*, fence};
use doorbell_abi::CEnum;
use doorbell_launch::qp_numbers::QP_BITS;
use doorbell_verbs::QpState;

/// QPs of a process.
pub(crate) const QPS: usize = 1 << QP_BITS;
/// Indices of QPs. Others would make numbers in some process that are those of management QPs (0 and 1) or of
/// multicast (all ones).
pub(crate) const QP_INDICES: std::ops::Range<u32> = 2..QPS as u32 - 1;
/// Memory regions of a process.
pub(crate) const MRS: usize = 1 << 16;
/// Completion queues of a process.
pub(crate) const CQS: usize = 1 << 14;
/// Receive queues of a process: those of its QPs, then its SRQs.
pub(crate) const RQS: usize = 1 << 14;
/// Attachments of a process's QPs to multicast groups.
pub(crate) const GROUPS: usize = 1 << 10;
/// Locks for atomics.
pub(crate) const ATOMIC_LOCKS: usize = 256;

/// A QP's index within its process.
pub(crate) const fn index_of(qp_num: u32) -> u32 {
    qp_num & (QPS as u32 - 1)
}

/// A lock between processes; see `lock.rs`. On a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct LockRecord {
    /// Thread that holds it, or 0.
    pub(crate) holder: AtomicU32,
}

/// A memory region.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct MrRecord {
    /// Odd while the owner changes it.
    pub(crate) sequence: AtomicU32,
    /// Its rkey; 0 where there is no region.
    pub(crate) key: AtomicU32,
    pub(crate) pd: AtomicU32,
    /// `AccessFlags`.
    pub(crate) access: AtomicU32,
    /// First address, as remote requesters name it.
    pub(crate) start: AtomicU64,
    pub(crate) len: AtomicU64,
    /// Address of the first byte in its process.
    pub(crate) host: AtomicU64,
    /// Where in the segment the first byte lies, plus 1; 0 where it does not.
    pub(crate) shared: AtomicU64,
}

/// The responder's side of a QP.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct QpRecord {
    /// A [`Shown`]. Requesters set Err in it; all else is the owner's.
    shown: AtomicU32,
    /// Counts the QPs that this record has been.
    pub(crate) generation: AtomicU32,
    /// Number in verbs.h of its `QpType`.
    pub(crate) qp_type: AtomicU32,
    pub(crate) pd: AtomicU32,
    /// `AccessFlags`.
    pub(crate) access: AtomicU32,
    pub(crate) dest_qpn: AtomicU32,
    pub(crate) qkey: AtomicU32,
    /// First PSN expected.
    pub(crate) rq_psn: AtomicU32,
    /// Index of its receive queue.
    pub(crate) rq: AtomicU32,
    /// Index of the CQ of its receive queue.
    pub(crate) cq: AtomicU32,
    pub(crate) min_rnr_timer: AtomicU32,
    pub(crate) max_dest_rd_atomic: AtomicU32,
    /// File descriptor for asynchronous events, plus 1.
    pub(crate) async_fd: AtomicU32,
    /// 1 where the receive queue is an SRQ.
    pub(crate) uses_srq: AtomicU32,
    /// 1 where the CQ finds what was received in the receive queue itself, and needs not be told.
    pub(crate) lane: AtomicU32,
    /// Processor, plus 1, of the last post of a single message; 0 once the peer has taken notice.
    pub(crate) processor: AtomicU32,
}

/// The state of a QP, and how often what its record shows has changed: who finds it as it was knows that all
/// else is, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown(u32);

const STATE_BITS: u32 = 4;

impl Shown {
    /// Number in verbs.h of its `QpState`.
    pub(crate) fn state(self) -> u32 {
        self.0 & ((1 << STATE_BITS) - 1)
    }

    fn with_state(self, state: QpState) -> Shown {
        Shown(self.0 >> STATE_BITS << STATE_BITS | state.to_c())
    }
}

impl QpRecord {
    /// What it shows. Read before all else of the record.
    #[inline(always)]
    pub(crate) fn shown(&self) -> Shown {
        Shown(self.shown.load(Acquire))
    }

    /// The state, ordered with what else is in one total order: whether the QP is in Err, and who flushes it.
    #[inline(always)]
    pub(crate) fn is_in_error(&self) -> bool {
        Shown(self.shown.load(SeqCst)).state() == QpState::Err.to_c()
    }

    /// For the owner: shows a state, and all that was changed before.
    pub(crate) fn show(&self, state: QpState) {
        let changes = (self.shown.load(Relaxed) >> STATE_BITS).wrapping_add(1);
        self.shown.store(Shown(changes << STATE_BITS).with_state(state).0, SeqCst);
    }

    /// For requesters: the QP enters Err, where its state is one of these; returns whether it has.
    pub(crate) fn enter_error(&self, from: impl Fn(u32) -> bool) -> bool {
        let error = |shown| from(Shown(shown).state()).then(|| Shown(shown).with_state(QpState::Err).0);
        self.shown.fetch_update(SeqCst, SeqCst, error).is_ok()
    }
}

/// Why a QP has gone to Err by a peer's request; left by the peer. See `cause.rs`.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct CauseRecord {
    /// Number of a `Check`; 0 where nothing is left.
    pub(crate) check: AtomicU32,
    /// The requester's QP number and process; 0 where that one's number means nothing to others.
    pub(crate) from: AtomicU32,
    pub(crate) pid: AtomicU32,
    /// Number in verbs.h of its `Opcode`.
    pub(crate) opcode: AtomicU32,
    pub(crate) number: AtomicU64,
    /// The requester's process as one that takes RECVs.
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
    /// Index of the QP, plus 1, or 0; in the upper half how often the record has changed.
    pub(crate) member: AtomicU64,
    pub(crate) gid: [AtomicU64; 2],
    pub(crate) lid: AtomicU64,
}

/// A receive queue.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct RqRecord {
    /// Slots, a power of two; 0 where there is no queue. Seldom written, as all up to `order`.
    pub(crate) capacity: AtomicU32,
    pub(crate) max_sge: AtomicU32,
    pub(crate) pd: AtomicU32,
    /// Below this many RECVs the SRQ's limit event is due; 0 where it is not armed.
    pub(crate) limit: AtomicU32,
    pub(crate) async_fd: AtomicU32,
    /// Index among the SRQs, for events.
    pub(crate) srq: AtomicU32,
    /// Counts the queues that this record has been, and their resets.
    pub(crate) generation: AtomicU32,
    /// Index of the CQ of an XRC SRQ.
    pub(crate) cq: AtomicU32,
    /// Where the slots begin in the segment.
    pub(crate) slots: AtomicU64,
    /// Where the ring begins that tells the slot of each RECV; 0 where the slots are that ring themselves.
    pub(crate) order: AtomicU64,
    /// Where the only sender's `SenderTurn` is; 0 where there may be several.
    pub(crate) turn: AtomicU64,
    /// Written by the owner.
    pub(crate) posted: Line<PostedRecvs>,
    /// Written by senders.
    pub(crate) taken: Line<TakenRecvs>,
}

/// RECVs counted by their owner.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct PostedRecvs {
    /// Posted, since the queue was made.
    pub(crate) tail: AtomicU64,
    /// Whose completions were taken, where that is in order.
    pub(crate) polled: AtomicU64,
}

/// RECVs counted by senders.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct TakenRecvs {
    /// Taken by messages, at least, where several senders take them.
    pub(crate) head: AtomicU64,
    /// A value that `polled` had.
    pub(crate) polled_seen: AtomicU64,
}

/// Which RECV is next for the only sender, and whether it is filling it. On a cache line of its own, which
/// nobody else looks at while messages come.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct SenderTurn {
    /// A `SlotState` of `rings/recvs.rs`, posted or claimed.
    pub(crate) state: AtomicU64,
}

/// A value on a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Line<T>(pub(crate) T);

/// Bits of the number that a process has as one that takes RECVs.
pub(crate) const CLAIMER_BITS: u32 = 22;
/// Words of a slot behind its state: what is posted, then in its place what came of it. See `rings/recvs.rs`.
pub(crate) const SLOT_WORDS: usize = 31;

/// A posted RECV. SGEs that find no room in it follow it.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct RqSlot {
    pub(crate) state: AtomicU64,
    pub(crate) words: [AtomicU64; SLOT_WORDS],
}

/// The part of a completion queue that other processes fill.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct CqRecord {
    /// Its ring, as `rings/completions.rs` has it; 0 where there is no queue.
    pub(crate) ring: AtomicU64,
    /// Completions to hold at most.
    pub(crate) cqe: AtomicU32,
    pub(crate) generation: AtomicU32,
    /// File descriptor of its completion channel, plus 1.
    pub(crate) channel_fd: AtomicU32,
    pub(crate) async_fd: AtomicU32,
    /// What completion to tell of: an `Armed`.
    pub(crate) armed: AtomicU32,
    /// Whether completions were lost.
    pub(crate) overrun: AtomicU32,
}

/// The ends of a ring of completions. Its cells follow.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct CqRing {
    /// Position of the oldest completion that was not taken; written by the owner.
    pub(crate) head: Line<AtomicU64>,
    /// Position of the next, at least; written by producers.
    pub(crate) tail: Line<AtomicU64>,
    /// A value that `head` had.
    pub(crate) head_seen: AtomicU64,
}

/// `IBV_EVENT_QP_FATAL`, `IBV_EVENT_QP_LAST_WQE_REACHED`.
pub(crate) const EVENT_QP_FATAL: u32 = 1;
pub(crate) const EVENT_QP_LAST_WQE_REACHED: u32 = 16;

/// An asynchronous event as it goes through the pipe.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventRecord {
    /// An `enum ibv_event_type`.
    pub(crate) event_type: u32,
    /// Index of the object in the table that the event type tells.
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Bytes of an event in the pipe.
pub(crate) const EVENT_BYTES: usize = size_of::<EventRecord>();

impl EventRecord {
    /// It as it goes through the pipe.
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
    /// Changes the record so that no reader takes half of it.
    pub(crate) fn change(&self, change: impl FnOnce(&MrRecord)) {
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Relaxed);
        // Release: a reader that sees a change also sees the odd number.
        fence(Release);
        change(self);
        reach(Point::MrOdd);
        self.sequence.store(sequence.wrapping_add(2), Release);
    }

    /// Reads the record as a whole; `None` where it does not hold still.
    #[inline]
    pub(crate) fn read<T>(&self, read: impl Fn(&MrRecord) -> T) -> Option<T> {
        for _ in 0..1000 {
            let before = self.sequence.load(Acquire);
            let value = read(self);
            // Acquire: the number is loaded behind the fields, and is odd or another one if a field was
            // changing.
            fence(Acquire);
            if before.is_multiple_of(2) && self.sequence.load(Relaxed) == before {
                return Some(value);
            }
            std::hint::spin_loop();
        }
        None
    }
}
