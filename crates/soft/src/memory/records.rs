//! The records that a process shows to its peers in its segment.
//!
//! Every field is atomic, so that a reference is sound whatever another process does to the bytes. Readers
//! trust nothing: they check indices and lengths at each use. A process also keeps everything that it must
//! know of its own objects in private memory.

use crate::point::{Point, reach};
use crate::sync::atomics::{AtomicU32, AtomicU64, Ordering::*, fence};
use doorbell_abi::CEnum;
use doorbell_launch::qp_numbers::{QP_BITS, qp_num, slot_of};
use doorbell_verbs::QpState;

/// Most slots of a process.
pub(crate) const SLOTS: usize = 9;
/// QPs of a slot. QP `n` of a process's slot `s`, counted from 0, has index `s * QPS_OF_SLOT + n` in the
/// process.
const QPS_OF_SLOT: u32 = 1 << QP_BITS;
/// QP indices of a process.
pub(crate) const QPS: usize = SLOTS * QPS_OF_SLOT as usize;
/// QPs that a slot has. In some slot, the other numbers would be the numbers of management QPs (0 and 1) or
/// of multicast (all ones).
pub(crate) const QPS_IN_SLOT: std::ops::Range<u32> = 2..QPS_OF_SLOT - 1;
/// Most memory regions of a process.
pub(crate) const MRS: usize = 1 << 20;
/// Most CQs of a process.
pub(crate) const CQS: usize = 1 << 16;
/// Most SRQs of a process.
pub(crate) const SRQS: usize = 1 << 13;
/// Most receive queues of a process: first those of its QPs, then its SRQs.
pub(crate) const RQS: usize = QPS + SRQS;
/// Most attachments of a process's QPs to multicast groups.
pub(crate) const GROUPS: usize = 1 << 10;
/// Locks for atomics in a segment.
pub(crate) const ATOMIC_LOCKS: usize = 256;

/// The slots of a process in the registry, in the order in which the process has taken them.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// The slot's number plus 1; 0 for none.
    slots: [AtomicU32; SLOTS],
}

impl Slots {
    /// Sets the slot at a place in the order.
    pub(crate) fn set(&self, place: usize, slot: u32) {
        // Relaxed: a thread that has a QP number of the slot was given it after this.
        self.slots[place].store(slot + 1, Relaxed);
    }

    /// The slots, in their order.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().filter_map(|slot| slot.load(Relaxed).checked_sub(1))
    }

    /// Whether this slot is one of them.
    #[inline(always)]
    pub(crate) fn has(&self, slot: u32) -> bool {
        self.slots[0].load(Relaxed) == slot + 1 || self.place(slot).is_some()
    }

    /// The place of a slot in the order.
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

/// A number and an index that no QP has.
pub(crate) const NO_QP: u32 = u32::MAX;

/// A lock between processes; see `lock.rs`. It has a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct LockRecord {
    /// Thread that holds the lock, or 0.
    pub(crate) holder: AtomicU32,
}

/// The record of a memory region.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct MrRecord {
    /// Odd while the owner changes it.
    pub(crate) sequence: AtomicU32,
    /// rkey of the region; 0 if there is no region.
    pub(crate) key: AtomicU32,
    pub(crate) pd: AtomicU32,
    /// `AccessFlags`.
    pub(crate) access: AtomicU32,
    /// First address in remote requests.
    pub(crate) start: AtomicU64,
    pub(crate) len: AtomicU64,
    /// Address of the first byte in the process that owns the region.
    pub(crate) host: AtomicU64,
    /// Offset of the first byte in the segment, plus 1; 0 if it does not lie there.
    pub(crate) shared: AtomicU64,
}

