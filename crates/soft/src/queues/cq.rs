//! Completion queues.
//!
//! A CQ has two parts: completions of RECVs come through a ring in the segment, which the senders
//! fill; those of this process's sends go through a private queue. Each of these knows how many
//! were in the ring before it, so that completions are taken in the order in which they came.

use super::events::Events;
use super::recv_queue::RecvQueue;
use crate::counts::qp::RecvCounter;
use crate::errno::{EINVAL, ENOMEM, Errno};
use crate::fabric::peer::Owner;
use crate::fabric::process::Process;
use crate::memory::records::*;
use crate::rings::completions::{self, Armed, SOLICITED, overrun, wake};
use crate::sync::lock;
use doorbell_abi::{CEnum, ibv_wc};
use doorbell_verbs::{WcOpcode, WcStatus};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};
use std::sync::{Arc, Mutex};

/// Empty polls, some 10 ns each, before the processor is offered to others, and how often then.
const PATIENCE: u32 = 1000;
const YIELD_EVERY: u32 = 50;
/// What a CQ has to know of a QP that uses it.
#[derive(Debug)]
pub(crate) struct QpShare {
    pub(crate) num: u32,
    /// As in the QP's record.
    pub(crate) generation: AtomicU32,
    /// Send work requests whose room is free again: those up to the last one whose completion was
    /// taken.
    pub(crate) freed: AtomicU64,
    pub(crate) rq: Arc<RecvQueue>,
    /// Where what the QP receives is counted, if it is.
    pub(crate) counts: Option<Mutex<RecvCounter>>,
}

/// A completion of the private part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) wc: ibv_wc,
    pub(crate) solicited: bool,
    /// Send work requests of the QP up to and with this one.
    pub(crate) sends: u64,
}

/// A completion of the private part, and how many had been put into the ring before it.
#[derive(Clone, Copy, Debug)]
struct Queued {
    own: Own,
    after: u64,
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Cq {
    process: &'static Process,
    pub(crate) index: u32,
    pub(crate) cqe: AtomicU32,
    record: &'static CqRecord,
    state: Mutex<State>,
    /// Length of the private part, to see that there is nothing without the lock.
    waiting: AtomicU32,
    /// Polls in a row that found nothing.
    empty_polls: AtomicU32,
    pub(crate) events: Events,
}

#[derive(Debug)]
struct State {
    own: VecDeque<Queued>,
    users: HashMap<u32, Arc<QpShare>, std::hash::BuildHasherDefault<QpnHasher>>,
    entries: u64,
    capacity: u32,
}

/// QP numbers are their own hash.
#[derive(Default)]
pub(crate) struct QpnHasher(u64);

impl std::hash::Hasher for QpnHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u32(&mut self, qpn: u32) {
        // The upper bits choose within a group, the lower ones the group.
        self.0 = u64::from(qpn) | u64::from(qpn) << 57;
    }
}

impl Cq {
    pub(crate) fn new(
        process: &'static Process,
        cqe: u32,
        channel_fd: u32,
        async_fd: u32,
    ) -> Result<Cq, Errno> {
        let index = process.cq_numbers.take()?;
        let record = process.segment.cq(index as usize).ok_or(EINVAL)?;
        let capacity = cqe.next_power_of_two();
        let Some(entries) = process.heap.alloc(u64::from(capacity) * size_of::<CqEntry>() as u64) else {
            process.cq_numbers.give_back(index);
            return Err(ENOMEM);
        };
        let head = record.head.0.load(Relaxed);
        completions::forget_sequences(process.segment, entries, capacity);
        record.cqe.store(cqe, Relaxed);
        record.channel_fd.store(channel_fd, Relaxed);
        record.async_fd.store(async_fd, Relaxed);
        record.armed.store(Armed::Not as u32, Relaxed);
        record.overrun.store(0, Relaxed);
        record.entries.store(entries, Relaxed);
        record.tail.store(head, Relaxed);
        record.head_seen.store(head, Relaxed);
        record.generation.fetch_add(1, Relaxed);
        record.capacity.store(capacity, Release);
        let state = State { own: VecDeque::with_capacity(64), users: HashMap::default(), entries, capacity };
        Ok(Cq {
            process,
            index,
            cqe: AtomicU32::new(cqe),
            record,
            state: Mutex::new(state),
            waiting: AtomicU32::new(0),
            empty_polls: AtomicU32::new(0),
            events: Events::default(),
        })
    }

