//! Receive queues: those of QPs, and shared ones.
//!
//! The ring of posted RECVs lies in the segment, where senders take them. What the program asked
//! for is kept in private memory as well: completions are made from that, not from what others
//! could have changed.

use crate::errno::{EINVAL, ENOMEM, Errno};
use crate::fabric::peer::Owner;
use crate::fabric::process::Process;
use crate::memory::records::*;
use crate::memory::regions::{RegionCache, Regions};
use crate::rings::recvs::{self, limit_event, slot, stride};
use crate::sync::lock;
use doorbell_verbs::{AccessFlags, Sge};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};

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
        recvs::forget_sequences(process.segment, slots, capacity, max_sge);
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
            if let Some(record) = recvs::sge_record(self.process.segment, slot, n as u32, self.max_sge) {
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
        let placed = len == 0 || place(&self.process.regions, self.pd, &mut state.cache, sges, carried, len);
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
    regions: &Regions,
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
        let Some(found) = cache.find(regions, sge.lkey) else { return false };
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
