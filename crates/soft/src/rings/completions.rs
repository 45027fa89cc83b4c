//! The ring of a CQ: completions of RECVs.

use crate::fabric::peer::Owner;
use crate::fabric::pipe::tell;
use crate::memory::records::*;
use crate::memory::segment::Segment;
use crate::memory::transfer::Piece;
use std::sync::atomic::{AtomicU32, Ordering::*, fence};

/// `IBV_EVENT_CQ_ERR`.
const EVENT_CQ_ERR: u32 = 0;
/// Bit of an entry's flags, beside those of verbs.h: the sender asked for a solicited event.
pub(crate) const SOLICITED: u32 = 1 << 31;

/// Which completion to tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Armed {
    /// None.
    Not = 0,
    /// The next that is solicited or an error.
    Solicited = 1,
    /// The next.
    Next = 2,
}

/// The entry at a position, where the numbers make sense.
pub(crate) fn entry(segment: &Segment, entries: u64, capacity: u32, position: u64) -> Option<&CqEntry> {
    let slot = position & u64::from(capacity.checked_sub(1)?);
    segment.in_heap(entries.checked_add(slot * size_of::<CqEntry>() as u64)?)
}

/// A piece of heap may hold an old ring: its sequence numbers must not be taken for new ones.
pub(crate) fn forget_sequences(segment: &Segment, entries: u64, capacity: u32) {
    for position in 0..u64::from(capacity) {
        if let Some(entry) = entry(segment, entries, capacity, position)
            && entry.sequence.load(Relaxed) != 0
        {
            entry.sequence.store(0, Relaxed);
        }
    }
}

/// Copies what is in the ring of a CQ to another, each given by where it begins and its capacity.
pub(crate) fn copy(segment: &Segment, record: &CqRecord, from: (u64, u32), to: (u64, u32)) {
    let (head, tail) = (record.head.0.load(Relaxed), record.tail.load(Relaxed));
    for position in head..tail.min(head.saturating_add(u64::from(from.1))) {
        let old = entry(segment, from.0, from.1, position);
        let new = entry(segment, to.0, to.1, position);
        if let (Some(old), Some(new)) = (old, new) {
            copy_entry(old, new);
        }
    }
}

fn copy_entry(from: &CqEntry, to: &CqEntry) {
    fn words(e: &CqEntry) -> [&AtomicU32; 9] {
        [
            &e.qpn,
            &e.generation,
            &e.status,
            &e.opcode,
            &e.byte_len,
            &e.imm,
            &e.flags,
            &e.src_qp,
            &e.carried_len,
        ]
    }
    for (from, to) in words(from).into_iter().zip(words(to)) {
        to.store(from.load(Relaxed), Relaxed);
    }
    to.recv.store(from.recv.load(Relaxed), Relaxed);
    for (from, to) in from.carried.iter().zip(&to.carried) {
        to.store(from.load(Relaxed), Relaxed);
    }
    to.sequence.store(from.sequence.load(Acquire), Release);
}

/// A completion of a RECV, for the ring of its CQ.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecvDone<'a> {
    pub(crate) recv: u64,
    pub(crate) qpn: u32,
    pub(crate) generation: u32,
    pub(crate) status: u32,
    pub(crate) opcode: u32,
    pub(crate) byte_len: u32,
    /// In network byte order.
    pub(crate) imm: u32,
    pub(crate) flags: u32,
    pub(crate) src_qp: u32,
    /// Payload that goes along.
    pub(crate) carried: Carried<'a>,
}

/// Payload that a completion takes along: a header, then pieces of this process's memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carried<'a> {
    pub(crate) header: &'a [u8],
    pub(crate) pieces: &'a [Piece],
    pub(crate) len: usize,
}

/// Puts a completion into the ring of CQ `index` of `segment`; `false` where it could not take
/// it.
pub(crate) fn push_recv(owner: Owner<'_>, segment: &Segment, index: u32, done: &RecvDone<'_>) -> bool {
    let Some(record) = segment.cq(index as usize) else { return false };
    let Some(guard) = record.lock.lock() else { return false };
    let capacity = record.capacity.load(Acquire);
    let tail = record.tail.load(Relaxed);
    let limit = u64::from(record.cqe.load(Relaxed).min(capacity));
    if tail.wrapping_sub(record.head_seen.load(Relaxed)) >= limit {
        record.head_seen.store(record.head.0.load(Acquire), Relaxed);
        if tail.wrapping_sub(record.head_seen.load(Relaxed)) >= limit {
            drop(guard);
            overrun(owner, record, index);
            return false;
        }
    }
    let Some(entry) = entry(segment, record.entries.load(Relaxed), capacity, tail) else { return false };
    entry.recv.store(done.recv, Relaxed);
    entry.qpn.store(done.qpn, Relaxed);
    entry.generation.store(done.generation, Relaxed);
    entry.status.store(done.status, Relaxed);
    entry.opcode.store(done.opcode, Relaxed);
    entry.byte_len.store(done.byte_len, Relaxed);
    entry.imm.store(done.imm, Relaxed);
    entry.flags.store(done.flags, Relaxed);
    entry.src_qp.store(done.src_qp, Relaxed);
    entry.carried_len.store(done.carried.len as u32, Relaxed);
    carry(&done.carried, entry);
    record.tail.store(tail.wrapping_add(1), Relaxed);
    entry.sequence.store(tail.wrapping_add(1), Release);
    drop(guard);
    let solicited = done.flags & SOLICITED != 0 || done.status != 0;
    wake(owner, record, index, solicited);
    true
}

fn carry(carried: &Carried<'_>, entry: &CqEntry) {
    if carried.len == 0 {
        return;
    }
    debug_assert!(carried.len <= CARRIED_BYTES);
    let to = entry.carried.as_ptr() as *mut u8;
    let mut at = 0;
    let header = Piece { addr: carried.header.as_ptr() as u64, len: carried.header.len() };
    for piece in std::iter::once(&header).chain(carried.pieces) {
        let len = piece.len.min(CARRIED_BYTES - at);
        // SAFETY: at most CARRIED_BYTES in all, into atomics that nobody reads before `sequence`
        // is set; the pieces were checked against their regions.
        unsafe { std::ptr::copy(piece.addr as *const u8, to.add(at), len) };
        at += len;
    }
}

/// Tells the program of a completion, if it asked.
pub(crate) fn wake(owner: Owner<'_>, record: &CqRecord, index: u32, solicited: bool) {
    let fd = record.channel_fd.load(Relaxed);
    if fd == 0 {
        return;
    }
    fence(SeqCst);
    let armed = record.armed.load(Relaxed);
    let due = armed == Armed::Next as u32 || (armed == Armed::Solicited as u32 && solicited);
    if due && record.armed.compare_exchange(armed, Armed::Not as u32, Relaxed, Relaxed).is_ok() {
        let generation = record.generation.load(Relaxed);
        tell(owner, fd, EventRecord { event_type: 0, index, generation });
    }
}

/// A completion is lost; the CQ is of no use from here on (IB specification vol. 1, 11.6.3.1).
pub(crate) fn overrun(owner: Owner<'_>, record: &CqRecord, index: u32) {
    if record.overrun.swap(1, Relaxed) == 0 {
        let generation = record.generation.load(Relaxed);
        tell(
            owner,
            record.async_fd.load(Relaxed),
            EventRecord { event_type: EVENT_CQ_ERR, index, generation },
        );
    }
}