    /// Numbers that a completion event carries for this CQ.
    pub(crate) fn event_identity(&self) -> (u32, u32) {
        (self.index, self.record.generation.load(Relaxed))
    }

    pub(crate) fn add_user(&self, user: Arc<QpShare>) {
        lock(&self.state).users.insert(user.num, user);
    }

    /// Forgets a QP and what has completed of it.
    pub(crate) fn remove_user(&self, num: u32) {
        let mut state = lock(&self.state);
        state.users.remove(&num);
        state.own.retain(|queued| queued.own.wc.qp_num != num);
        self.waiting.store(state.own.len() as u32, Release);
    }

    /// Forgets what has completed of a QP through the private part.
    pub(crate) fn forget(&self, num: u32) {
        let mut state = lock(&self.state);
        state.own.retain(|queued| queued.own.wc.qp_num != num);
        self.waiting.store(state.own.len() as u32, Release);
    }

    /// Adds a completion of this process.
    pub(crate) fn push(&self, own: Own) {
        let mut state = lock(&self.state);
        let after = self.record.tail.load(Acquire);
        let in_ring = after.wrapping_sub(self.record.head.0.load(Relaxed));
        let held = state.own.len() as u64 + in_ring.min(u64::from(state.capacity));
        if held >= u64::from(self.cqe.load(Relaxed)) {
            drop(state);
            return overrun(Owner::This, self.record, self.index);
        }
        state.own.push_back(Queued { own, after });
        self.waiting.store(state.own.len() as u32, Release);
        drop(state);
        wake(Owner::This, self.record, self.index, own.solicited || own.wc.status != 0);
    }

    /// Takes completions, oldest first, into the front of `wcs`; returns how many. An overrun CQ
    /// gives none (ibv_create_cq(3)).
    pub(crate) fn poll(&self, wcs: &mut [ibv_wc]) -> Result<usize, Errno> {
        self.process.progress.help();
        let mut taken = 0;
        if self.looks_empty() && self.record.overrun.load(Relaxed) == 0 {
            self.let_others_run();
            return Ok(0);
        }
        self.empty_polls.store(0, Relaxed);
        let mut state = lock(&self.state);
        if self.record.overrun.load(Relaxed) != 0 {
            return Err(Errno(libc::EIO));
        }
        while taken < wcs.len() {
            let Some(wc) = self.take(&mut state) else { break };
            wcs[taken] = wc;
            taken += 1;
        }
        self.waiting.store(state.own.len() as u32, Release);
        Ok(taken)
    }

    /// A program that polls in vain may keep the peer it waits for from running, where processors
    /// are few: after a while every so many polls offer this one.
    fn let_others_run(&self) {
        let polls = self.empty_polls.load(Relaxed).wrapping_add(1);
        self.empty_polls.store(polls, Relaxed);
        if polls >= PATIENCE && polls.is_multiple_of(YIELD_EVERY) {
            std::thread::yield_now();
        }
    }

    fn looks_empty(&self) -> bool {
        if self.waiting.load(Acquire) != 0 {
            return false;
        }
        let head = self.record.head.0.load(Relaxed);
        let capacity = self.record.capacity.load(Relaxed);
        let entries = self.record.entries.load(Relaxed);
        completions::entry(self.process.segment, entries, capacity, head)
            .is_none_or(|e| e.sequence.load(Acquire) != head.wrapping_add(1))
    }

    fn take(&self, state: &mut State) -> Option<ibv_wc> {
        loop {
            let head = self.record.head.0.load(Relaxed);
            let own_is_older = state.own.front().is_some_and(|queued| queued.after <= head);
            let Some(entry) = (if own_is_older { None } else { self.next_in_ring(state) }) else {
                return self.take_own(state);
            };
            let wc = self.receive(state, entry);
            self.record.head.0.store(head.wrapping_add(1), Release);
            if wc.is_some() {
                return wc;
            }
        }
    }

    fn take_own(&self, state: &mut State) -> Option<ibv_wc> {
        let own = state.own.pop_front()?.own;
        if let Some(user) = state.users.get(&own.wc.qp_num) {
            user.freed.fetch_max(own.sends, Relaxed);
        }
        Some(own.wc)
    }

