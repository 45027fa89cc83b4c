//! What a CQ has under its lock: the completions of its three parts, and the queues that they come from.

use crate::counts;
use crate::device;
use crate::errno::{ENOMEM, Errno};
use crate::fabric::process::Process;
use crate::memory::records::*;
use crate::point::{Point, reach};
use crate::queues::errors::{Said, say_of_responder};
use crate::queues::recv_queue::{RecvQueue, TakenRecv};
use crate::rings::completions::{CompletionRing, RecvNotice, RingPlace};
use crate::rings::recvs::{SOLICITED, SlotState, end_lane};
use crate::sync::lock;
use crate::watch::flights::Flights;
use doorbell_abi::{CEnum, ibv_wc};
use doorbell_launch::counts::qp::RecvCounter;
use doorbell_launch::qp_numbers::qp_num;
use doorbell_verbs::{WcOpcode, WcStatus};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often a CQ that nothing comes to looks whether a sender has ended in the middle of a message.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a CQ has to know of a QP that uses it.
#[derive(Debug)]
pub(crate) struct QpShare {
    pub(crate) process: &'static Process,
    pub(crate) num: u32,
    /// LID of the port, that of every sender, too.
    pub(crate) lid: u16,
    /// As in the QP's record. Relaxed: a reset stores it before it takes the CQ's lock to forget what has completed.
    pub(crate) generation: AtomicU32,
    /// Send work requests whose room is free again: those up to the last one whose completion was
    /// taken. Changed under the lock of the CQ of its sends; a post that reads it old finds less room than there is.
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
pub(crate) struct SendDone {
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
pub(super) struct QueuedSend {
    own: SendDone,
    /// Position in the newest ring.
    after: u64,
    /// Position of a RECV of the lane.
    after_lane: u64,
}

/// What a CQ has under its lock.
#[derive(Debug)]
pub(super) struct CqState {
    process: &'static Process,
    /// The private part.
    own: VecDeque<QueuedSend>,
    users: HashMap<u32, Arc<QpShare>, std::hash::BuildHasherDefault<QpnHasher>>,
    /// QPs whose RECVs complete here.
    receivers: u32,
    /// SRQs of QPs that receive here, and of how many.
    srqs: Vec<(Arc<RecvQueue>, u32)>,
    lane: Option<CqLane>,
    rings: CqRings,
    /// Receive queues of which completions were told that were not the next yet, and how many.
    owing: Vec<(Arc<QpShare>, u64)>,
    looked: Instant,
}

/// The rings of a CQ. A process that had begun to tell of a completion may still put it into an older one.
#[derive(Debug)]
struct CqRings {
    older: Vec<OwnRing>,
    /// The one in the record.
    newest: OwnRing,
}

/// A receive queue that the CQ looks at itself.
#[derive(Clone, Debug)]
struct CqLane {
    user: Arc<QpShare>,
    /// From this RECV on senders tell of them through the ring; `None` as long as that is from none on.
    until: Option<u64>,
}

/// One of the CQ's rings, where this process knows it to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnRing {
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

impl CqState {
    /// The state of a CQ with a ring of this capacity.
    pub(super) fn new(process: &'static Process, capacity: u32) -> Result<CqState, Errno> {
        let newest = OwnRing::new(process, capacity)?;
        Ok(CqState {
            process,
            own: VecDeque::with_capacity(64),
            users: HashMap::default(),
            receivers: 0,
            srqs: Vec::new(),
            lane: None,
            rings: CqRings { older: Vec::new(), newest },
            owing: Vec::new(),
            looked: Instant::now(),
        })
    }

    /// The ring in the record.
    pub(super) fn newest_ring(&self) -> OwnRing {
        self.rings.newest
    }

    /// Whether something may be there that only the holder of the lock can see.
    pub(super) fn has_waiting(&self) -> bool {
        !self.own.is_empty()
            || !self.owing.is_empty()
            || !self.rings.older.is_empty()
            || self.lane.as_ref().is_some_and(|lane| lane.user.rq.has_late())
    }

    /// The slot of the lane's next RECV, and its state as long as nothing came.
    #[inline]
    pub(super) fn next_of_lane(&self) -> Option<(&'static RqSlot, SlotState)> {
        self.lane.as_ref()?.user.rq.next_slot()
    }

