//! Completion queues.
//!
//! A CQ has three parts. Those of this process's sends go through a private queue. Completions of
//! RECVs stand in the slots of their receive queues: senders tell of them through a ring in the
//! segment, or, where a QP with a receive queue of its own is the only one that receives here, tell
//! nothing, as the CQ looks at that queue itself: its lane. Each completion of a send knows what was
//! there before it, so that completions are taken in the order in which they came.

use super::errors::{Said, say_of_responder};
use super::events::Events;
use super::recv_queue::{RecvQueue, Taken};
use crate::counts;
use crate::device;
use crate::errno::{EINVAL, ENOMEM, Errno};
use crate::fabric::peer::Owner;
use crate::fabric::process::Process;
use crate::fabric::progress::Sleeping;
use crate::memory::records::*;
use crate::point::{Point, reach};
use crate::rings::completions::{
    Armed, CompletionRing, RecvNotice, RingPlace, arm, is_armed, is_being_told, overrun, wake, wake_late,
};
use crate::rings::recvs::SOLICITED;
use crate::sync::biased::Biased;
use crate::sync::lock;
use crate::watch::flights::Flights;
use doorbell_abi::{CEnum, ibv_wc};
use doorbell_launch::counts::qp::RecvCounter;
use doorbell_launch::qp_numbers::qp_num;
use doorbell_verbs::{WcOpcode, WcStatus};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*, fence};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Empty polls, some 10 ns each, before the processor is offered to others, and how often then.
const PATIENCE: u32 = 1000;
const YIELD_EVERY: u32 = 50;
/// How often a CQ that nothing comes to looks whether a sender has ended in the middle of a message.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a CQ has to know of a QP that uses it.
#[derive(Debug)]
pub(crate) struct QpShare {
    pub(crate) process: &'static Process,
    pub(crate) num: u32,
    /// LID of the port, that of every sender, too.
    pub(crate) lid: u16,
    /// As in the QP's record.
    pub(crate) generation: AtomicU32,
    /// Send work requests whose room is free again: those up to the last one whose completion was
    /// taken.
    pub(crate) freed: AtomicU64,
    pub(crate) rq: Arc<RecvQueue>,
    pub(crate) uses_srq: bool,
    /// Whether it was said why it is in error.
    pub(crate) said: Said,
    /// Its send work requests that are outstanding, if somebody wants to know of them.
    pub(crate) flights: Option<Flights>,
    /// Where what the QP receives is counted, if it is.
    pub(crate) counts: Option<Mutex<RecvCounter>>,
}

/// A completion of the private part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) wr_id: u64,
    pub(crate) status: WcStatus,
    /// An `enum ibv_wc_opcode`.
    pub(crate) opcode: u32,
    pub(crate) byte_len: u32,
    pub(crate) qp_num: u32,
    /// Send work requests of the QP up to and with this one.
    pub(crate) sends: u64,
}

