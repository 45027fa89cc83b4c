//! The ring of a receive queue: posted RECVs.

use super::completions::{RecvDone, push_recv};
use crate::fabric::peer::Owner;
use crate::fabric::pipe::tell;
use crate::memory::records::*;
use crate::memory::segment::Segment;
use doorbell_abi::CEnum;
use doorbell_verbs::{WcOpcode, WcStatus};
use std::sync::atomic::Ordering::*;

/// `IBV_EVENT_SRQ_LIMIT_REACHED`.
const EVENT_SRQ_LIMIT_REACHED: u32 = 15;

/// Bytes between the slots of a queue.
pub(crate) fn stride(max_sge: u32) -> u64 {
    let bytes = size_of::<RqSlot>() as u64 + u64::from(max_sge) * size_of::<SgeRecord>() as u64;
    bytes.next_multiple_of(64)
}

/// The slot of a position, where the numbers make sense.
pub(crate) fn slot(
    segment: &Segment,
    slots: u64,
    capacity: u32,
    max_sge: u32,
    position: u64,
) -> Option<&RqSlot> {
    let at = position & u64::from(capacity.checked_sub(1)?);
    segment.in_heap(slots.checked_add(at.checked_mul(stride(max_sge.min(1024)))?)?)
}

/// A piece of heap may hold an old ring: its sequence numbers must not be taken for new ones.
pub(crate) fn forget_sequences(segment: &Segment, slots: u64, capacity: u32, max_sge: u32) {
    for position in 0..u64::from(capacity) {
        if let Some(slot) = slot(segment, slots, capacity, max_sge, position)
            && slot.sequence.load(Relaxed) != 0
        {
            slot.sequence.store(0, Relaxed);
        }
    }
}

/// SGE `n` of a slot, where there can be so many.
pub(crate) fn sge_record<'a>(
    segment: &'a Segment,
    slot: &RqSlot,
    n: u32,
    max_sge: u32,
) -> Option<&'a SgeRecord> {
    let at = std::ptr::from_ref(slot) as u64 - segment.base() as u64;
    let offset = size_of::<RqSlot>() as u64 + u64::from(n) * size_of::<SgeRecord>() as u64;
    if n < max_sge { segment.in_heap(at + offset) } else { None }
}

/// Completes all RECVs of a queue with `WrFlushErr`: its QP is in Err. Done by the owner or by the
/// peer whose request put it there.
pub(crate) fn flush(owner: Owner<'_>, segment: &Segment, qp: &QpRecord, qpn: u32) {
    let Some(record) = segment.rq(qp.rq.load(Relaxed) as usize) else { return };
    if qp.uses_srq.load(Relaxed) != 0 {
        return;
    }
    let Some(_guard) = record.lock.lock() else { return };
    let (capacity, max_sge) = (record.capacity.load(Acquire), record.max_sge.load(Relaxed));
    let (slots, cq) = (record.slots.load(Relaxed), qp.cq.load(Relaxed));
    for _ in 0..capacity {
        let head = record.head.load(Relaxed);
        let Some(slot) = slot(segment, slots, capacity, max_sge, head) else { return };
        if slot.sequence.load(Acquire) != head.wrapping_add(1) {
            return;
        }
        let done = RecvDone {
            recv: head,
            qpn,
            generation: qp.generation.load(Relaxed),
            status: WcStatus::WrFlushErr.to_c(),
            opcode: WcOpcode::Recv.to_c(),
            ..RecvDone::default()
        };
        record.head.store(head.wrapping_add(1), Relaxed);
        if !push_recv(owner, segment, cq, &done) {
            return;
        }
    }
}

/// After a RECV was taken from an SRQ: its limit event, where it is armed and due.
pub(crate) fn check_limit(owner: Owner<'_>, record: &RqRecord) {
    let limit = record.limit.load(Relaxed);
    if limit == 0 {
        return;
    }
    let posted = record.tail.0.load(Relaxed).saturating_sub(record.head.load(Relaxed));
    if posted < u64::from(limit) {
        limit_event(owner, record);
    }
}

pub(crate) fn limit_event(owner: Owner<'_>, record: &RqRecord) {
    if record.limit.swap(0, Relaxed) != 0 {
        let event = EventRecord {
            event_type: EVENT_SRQ_LIMIT_REACHED,
            index: record.srq.load(Relaxed),
            generation: record.generation.load(Relaxed),
        };
        tell(owner, record.async_fd.load(Relaxed), event);
    }
}