    /// A QP whose sends complete here.
    pub(super) fn add_sender(&mut self, user: &Arc<QpShare>) {
        self.users.insert(user.num, user.clone());
    }

    /// A QP whose RECVs complete here. Says in its record whether its receive queue is the CQ's lane.
    pub(super) fn add_receiver(&mut self, user: &Arc<QpShare>, record: &QpRecord) {
        self.users.insert(user.num, user.clone());
        self.receivers += 1;
        if user.uses_srq {
            match self.srqs.iter_mut().find(|(srq, _)| Arc::ptr_eq(srq, &user.rq)) {
                Some((_, users)) => *users += 1,
                None => self.srqs.push((user.rq.clone(), 1)),
            }
        }
        let alone = self.receivers == 1 && !user.uses_srq;
        if alone {
            self.lane = Some(CqLane { user: user.clone(), until: None });
        } else {
            self.end_lane();
        }
        // SeqCst, as in `end_lane`: a sender that claims a RECV reads it behind the claim.
        record.lane.store(alone.into(), SeqCst);
    }

    /// An SRQ of XRC whose RECVs complete here, whichever QPs take them.
    pub(super) fn add_srq(&mut self, srq: &Arc<RecvQueue>) {
        self.receivers += 1;
        self.srqs.push((srq.clone(), 1));
        self.end_lane();
    }

    /// Forgets an SRQ of XRC, and what has completed of it.
    pub(super) fn remove_srq(&mut self, srq: &Arc<RecvQueue>) {
        self.receivers -= 1;
        self.srqs.retain(|(other, _)| !Arc::ptr_eq(other, srq));
    }

    /// From here on senders tell of what they complete.
    fn end_lane(&mut self) {
        let Some(lane) = self.lane.as_mut().filter(|lane| lane.until.is_none()) else { return };
        if let Some(qp) = self.process.segment.qp(index_of(lane.user.num) as usize) {
            end_lane(qp);
        }
        lane.until = Some(lane.user.rq.first_untaken());
    }

    /// Forgets a QP and what has completed of it.
    pub(super) fn remove_user(&mut self, user: &QpShare, receives: bool) {
        self.forget(user);
        self.users.remove(&user.num);
        if receives {
            self.receivers -= 1;
            self.srqs
                .iter_mut()
                .filter(|(srq, _)| Arc::ptr_eq(srq, &user.rq))
                .for_each(|(_, users)| *users -= 1);
            self.srqs.retain(|(_, users)| *users > 0);
        }
        if self.lane.as_ref().is_some_and(|lane| lane.user.num == user.num) {
            self.lane = None;
        }
    }

