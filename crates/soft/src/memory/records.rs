//! What a process shows the others in its segment.
//!
//! Every field is atomic, so that a reference is sound whatever another process does to the bytes.
//! Nothing read here is trusted: indices and lengths are checked where they are used, and what a
//! process needs to know of its own objects it keeps in private memory as well.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Bits of a QP number that name the QP within its process; the other 10 name the process.
const QP_BITS: u32 = 14;
/// QPs of a process.
pub(crate) const QPS: usize = 1 << QP_BITS;
/// Processes that may use the device at a time.
pub(crate) const PROCESSES: usize = 1 << (24 - QP_BITS);
/// Indices of QPs. Others would make numbers in some process that are those of management QPs (0 and 1) or of multicast (all
/// ones).
pub(crate) const QP_INDICES: std::ops::Range<u32> = 2..QPS as u32 - 1;
/// Memory regions of a process.
pub(crate) const MRS: usize = 1 << 16;
/// Completion queues of a process.
pub(crate) const CQS: usize = 1 << 14;
/// Receive queues of a process: those of its QPs, then its SRQs.
pub(crate) const RQS: usize = 1 << 15;
/// Locks for atomics.
pub(crate) const ATOMIC_LOCKS: usize = 256;

/// The number of QP `index` of the process in `slot`.
pub(crate) const fn qp_num(slot: u32, index: u32) -> u32 {
    slot << QP_BITS | index
}

/// The slot of the process that a QP is of.
pub(crate) const fn slot_of(qp_num: u32) -> u32 {
    qp_num >> QP_BITS
}

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
    /// Number in verbs.h of its `QpState`. Requesters set Err; all else is the owner's.
    pub(crate) state: AtomicU32,
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
    /// Processor, plus 1, of the last post of a single message; 0 once the peer has taken notice.
    pub(crate) processor: AtomicU32,
}

/// A receive queue. `capacity` is a power of two.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct RqRecord {
    /// The owner's part, seldom written.
    pub(crate) capacity: AtomicU32,
    pub(crate) max_sge: AtomicU32,
    pub(crate) pd: AtomicU32,
    /// Below this many RECVs the SRQ's limit event is due; 0 where it is not armed.
    pub(crate) limit: AtomicU32,
    pub(crate) async_fd: AtomicU32,
    /// Index among the SRQs, for events.
    pub(crate) srq: AtomicU32,
    /// Counts the queues that this record has been.
    pub(crate) generation: AtomicU32,
    /// Where the slots begin in the segment.
    pub(crate) slots: AtomicU64,
    /// RECVs posted, since the queue was made; written by the owner.
    pub(crate) tail: Line<AtomicU64>,
    /// The senders' part.
    pub(crate) lock: LockRecord,
    /// RECVs taken.
    pub(crate) head: AtomicU64,
}

/// A value on a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Line<T>(pub(crate) T);

/// A posted RECV. The SGEs follow it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RqSlot {
    /// Position of the RECV in its queue plus 1, once it may be taken.
    pub(crate) sequence: AtomicU64,
    pub(crate) sges: AtomicU32,
    /// Sum of their lengths, at most `u32::MAX`.
    pub(crate) capacity: AtomicU32,
}

/// An SGE of a posted RECV.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct SgeRecord {
    pub(crate) addr: AtomicU64,
    pub(crate) length: AtomicU32,
    pub(crate) lkey: AtomicU32,
}

/// The part of a completion queue that other processes fill. `capacity` is a power of two.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct CqRecord {
    /// The owner's part, seldom written.
    pub(crate) capacity: AtomicU32,
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
    /// Where the entries begin in the segment.
    pub(crate) entries: AtomicU64,
    /// Completions taken; written by the owner.
    pub(crate) head: Line<AtomicU64>,
    /// The producers' part.
    pub(crate) lock: LockRecord,
    /// Completions put in.
    pub(crate) tail: AtomicU64,
    /// A value that `head` had.
    pub(crate) head_seen: AtomicU64,
}

/// Payload bytes that a completion can carry itself.
pub(crate) const CARRIED_BYTES: usize = 192;

/// A completion of a RECV.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct CqEntry {
    /// Position in the queue plus 1, once it may be taken.
    pub(crate) sequence: AtomicU64,
    /// Position of the RECV in its queue.
    pub(crate) recv: AtomicU64,
    pub(crate) qpn: AtomicU32,
    /// The QP's generation.
    pub(crate) generation: AtomicU32,
    /// Number in verbs.h of its `WcStatus`.
    pub(crate) status: AtomicU32,
    /// Number in verbs.h of its `WcOpcode`.
    pub(crate) opcode: AtomicU32,
    pub(crate) byte_len: AtomicU32,
    /// In network byte order.
    pub(crate) imm: AtomicU32,
    /// `IBV_WC_*` flags.
    pub(crate) flags: AtomicU32,
    pub(crate) src_qp: AtomicU32,
    /// Payload bytes in `carried`, to be put in the RECV's buffers by who takes the completion.
    pub(crate) carried_len: AtomicU32,
    pub(crate) carried: [AtomicU64; CARRIED_BYTES / 8],
}

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

impl MrRecord {
    /// Changes the record so that no reader takes half of it.
    pub(crate) fn change(&self, change: impl FnOnce(&MrRecord)) {
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Relaxed);
        std::sync::atomic::fence(Release);
        change(self);
        self.sequence.store(sequence.wrapping_add(2), Release);
    }

    /// Reads the record as a whole; `None` where it does not hold still.
    pub(crate) fn read<T>(&self, read: impl Fn(&MrRecord) -> T) -> Option<T> {
        for _ in 0..1000 {
            let before = self.sequence.load(Acquire);
            let value = read(self);
            std::sync::atomic::fence(Acquire);
            if before.is_multiple_of(2) && self.sequence.load(Relaxed) == before {
                return Some(value);
            }
            std::hint::spin_loop();
        }
        None
    }
}