/// A completion of the private part, and what may have been there before it.
#[derive(Clone, Copy, Debug)]
struct Queued {
    own: Own,
    /// Position in the newest ring.
    after: u64,
    /// Position of a RECV of the lane.
    after_lane: u64,
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Cq {
    process: &'static Process,
    pub(crate) index: u32,
    pub(crate) cqe: AtomicU32,
    record: &'static CqRecord,
    state: Biased<State>,
    /// Whether something may be there that only who has the lock can see.
    waiting: AtomicBool,
    /// To see without the lock that there is nothing: the ring, and where in it the next completion will be, and the
    /// slot of the lane's next RECV, with its state as long as nothing came.
    ring: AtomicU64,
    head: AtomicU64,
    lane_slot: AtomicPtr<RqSlot>,
    lane_state: AtomicU64,
    /// Polls in a row that found nothing.
    empty_polls: AtomicU32,
    pub(crate) events: Events,
    /// Whether it has a completion channel, and somebody looks whether its program is to be woken.
    tells: bool,
    is_looked_at: AtomicBool,
    /// What was asked for when there were completions at the last look.
    seen: Mutex<Option<u32>>,
}

#[derive(Debug)]
struct State {
    own: VecDeque<Queued>,
    users: HashMap<u32, Arc<QpShare>, std::hash::BuildHasherDefault<QpnHasher>>,
    /// QPs whose RECVs complete here.
    receivers: u32,
    /// SRQs of QPs that receive here, and of how many.
    srqs: Vec<(Arc<RecvQueue>, u32)>,
    lane: Option<Lane>,
    /// The rings, of which the last is the one in the record: who had begun to tell of something may still put it
    /// into one before.
    rings: Vec<OwnRing>,
    /// Receive queues of which completions were told that were not the next yet, and how many.
    owing: Vec<(Arc<QpShare>, u64)>,
    looked: Instant,
}

/// A receive queue that the CQ looks at itself.
#[derive(Clone, Debug)]
struct Lane {
    user: Arc<QpShare>,
    /// From this RECV on senders tell of them through the ring.
    until: u64,
}

/// One of the CQ's rings, where this process knows it to be.
#[derive(Clone, Copy, Debug)]
struct OwnRing {
    place: RingPlace,
    head: u64,
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
        let ring = OwnRing::new(process, cqe.next_power_of_two())
            .inspect_err(|_| process.cq_numbers.give_back(index))?;
        record.cqe.store(cqe, Relaxed);
        record.channel_fd.store(channel_fd, Relaxed);
        record.async_fd.store(async_fd, Relaxed);
        record.armed.store(Armed::Not as u32, Relaxed);
        record.overrun.store(0, Relaxed);
        record.generation.fetch_add(1, Relaxed);
        record.ring.store(ring.place.in_record(), Release);
        let state = State {
            own: VecDeque::with_capacity(64),
            users: HashMap::default(),
            receivers: 0,
            srqs: Vec::new(),
            lane: None,
            rings: vec![ring],
            owing: Vec::new(),
            looked: Instant::now(),
        };
        Ok(Cq {
            process,
            index,
            cqe: AtomicU32::new(cqe),
            record,
            state: Biased::new(state),
            waiting: AtomicBool::new(false),
            ring: AtomicU64::new(ring.place.in_record()),
            head: AtomicU64::new(ring.head),
            lane_slot: AtomicPtr::new(std::ptr::null_mut()),
            lane_state: AtomicU64::new(0),
            empty_polls: AtomicU32::new(0),
            events: Events::default(),
            tells: channel_fd != 0,
            is_looked_at: AtomicBool::new(false),
            seen: Mutex::default(),
        })
    }

    /// Numbers that a completion event carries for this CQ.
    pub(crate) fn event_identity(&self) -> (u32, u32) {
        (self.index, self.record.generation.load(Relaxed))
    }

    /// A QP whose sends complete here.
    pub(crate) fn add_sender(&self, user: &Arc<QpShare>) {
        self.state.lock().users.insert(user.num, user.clone());
    }

    /// A QP whose RECVs complete here. Says in its record whether its receive queue is the CQ's lane.
    pub(crate) fn add_receiver(&self, user: &Arc<QpShare>, record: &QpRecord) {
        let mut state = self.state.lock();
        state.users.insert(user.num, user.clone());
        state.receivers += 1;
        if user.uses_srq {
            match state.srqs.iter_mut().find(|(srq, _)| Arc::ptr_eq(srq, &user.rq)) {
                Some((_, users)) => *users += 1,
                None => state.srqs.push((user.rq.clone(), 1)),
            }
        }
        let alone = state.receivers == 1 && !user.uses_srq;
        if alone {
            state.lane = Some(Lane { user: user.clone(), until: u64::MAX });
        } else {
            self.end_lane(&mut state);
        }
        record.lane.store(alone.into(), SeqCst);
        self.show(&state);
    }

    /// An SRQ of XRC whose RECVs complete here, whichever QPs take them.
    pub(crate) fn add_srq(&self, srq: &Arc<RecvQueue>) {
        let mut state = self.state.lock();
        state.receivers += 1;
        state.srqs.push((srq.clone(), 1));
        self.end_lane(&mut state);
        self.show(&state);
    }