    /// Forgets what has completed of a QP. The RECVs of an SRQ among that are free again, as nobody will poll them.
    pub(super) fn forget(&mut self, user: &QpShare) {
        self.own.retain(|queued| queued.own.qp_num != user.num);
        self.owing.retain(|(other, _)| other.num != user.num);
        let process = self.process;
        for own in self.rings.all_mut() {
            let Some(ring) = own.ring(process) else { continue };
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

    /// Adds a completion of this process. Inlined, as [`super::Cq::push`] is.
    #[inline(always)]
    pub(super) fn push(&mut self, own: SendDone) {
        let after = self.rings.newest.ring(self.process).map_or(0, |ring| ring.tail());
        let after_lane = self.lane.as_ref().map_or(0, |lane| lane.user.rq.complete_until());
        self.own.push_back(QueuedSend { own, after, after_lane });
    }

    /// Completions that are there, of a CQ that holds `cqe` at most.
    #[inline]
    pub(super) fn held(&self, cqe: u64) -> u64 {
        let len = |own: &OwnRing| own.ring(self.process).map_or(0, |ring| ring.len(own.head));
        let others = self.own.len() as u64 + self.rings.all().map(len).sum::<u64>();
        let lane = self.lane.as_ref().map_or(0, |lane| {
            // Mostly it is seen without counting that there is room.
            let most = lane.user.rq.outstanding();
            if others + most < cqe { most } else { lane.user.rq.complete() }
        });
        others + lane
    }

    /// The next completion: the oldest, as far as anybody can tell.
    #[inline(always)]
    pub(super) fn take(&mut self, to: &mut ibv_wc) -> bool {
        loop {
            let own = self.own.front().map(|queued| (queued.after, queued.after_lane));
            if self.take_from_lane(own.map(|(_, after)| after), to) || self.take_owed(to) {
                return true;
            }
            match self.next_told(own.map(|(after, _)| after)) {
                Some(what) => {
                    if self.take_told(what, self.process.slot, to) {
                        return true;
                    }
                }
                None => return self.take_own(to),
            }
        }
    }

    /// What was told next; not what was told after `before`, a position in the newest ring.
    #[inline(always)]
    fn next_told(&mut self, before: Option<u64>) -> Option<RecvNotice> {
        let CqRings { older, newest } = &mut self.rings;
        if let Some(what) = older.iter_mut().find_map(|own| own.next(self.process)) {
            return Some(what);
        }
        if before.is_some_and(|before| newest.head >= before) { None } else { newest.next(self.process) }
    }

    /// Makes a ring of this capacity at least the newest, where there is none; says so in the record by `show`.
    pub(super) fn grow(&mut self, capacity: u32, show: impl FnOnce(RingPlace)) -> Result<(), Errno> {
        if self.rings.newest.place.capacity() >= u64::from(capacity) {
            return Ok(());
        }
        let ring = OwnRing::new(self.process, capacity)?;
        let old = std::mem::replace(&mut self.rings.newest, ring);
        self.rings.older.push(old);
        reach(Point::RingMade);
        show(ring.place);
        Ok(())
    }

    /// The receive queues of those that use the CQ, where they were not looked at for a while.
    pub(super) fn queues_to_look_after(&mut self) -> Vec<Arc<RecvQueue>> {
        if self.looked.elapsed() < LOOK_EVERY {
            return Vec::new();
        }
        self.looked = Instant::now();
        let named = self.srqs.iter().map(|(srq, _)| srq).filter(|srq| srq.is_named());
        self.users.values().map(|user| &user.rq).chain(named).cloned().collect()
    }

    /// Gives the rings back; the CQ ends.
    pub(super) fn free_rings(&self) {
        for own in self.rings.all() {
            self.process.heap.free(own.place.at(), RingPlace::bytes(own.place.capacity() as u32));
        }
    }

    /// A completion of the lane; of a RECV before `before` only, where that is given.
    #[inline(always)]
    fn take_from_lane(&mut self, before: Option<u64>, to: &mut ibv_wc) -> bool {
        let Some(lane) = self.lane.as_ref() else { return false };
        let mut found = false;
        let before = before.unwrap_or(u64::MAX).min(lane.until.unwrap_or(u64::MAX));
        while !found && (lane.user.rq.next() < before || lane.user.rq.has_late()) {
            let Some(taken) = lane.user.rq.take_next() else { break };
            found = lane.user.received(&taken, to);
        }
        if lane.until.is_some_and(|until| lane.user.rq.is_through(until)) {
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
        let is_lane = |lane: &&CqLane| lane.user.num == user.num;
        // The lane still brings those before its end; it has none that was told of as long as it has no end.
        if self
            .lane
            .as_ref()
            .filter(is_lane)
            .is_some_and(|lane| lane.until.is_none_or(|until| what.is_before(until)))
        {
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
        let Some(QueuedSend { own, .. }) = self.own.pop_front() else { return false };
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
fn completion(taken: &TakenRecv, lid: u16) -> ibv_wc {
    let TakenRecv { wr_id, done, placed } = taken;
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
    fn received(&self, taken: &TakenRecv, to: &mut ibv_wc) -> bool {
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

impl CqRings {
    /// The rings, the oldest first.
    #[inline]
    fn all(&self) -> impl Iterator<Item = &OwnRing> {
        self.older.iter().chain([&self.newest])
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut OwnRing> {
        self.older.iter_mut().chain([&mut self.newest])
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

    /// Where it is, and the position of its next completion.
    pub(super) fn front(&self) -> (RingPlace, u64) {
        (self.place, self.head)
    }

    /// Takes its next completion.
    #[inline]
    fn next(&mut self, process: &Process) -> Option<RecvNotice> {
        let ring = self.ring(process)?;
        let what = ring.get(self.head)?;
        self.pass(&ring);
        Some(what)
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
