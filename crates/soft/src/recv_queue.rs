//! Receive queues: those of QPs, and shared ones.
//!
//! The ring of posted RECVs lies in the segment, where senders take them. What the program asked
//! for is kept in private memory as well: completions are made from that, not from what others
//! could have changed.

use crate::channel::tell;
use crate::cq::{RecvDone, push_recv};
use crate::errno::{EINVAL, ENOMEM, Errno};
use crate::peer::Owner;
use crate::process::Process;
use crate::records::*;
use crate::regions::RegionCache;
use crate::segment::Segment;
use crate::sync::lock;
use doorbell_abi::CEnum;
use doorbell_verbs::{AccessFlags, Sge, WcStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// `IBV_EVENT_SRQ_LIMIT_REACHED`.
const EVENT_SRQ_LIMIT_REACHED: u32 = 15;

/// A receive queue of this process.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    process: &'static Process,
    /// Index of its record.
    pub(crate) index: u32,
    record: &'static RqRecord,
    pd: u32,
    /// RECVs that it was made for.
    pub(crate) depth: u32,
    pub(crate) max_sge: u32,
    capacity: u32,
    slots: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// RECVs posted since the queue was made.
    tail: u64,
    /// RECVs posted whose completion was not taken.
    outstanding: u32,
    entries: Box<[Entry]>,
    sges: Box<[Sge]>,
    cache: RegionCache,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Position plus 1; 0 where nothing is posted here.
    position: u64,
    wr_id: u64,
    sges: u32,
}

/// Bytes between the slots of a queue.
fn stride(max_sge: u32) -> u64 {
    let bytes = size_of::<RqSlot>() as u64 + u64::from(max_sge) * size_of::<SgeRecord>() as u64;
    bytes.next_multiple_of(64)
}

impl RecvQueue {
    /// A queue for `depth` RECVs, at least 1, of up to `max_sge` SGEs, with record `index`.
    pub(crate) fn new(
        process: &'static Process,
        index: u32,
        pd: u32,
        depth: u32,
        max_sge: u32,
        async_fd: u32,
    ) -> Result<RecvQueue, Errno> {
        let record = process.segment.rq(index as usize).ok_or(EINVAL)?;
        let capacity = depth.max(1).next_power_of_two();
        let slots = process.heap.alloc(u64::from(capacity) * stride(max_sge)).ok_or(ENOMEM)?;
        let _senders = record.lock.lock().ok_or(EINVAL)?;
        let tail = record.head.load(Relaxed);
        for position in 0..u64::from(capacity) {
            if let Some(slot) = slot(process.segment, slots, capacity, max_sge, position)
                && slot.sequence.load(Relaxed) != 0
            {
                slot.sequence.store(0, Relaxed);
            }
        }
        record.max_sge.store(max_sge, Relaxed);
        record.pd.store(pd, Relaxed);
        record.limit.store(0, Relaxed);
        record.async_fd.store(async_fd, Relaxed);
        record.srq.store(index.saturating_sub(QPS as u32), Relaxed);
        record.slots.store(slots, Relaxed);
        record.tail.0.store(tail, Relaxed);
        record.generation.fetch_add(1, Relaxed);
        record.capacity.store(capacity, Release);
        let state = State {
            tail,
            outstanding: 0,
            entries: vec![Entry::default(); capacity as usize].into(),
            sges: vec![Sge::default(); capacity as usize * max_sge as usize].into(),
            cache: RegionCache::default(),
        };
        Ok(RecvQueue {
            process,
            index,
            record,
            pd,
            depth,
            max_sge,
            capacity,
            slots,
            state: Mutex::new(state),
        })
    }

    /// Posts a RECV.
    pub(crate) fn post(&self, wr_id: u64, sges: &[Sge]) -> Result<(), Errno> {
        if sges.len() > self.max_sge as usize {
            return Err(EINVAL);
        }
        let mut state = lock(&self.state);
        let position = state.tail;
        let at = (position & u64::from(self.capacity - 1)) as usize;
        if state.outstanding >= self.depth || state.entries[at].position != 0 {
            return Err(ENOMEM);
        }
        let slot =
            slot(self.process.segment, self.slots, self.capacity, self.max_sge, position).ok_or(EINVAL)?;
        state.entries[at] = Entry { position: position.wrapping_add(1), wr_id, sges: sges.len() as u32 };
        let first = at * self.max_sge as usize;
        state.sges[first..first + sges.len()].copy_from_slice(sges);
        let total: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
        slot.sges.store(sges.len() as u32, Relaxed);
        slot.capacity.store(u32::try_from(total).unwrap_or(u32::MAX), Relaxed);
        for (n, sge) in sges.iter().enumerate() {
            if let Some(record) = sge_record(self.process.segment, slot, n as u32, self.max_sge) {
                record.addr.store(sge.addr, Relaxed);
                record.length.store(sge.length, Relaxed);
                record.lkey.store(sge.lkey, Relaxed);
            }
        }
        state.tail += 1;
        state.outstanding += 1;
        self.record.tail.0.store(state.tail, Relaxed);
        slot.sequence.store(position.wrapping_add(1), Release);
        Ok(())
    }