    /// Forgets it, and what has completed of it.
    pub(crate) fn remove_srq(&self, srq: &Arc<RecvQueue>) {
        let mut state = self.state.lock();
        state.receivers -= 1;
        state.srqs.retain(|(other, _)| !Arc::ptr_eq(other, srq));
        self.show(&state);
    }

    /// From here on senders tell of what they complete.
    fn end_lane(&self, state: &mut State) {
        let Some(lane) = state.lane.as_mut().filter(|lane| lane.until == u64::MAX) else { return };
        if let Some(qp) = self.process.segment.qp(index_of(lane.user.num) as usize) {
            qp.lane.store(0, SeqCst);
        }
        // Who claims a RECV after this sees it.
        fence(SeqCst);
        lane.until = lane.user.rq.first_untaken();
    }

    /// Forgets a QP and what has completed of it.
    pub(crate) fn remove_user(&self, user: &QpShare, receives: bool) {
        let mut state = self.state.lock();
        self.forget_in(&mut state, user);
        state.users.remove(&user.num);
        if receives {
            state.receivers -= 1;
            state
                .srqs
                .iter_mut()
                .filter(|(srq, _)| Arc::ptr_eq(srq, &user.rq))
                .for_each(|(_, users)| *users -= 1);
            state.srqs.retain(|(_, users)| *users > 0);
        }
        if state.lane.as_ref().is_some_and(|lane| lane.user.num == user.num) {
            state.lane = None;
        }
        self.show(&state);
    }

    /// Forgets what has completed of a QP. The RECVs of an SRQ among that are free again, as nobody will poll them.
    pub(crate) fn forget(&self, user: &QpShare) {
        let mut state = self.state.lock();
        self.forget_in(&mut state, user);
        self.show(&state);
    }

    fn forget_in(&self, state: &mut State, user: &QpShare) {
        state.own.retain(|queued| queued.own.qp_num != user.num);
        state.owing.retain(|(other, _)| other.num != user.num);
        for own in &mut state.rings {
            let Some(ring) = own.ring(self.process) else { continue };
            for position in own.head..own.head + own.place.capacity() {
                let Some(what) = ring.get(position) else { break };
                if user.is_told_of(what) {
                    ring.forget(position);
                }
            }
            // What comes next may need the room.
            while ring.get(own.head) == Some(RecvNotice::NOTHING) {
                own.pass(&ring);
            }
        }
    }

    /// Shows what is to be seen without the lock.
    #[inline]
    fn show(&self, state: &State) {
        let late = state.lane.as_ref().is_some_and(|lane| lane.user.rq.has_late());
        let waiting = !state.own.is_empty() || !state.owing.is_empty() || state.rings.len() > 1 || late;
        self.waiting.store(waiting, Release);
        let Some(newest) = state.rings.last() else { return };
        self.ring.store(newest.place.in_record(), Relaxed);
        self.head.store(newest.head, Relaxed);
        let next = state.lane.as_ref().and_then(|lane| lane.user.rq.next_slot());
        let (slot, untaken) =
            next.map_or((std::ptr::null(), 0), |(slot, untaken)| (&raw const *slot, untaken.word()));
        self.lane_state.store(untaken, Relaxed);
        self.lane_slot.store(slot.cast_mut(), Relaxed);
    }

    /// Adds a completion of this process. Inlined, so that its parts are stored where they stay: a struct that goes through
    /// memory is read there in larger pieces than it was written, which waits until the message before it has reached the
    /// peer.
    #[inline(always)]
    pub(crate) fn push(&self, own: Own) {
        let mut state = self.state.lock();
        if self.held(&state) >= u64::from(self.cqe.load(Relaxed)) {
            drop(state);
            return overrun(Owner::This, self.record, self.index);
        }
        let after = self.newest(&state).map_or(0, |ring| ring.tail());
        let after_lane = state.lane.as_ref().map_or(0, |lane| lane.user.rq.complete_until());
        state.own.push_back(Queued { own, after, after_lane });
        self.waiting.store(true, Release);
        drop(state);
        wake(Owner::This, self.record, self.index, own.status != WcStatus::Success);
    }