    fn next_in_ring(&self, state: &State) -> Option<&'static CqEntry> {
        let head = self.record.head.0.load(Relaxed);
        let entry = completions::entry(self.process.segment, state.entries, state.capacity, head)?;
        (entry.sequence.load(Acquire) == head.wrapping_add(1)).then_some(entry)
    }

    /// The completion that an entry stands for; `None` where it is of no QP that there is, or of no
    /// RECV that is posted.
    fn receive(&self, state: &State, entry: &CqEntry) -> Option<ibv_wc> {
        let qpn = entry.qpn.load(Relaxed);
        let user = state.users.get(&qpn)?;
        if user.generation.load(Relaxed) != entry.generation.load(Relaxed) {
            return None;
        }
        let mut wc = ibv_wc {
            status: entry.status.load(Relaxed),
            opcode: entry.opcode.load(Relaxed),
            byte_len: entry.byte_len.load(Relaxed),
            imm_data: entry.imm.load(Relaxed),
            qp_num: qpn,
            src_qp: entry.src_qp.load(Relaxed),
            wc_flags: entry.flags.load(Relaxed) & !SOLICITED,
            slid: crate::device::lid(),
            ..ibv_wc::default()
        };
        let carried = (entry.carried_len.load(Relaxed) as usize).min(CARRIED_BYTES);
        let (wr_id, placed) = user.rq.complete(entry.recv.load(Relaxed), &entry.carried, carried)?;
        wc.wr_id = wr_id;
        if let Some(counts) = user.counts.as_ref().filter(|_| wc.status == WcStatus::Success.to_c()) {
            let write = wc.opcode == WcOpcode::RecvWriteWithImm.to_c();
            lock(counts).came(wc.byte_len, write);
        }
        if !placed {
            wc.status = WcStatus::LocProtErr.to_c();
        }
        Some(wc)
    }

    /// Asks for an event at the next completion (ibv_req_notify_cq(3)).
    pub(crate) fn request_notify(&self, solicited_only: bool) {
        let armed = if solicited_only { Armed::Solicited } else { Armed::Next };
        // Who has asked for the next completion whatever it is still gets it (IB specification vol. 1, 11.4.2.2).
        self.record.armed.fetch_max(armed as u32, Relaxed);
        // Whoever completes after this sees it, or the program sees the completion when it polls.
        fence(SeqCst);
    }

    /// Gives the CQ room for `cqe` completions (ibv_resize_cq(3)).
    pub(crate) fn resize(&self, cqe: u32) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        let capacity = cqe.next_power_of_two();
        let in_ring = self.record.tail.load(Relaxed).wrapping_sub(self.record.head.0.load(Relaxed));
        if state.own.len() as u64 + in_ring.min(u64::from(state.capacity)) > u64::from(cqe) {
            return Err(EINVAL);
        }
        if capacity > state.capacity {
            self.grow_ring(&mut state, capacity)?;
        }
        self.record.cqe.store(cqe, Relaxed);
        self.cqe.store(cqe, Relaxed);
        Ok(())
    }

    fn grow_ring(&self, state: &mut State, capacity: u32) -> Result<(), Errno> {
        let bytes = |capacity: u32| u64::from(capacity) * size_of::<CqEntry>() as u64;
        let segment = self.process.segment;
        let _producers = self.record.lock.lock().ok_or(EINVAL)?;
        let entries = self.process.heap.alloc(bytes(capacity)).ok_or(ENOMEM)?;
        completions::forget_sequences(segment, entries, capacity);
        completions::copy(segment, self.record, (state.entries, state.capacity), (entries, capacity));
        self.record.entries.store(entries, Relaxed);
        self.record.capacity.store(capacity, Release);
        self.process.heap.free(state.entries, bytes(state.capacity));
        (state.entries, state.capacity) = (entries, capacity);
        Ok(())
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        let state = lock(&self.state);
        self.record.capacity.store(0, Release);
        self.record.generation.fetch_add(1, Relaxed);
        self.process.heap.free(state.entries, u64::from(state.capacity) * size_of::<CqEntry>() as u64);
        self.process.cq_numbers.give_back(self.index);
    }
}