/// The record of a QP, for requesters.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct QpRecord {
    /// A [`Shown`]. Requesters set Err in it; only the owner writes any other state.
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
    /// First PSN expected.
    pub(crate) rq_psn: AtomicU32,
    /// Index of the QP's receive queue.
    pub(crate) rq: AtomicU32,
    /// Index of the CQ of the QP's receive queue.
    pub(crate) cq: AtomicU32,
    pub(crate) min_rnr_timer: AtomicU32,
    pub(crate) max_dest_rd_atomic: AtomicU32,
    /// File descriptor for asynchronous events, plus 1.
    pub(crate) async_fd: AtomicU32,
    /// 1 if the receive queue is an SRQ.
    pub(crate) uses_srq: AtomicU32,
    /// 1 if the CQ finds received messages in the receive queue itself and needs no entry in its ring.
    pub(crate) lane: AtomicU32,
    /// Number, plus 1, of the processor that posted a single message last. The peer sets it to 0 when it has
    /// noticed.
    pub(crate) processor: AtomicU32,
}

/// The state of a QP and the version of its record, in one word. If a reader finds the word unchanged, the
/// rest of the record is unchanged, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown(u32);

const STATE_BITS: u32 = 4;

impl Shown {
    /// The QP's `QpState`, as verbs.h numbers it.
    pub(crate) fn state(self) -> u32 {
        self.0 & ((1 << STATE_BITS) - 1)
    }

    fn with_state(self, state: QpState) -> Shown {
        Shown(self.0 >> STATE_BITS << STATE_BITS | state.to_c())
    }
}

impl QpRecord {
    /// The state and the version. Read this before all else of the record.
    #[inline(always)]
    pub(crate) fn shown(&self) -> Shown {
        Shown(self.shown.load(Acquire))
    }

    /// Whether the QP is in Err. SeqCst: the loads and stores that decide this, and which process flushes the
    /// QP, are in one total order.
    #[inline(always)]
    pub(crate) fn is_in_error(&self) -> bool {
        Shown(self.shown.load(SeqCst)).state() == QpState::Err.to_c()
    }

    /// Shows a state, and with it all changes that were made before. Only the owner calls this.
    pub(crate) fn show(&self, state: QpState) {
        let changes = (self.shown.load(Relaxed) >> STATE_BITS).wrapping_add(1);
        self.shown.store(Shown(changes << STATE_BITS).with_state(state).0, SeqCst);
    }

    /// Puts the QP into Err if `from` accepts its state; returns whether it did. Requesters call this.
    pub(crate) fn enter_error(&self, from: impl Fn(u32) -> bool) -> bool {
        let error = |shown| from(Shown(shown).state()).then(|| Shown(shown).with_state(QpState::Err).0);
        self.shown.fetch_update(SeqCst, SeqCst, error).is_ok()
    }
}

/// Why a peer's request put a QP into Err, as the peer recorded it. See `cause.rs`.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct CauseRecord {
    /// Number of a `Check`; 0 if there is no cause.
    pub(crate) check: AtomicU32,
    /// The requester's QP number and PID. The PID is 0 if it means nothing to other processes.
    pub(crate) from: AtomicU32,
    pub(crate) pid: AtomicU32,
    /// The request's `Opcode`, as verbs.h numbers it.
    pub(crate) opcode: AtomicU32,
    pub(crate) number: AtomicU64,
    /// The number under which the requester's process claims RECVs.
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
    /// Index of the QP, plus 1, or 0. The upper half counts the changes of the record.
    pub(crate) member: AtomicU64,
    pub(crate) gid: [AtomicU64; 2],
    pub(crate) lid: AtomicU64,
}