    fn newest(&self, state: &State) -> Option<CompletionRing<'static>> {
        state.rings.last()?.ring(self.process)
    }

    /// Completions that are there.
    fn held(&self, state: &State) -> u64 {
        let rings = state.rings.iter().map(|own| own.ring(self.process).map_or(0, |ring| ring.len(own.head)));
        let others = state.own.len() as u64 + rings.sum::<u64>();
        let cqe = u64::from(self.cqe.load(Relaxed));
        let lane = state.lane.as_ref().map_or(0, |lane| {
            // Mostly it is seen without counting that there is room.
            let most = lane.user.rq.outstanding();
            if others + most < cqe { most } else { lane.user.rq.complete() }
        });
        others + lane
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
        let mut state = self.state.lock();
        if self.record.overrun.load(Relaxed) != 0 {
            return Err(Errno(libc::EIO));
        }
        while taken < wcs.len() {
            if !self.take(&mut state, &mut wcs[taken]) {
                break;
            }
            taken += 1;
        }
        self.show(&state);
        drop(state);
        if taken == 0 {
            self.let_others_run();
        } else {
            self.empty_polls.store(0, Relaxed);
        }
        Ok(taken)
    }

    /// A program that polls in vain may keep the peer it waits for from running, where processors
    /// are few: after a while every so many polls offer this one.
    fn let_others_run(&self) {
        let polls = self.empty_polls.load(Relaxed).wrapping_add(1);
        self.empty_polls.store(polls, Relaxed);
        if polls >= PATIENCE && polls.is_multiple_of(YIELD_EVERY) {
            std::thread::yield_now();
            self.look_after_senders();
        }
    }

    /// A sender that has ended in the middle of a message leaves it neither there nor not.
    #[cold]
    fn look_after_senders(&self) {
        let mut state = self.state.lock();
        if state.looked.elapsed() < LOOK_EVERY {
            return;
        }
        state.looked = Instant::now();
        let named = state.srqs.iter().map(|(srq, _)| srq).filter(|srq| srq.is_named());
        let queues: Vec<Arc<RecvQueue>> =
            state.users.values().map(|user| &user.rq).chain(named).cloned().collect();
        drop(state);
        queues.iter().for_each(|queue| queue.recover());
    }

    fn looks_empty(&self) -> bool {
        if self.waiting.load(Acquire) {
            return false;
        }
        let lane = self.lane_slot.load(Relaxed);
        // SAFETY: null, or a slot in this process's segment, which is never unmapped.
        if let Some(slot) = unsafe { lane.as_ref() }
            && slot.state.load(Acquire) != self.lane_state.load(Relaxed)
        {
            return false;
        }
        let ring = CompletionRing::at(self.process.segment, RingPlace::of_record(self.ring.load(Relaxed)));
        ring.is_none_or(|ring| ring.get(self.head.load(Relaxed)).is_none())
    }

    /// The next completion: the oldest, as far as anybody can tell.
    #[inline(always)]
    fn take(&self, state: &mut State, to: &mut ibv_wc) -> bool {
        loop {
            let own = state.own.front().map(|queued| (queued.after, queued.after_lane));
            if state.take_from_lane(own.map(|(_, after)| after), to) || state.take_owed(to) {
                return true;
            }
            match self.next_told(state, own.map(|(after, _)| after)) {
                Some(what) => {
                    if state.take_told(what, self.process.slot, to) {
                        return true;
                    }
                }
                None => return state.take_own(to),
            }
        }
    }

    /// What was told next; not what was told after `before`, a position in the newest ring.
    fn next_told(&self, state: &mut State, before: Option<u64>) -> Option<RecvNotice> {
        let last = state.rings.len() - 1;
        for (n, own) in state.rings.iter_mut().enumerate() {
            if n == last && before.is_some_and(|before| own.head >= before) {
                return None;
            }
            let Some(ring) = own.ring(self.process) else { continue };
            if let Some(what) = ring.get(own.head) {
                own.pass(&ring);
                return Some(what);
            }
        }
        None
    }

    /// Asks for an event at the next completion (ibv_req_notify_cq(3)).
    pub(crate) fn request_notify(self: &Arc<Cq>, solicited_only: bool) {
        if self.tells && !self.is_looked_at.swap(true, Relaxed) {
            self.process.progress.look_at(Arc::downgrade(self) as Weak<dyn Sleeping>);
        }
        // From when nothing is there, something that is came after this.
        self.empty_polls.store(self.looks_empty().into(), Relaxed);
        arm(self.record, if solicited_only { Armed::Solicited } else { Armed::Next });
    }

    /// Gives the CQ room for `cqe` completions (ibv_resize_cq(3)).
    pub(crate) fn resize(&self, cqe: u32) -> Result<(), Errno> {
        let mut state = self.state.lock();
        if self.held(&state) > u64::from(cqe) {
            return Err(EINVAL);
        }
        let capacity = cqe.next_power_of_two();
        if state.rings.last().is_none_or(|ring| ring.place.capacity() < u64::from(capacity)) {
            let ring = OwnRing::new(self.process, capacity)?;
            state.rings.push(ring);
            reach(Point::RingMade);
            self.record.ring.store(ring.place.in_record(), Release);
        }
        self.record.cqe.store(cqe, Relaxed);
        self.cqe.store(cqe, Relaxed);
        self.show(&state);
        Ok(())
    }
}