    /// The completion of the RECV at `position` is taken: returns its `wr_id`, and whether the
    /// payload that came along could be placed in its buffers. `None` where no such RECV is posted.
    pub(crate) fn complete(
        &self,
        process: &Process,
        position: u64,
        carried: &[AtomicU64; CARRIED_BYTES / 8],
        len: usize,
    ) -> Option<(u64, bool)> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let at = (position & u64::from(self.capacity - 1)) as usize;
        let entry = state.entries[at];
        if entry.position != position.wrapping_add(1) {
            return None;
        }
        state.entries[at].position = 0;
        state.outstanding -= 1;
        let first = at * self.max_sge as usize;
        let sges = &state.sges[first..first + entry.sges as usize];
        let placed = len == 0 || place(process, self.pd, &mut state.cache, sges, carried, len);
        Some((entry.wr_id, placed))
    }

    /// Forgets all RECVs; the QP is reset.
    pub(crate) fn clear(&self) {
        let _senders = self.record.lock.lock();
        let mut state = lock(&self.state);
        self.record.head.store(state.tail, Relaxed);
        state.entries.fill(Entry::default());
        state.outstanding = 0;
    }

    /// RECVs posted and not taken by a message.
    pub(crate) fn posted(&self) -> u64 {
        self.record.tail.0.load(Relaxed).saturating_sub(self.record.head.load(Relaxed))
    }

    /// Arms the SRQ's limit event, or with 0 disarms it.
    pub(crate) fn arm_limit(&self, limit: u32) {
        self.record.limit.store(limit, Release);
        // It is due at once where there are fewer already.
        if self.posted() < u64::from(limit) {
            limit_event(Owner::This, self.record);
        }
    }

    /// The armed limit.
    pub(crate) fn limit(&self) -> u32 {
        self.record.limit.load(Relaxed)
    }

    /// Numbers that an event carries for this SRQ.
    pub(crate) fn event_identity(&self) -> (u32, u32) {
        (self.record.srq.load(Relaxed), self.record.generation.load(Relaxed))
    }
}

impl Drop for RecvQueue {
    fn drop(&mut self) {
        let _senders = self.record.lock.lock();
        self.record.head.store(lock(&self.state).tail, Relaxed);
        self.record.capacity.store(0, Release);
        self.record.generation.fetch_add(1, Relaxed);
        self.process.heap.free(self.slots, u64::from(self.capacity) * stride(self.max_sge));
    }
}

/// Places payload that came with a completion into a RECV's buffers.
fn place(
    process: &Process,
    pd: u32,
    cache: &mut RegionCache,
    sges: &[Sge],
    carried: &[AtomicU64; CARRIED_BYTES / 8],
    len: usize,
) -> bool {
    // Taken over first: whoever writes it now cannot change what was checked.
    let mut payload = [0u64; CARRIED_BYTES / 8];
    for (to, from) in payload.iter_mut().zip(carried).take(len.div_ceil(8)) {
        *to = from.load(Relaxed);
    }
    let payload = payload.as_ptr().cast::<u8>();
    let mut at = 0;
    for sge in sges {
        let part = (sge.length as usize).min(len - at);
        if part == 0 {
            continue;
        }
        let Some(found) = cache.find(&process.regions, sge.lkey) else { return false };
        let Ok(offset) = found.check(pd, sge.addr, part as u64, AccessFlags::LOCAL_WRITE) else {
            return false;
        };
        // SAFETY: within `payload`, as `len` is at most its size; the buffer is within a region,
        // which the program keeps mapped while it is registered.
        unsafe { std::ptr::copy(payload.add(at), (found.host + offset) as *mut u8, part) };
        at += part;
    }
    at == len
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
            opcode: doorbell_verbs::WcOpcode::Recv.to_c(),
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

fn limit_event(owner: Owner<'_>, record: &RqRecord) {
    if record.limit.swap(0, Relaxed) != 0 {
        let event = EventRecord {
            event_type: EVENT_SRQ_LIMIT_REACHED,
            index: record.srq.load(Relaxed),
            generation: record.generation.load(Relaxed),
        };
        tell(owner, record.async_fd.load(Relaxed), event);
    }
}