/// The record of a receive queue.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct RqRecord {
    /// Number of slots, a power of two; 0 if there is no queue. Fields up to `order` are seldom written.
    pub(crate) capacity: AtomicU32,
    pub(crate) max_sge: AtomicU32,
    pub(crate) pd: AtomicU32,
    /// The SRQ's limit event is due below this many RECVs; 0 if it is not armed.
    pub(crate) limit: AtomicU32,
    pub(crate) async_fd: AtomicU32,
    /// Index among the SRQs, for events.
    pub(crate) srq: AtomicU32,
    /// Counts the queues that have used this record, and their resets.
    pub(crate) generation: AtomicU32,
    /// Index of the CQ of an XRC SRQ.
    pub(crate) cq: AtomicU32,
    /// Offset of the slots in the segment.
    pub(crate) slots: AtomicU64,
    /// Offset of the ring that names the slot of each RECV; 0 if the slots themselves are that ring.
    pub(crate) order: AtomicU64,
    /// Offset of the `SenderTurn` of the only sender; 0 if there may be several senders.
    pub(crate) turn: AtomicU64,
    /// The XRC domain of the queue, or of the QP with this index if its RECVs are elsewhere; 0 for none.
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
    /// RECVs with a completion that the program took, if completions are taken in order.
    pub(crate) polled: AtomicU64,
}

/// Counts of RECVs that senders write.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct TakenRecvs {
    /// RECVs that messages have taken, if several senders take them. A lower bound.
    pub(crate) head: AtomicU64,
    /// An earlier value of `polled`.
    pub(crate) polled_seen: AtomicU64,
    /// The generation of the QP with this index for which its program got `IBV_EVENT_COMM_EST`.
    pub(crate) established: AtomicU32,
}

/// The next RECV of the only sender, and whether the sender is filling it. It has a cache line of its own,
/// which no other process loads while messages arrive.
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

/// Bits of the number under which a process claims RECVs.
pub(crate) const CLAIMER_BITS: u32 = 22;
/// Words of a slot behind its state. They hold the posted RECV, and later its result. See `rings/recvs.rs`.
pub(crate) const SLOT_WORDS: usize = 31;

/// A posted RECV. SGEs that do not fit into the slot follow it.
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
    /// The ring, encoded as in `rings/completions.rs`; 0 if there is no queue.
    pub(crate) ring: AtomicU64,
    /// Most completions that the queue holds.
    pub(crate) cqe: AtomicU32,
    pub(crate) generation: AtomicU32,
    /// File descriptor of the completion channel, plus 1.
    pub(crate) channel_fd: AtomicU32,
    pub(crate) async_fd: AtomicU32,
    /// The completion to report: an `Armed`.
    pub(crate) armed: AtomicU32,
    /// Nonzero if completions were lost.
    pub(crate) overrun: AtomicU32,
}

/// Head and tail of a ring of completions. Its cells follow.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct CqRing {
    /// Position of the oldest completion that was not taken. The owner writes it.
    pub(crate) head: CacheLine<AtomicU64>,
    /// Lower bound of the position of the next completion. Producers write it.
    pub(crate) tail: CacheLine<AtomicU64>,
    /// An earlier value of `head`.
    pub(crate) head_seen: AtomicU64,
}

/// `IBV_EVENT_QP_FATAL`, `IBV_EVENT_QP_LAST_WQE_REACHED`.
pub(crate) const EVENT_QP_FATAL: u32 = 1;
pub(crate) const EVENT_QP_LAST_WQE_REACHED: u32 = 16;

/// An asynchronous event in the format of the pipe.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventRecord {
    /// An `enum ibv_event_type`.
    pub(crate) event_type: u32,
    /// Index of the object. The event type tells which table it is in.
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
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Relaxed);
        // Release: a reader that sees a changed field also sees the odd number.
        fence(Release);
        change(self);
        reach(Point::MrOdd);
        self.sequence.store(sequence.wrapping_add(2), Release);
    }

    /// Reads the record as a whole; `None` if it keeps changing.
    #[inline]
    pub(crate) fn read<T>(&self, read: impl Fn(&MrRecord) -> T) -> Option<T> {
        for _ in 0..1000 {
            let before = self.sequence.load(Acquire);
            let value = read(self);
            // Acquire: the number is loaded after the fields. It is odd or a different number if a field was
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