impl Sleeping for Cq {
    /// A sender may have been stopped, or have ended, before it told of what it had completed, or in the middle of that.
    fn look(&self) {
        if !is_armed(self.record) && !is_being_told(self.record) {
            return;
        }
        self.look_after_senders();
        let there = self.empty_polls.load(Relaxed) > 0 && !self.looks_empty();
        let mut seen = lock(&self.seen);
        *seen = there.then(|| wake_late(self.record, self.index, *seen));
    }
}

impl State {
    /// A completion of the lane; of a RECV before `before` only, where that is given.
    #[inline(always)]
    fn take_from_lane(&mut self, before: Option<u64>, to: &mut ibv_wc) -> bool {
        let Some(lane) = self.lane.as_ref() else { return false };
        let mut found = false;
        let before = before.unwrap_or(u64::MAX).min(lane.until);
        while !found && (lane.user.rq.next() < before || lane.user.rq.has_late()) {
            let Some(taken) = lane.user.rq.take_next() else { break };
            found = lane.user.received(&taken, to);
        }
        if lane.until != u64::MAX && lane.user.rq.is_through(lane.until) {
            self.lane = None;
        }
        found
    }

    /// A completion of which was told before it was the next of its queue.
    fn take_owed(&mut self, to: &mut ibv_wc) -> bool {
        for n in 0..self.owing.len() {
            let (user, count) = &mut self.owing[n];
            let Some(taken) = user.rq.take_next() else { continue };
            let found = user.received(&taken, to);
            *count -= 1;
            if *count == 0 {
                self.owing.swap_remove(n);
            }
            return found;
        }
        false
    }

    /// The completion that was told of; not where it is of no QP that there is, of no RECV that is posted, or not yet
    /// the next of its queue.
    fn take_told(&mut self, what: RecvNotice, slot: u32, to: &mut ibv_wc) -> bool {
        let rq = what.rq();
        if rq >= QPS as u32 {
            let srq = self.srqs.iter().find(|(srq, _)| srq.index == rq);
            let taken = srq.and_then(|(srq, _)| Some((srq.is_named(), srq.take_told(what)?)));
            let Some((is_named, taken)) = taken else { return false };
            if is_named {
                *to = completion(&taken, device::lid());
                let is_write = to.opcode == WcOpcode::RecvWriteWithImm.to_c();
                counts::srq_received(to.byte_len, is_write);
                return true;
            }
            return self.users.get(&taken.done.qpn).is_some_and(|user| user.received(&taken, to));
        }
        let user = self.users.get(&qp_num(slot, rq)).filter(|user| !user.uses_srq);
        let Some(user) = user else { return false };
        let is_lane = |lane: &&Lane| lane.user.num == user.num;
        if self.lane.as_ref().filter(is_lane).is_some_and(|lane| what.is_before(lane.until)) {
            return false;
        }
        // As many completions as were told of, whichever these are: no more, as the CQ has no room for what was told
        // of what is taken already.
        let owing = self.owing.iter_mut().find(|(other, _)| other.num == user.num);
        match (owing, user.rq.take_next()) {
            (_, Some(taken)) => user.received(&taken, to),
            (Some((_, count)), None) => {
                *count += 1;
                false
            }
            (None, None) => {
                self.owing.push((user.clone(), 1));
                false
            }
        }
    }

    fn take_own(&mut self, to: &mut ibv_wc) -> bool {
        let Some(Queued { own, .. }) = self.own.pop_front() else { return false };
        let status = own.status.to_c();
        if let Some(user) = self.users.get(&own.qp_num) {
            // Only who has the lock does this, or has seen to it that there is nothing to take. An atomic operation would wait
            // for the message that was just stored to reach the peer.
            let freed = user.freed.load(Relaxed).max(own.sends);
            user.freed.store(freed, Relaxed);
            if let Some(flights) = &user.flights {
                flights.polled(own.sends, status, own.byte_len);
            }
        }
        *to = ibv_wc {
            wr_id: own.wr_id,
            status,
            opcode: own.opcode,
            byte_len: own.byte_len,
            qp_num: own.qp_num,
            ..ibv_wc::default()
        };
        true
    }
}

/// The completion of a RECV, whose sender's port has this LID.
#[inline(always)]
fn completion(taken: &Taken, lid: u16) -> ibv_wc {
    let Taken { wr_id, done, placed } = taken;
    let status = if *placed { done.status.into() } else { WcStatus::LocProtErr.to_c() };
    ibv_wc {
        wr_id: *wr_id,
        status,
        opcode: done.opcode.into(),
        byte_len: done.byte_len,
        imm_data: done.imm,
        qp_num: done.qpn,
        src_qp: done.src_qp,
        wc_flags: (done.flags & !SOLICITED).into(),
        slid: lid,
        ..ibv_wc::default()
    }
}

impl QpShare {
    /// The completion of a RECV; `false` where it is of a life of the QP that has ended.
    #[inline(always)]
    fn received(&self, taken: &Taken, to: &mut ibv_wc) -> bool {
        let done = &taken.done;
        if done.qpn != self.num || done.generation != self.generation.load(Relaxed) {
            return false;
        }
        if done.status != 0 {
            self.look_at_error();
        }
        if let Some(counts) = self.counts.as_ref().filter(|_| done.status == 0) {
            lock(counts).came(done.byte_len, u32::from(done.opcode) == WcOpcode::RecvWriteWithImm.to_c());
        }
        *to = completion(taken, self.lid);
        true
    }

    /// A RECV has failed: perhaps as a peer's request has put the QP to Err.
    #[cold]
    fn look_at_error(&self) {
        say_of_responder(self.process, self.num, &self.said);
    }

    /// Whether this tells of one of its RECVs; one of an SRQ is free then.
    fn is_told_of(&self, what: RecvNotice) -> bool {
        what.rq() == self.rq.index && (!self.uses_srq || self.rq.drop_told(what, self.num))
    }
}

impl OwnRing {
    fn new(process: &Process, capacity: u32) -> Result<OwnRing, Errno> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let at = process.heap.alloc(RingPlace::bytes(capacity)).ok_or(ENOMEM)?;
        let place = RingPlace::new(at, capacity);
        let ring =
            CompletionRing::begin(process.segment, place, NUMBER.fetch_add(1, Relaxed)).ok_or(ENOMEM)?;
        Ok(OwnRing { place, head: ring.head() })
    }

    /// The completion at its head is taken.
    fn pass(&mut self, ring: &CompletionRing<'_>) {
        self.head += 1;
        ring.pass(self.head);
    }

    fn ring(&self, process: &Process) -> Option<CompletionRing<'static>> {
        CompletionRing::at(process.segment, self.place)
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        self.record.ring.store(0, Release);
        self.record.generation.fetch_add(1, Relaxed);
        for own in &self.state.lock().rings {
            self.process.heap.free(own.place.at(), RingPlace::bytes(own.place.capacity() as u32));
        }
        self.process.cq_numbers.give_back(self.index);
    }
}
