//! The part of a CQ that its lock protects: the private queue, the rings, the lane, and the receive queues
//! with the completions of RECVs. [`super`] defines these terms.

use crate::counts;
use crate::device;
use crate::errno::{ENOMEM, Errno};
use crate::fabric::process::{HeldNumber, Process};
use crate::memory::records::*;
use crate::point::{Point, reach};
use crate::queues::errors::{Said, say_of_responder};
use crate::queues::recv_queue::{RecvQueue, TakenRecv};
use crate::queues::send_progress::SendProgress;
use crate::rings::completions::{CompletionRing, RecvNotice, RingPlace};
use crate::rings::recvs::{Receipt, RecvDone, SOLICITED, SlotState, end_lane};
use crate::sync::lock;
use crate::watch::flights::Flights;
use doorbell_abi::{CEnum, IBV_WC_GRH, ibv_wc};
use doorbell_launch::counts::qp::RecvCounter;
use doorbell_verbs::{WcOpcode, WcStatus};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Period with which an idle CQ checks whether a sender exited in the middle of a message.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The part of a QP that its CQs use.
#[derive(Debug)]
pub(crate) struct QpShare {
    pub(crate) process: &'static Process,
    pub(crate) num: u32,
    /// LID of the port. All senders have this LID too.
    pub(crate) lid: u16,
    /// The generation in the QP's record. Relaxed: a reset stores it before it acquires the CQ's lock to
    /// forget completions.
    pub(crate) generation: AtomicU32,
    /// Reserves the QP's number. No other QP gets this number while a CQ has a completion of this QP.
    pub(crate) number: Arc<HeldNumber>,
    /// Number of the last send work request whose completion was taken. Requests up to this number take no
    /// room in the send queue any more. The number changes under the lock of the send CQ. A post that reads
    /// an old value finds less room than the send queue has.
    pub(crate) freed: AtomicU64,
    pub(crate) progress: SendProgress,
    /// The QP's index among the senders of its send CQ. Set once.
    pub(crate) sender: AtomicU32,
    pub(crate) rq: Arc<RecvQueue>,
    pub(crate) uses_srq: bool,
    /// Whether the reason for the QP's error was already reported.
    pub(crate) said: Said,
    /// The QP's outstanding send work requests; present in strict mode or with a trace.
    pub(crate) flights: Option<Flights>,
    /// The counter of the messages that the QP receives, if they are counted.
    pub(crate) counts: Option<Mutex<RecvCounter>>,
}

/// A completion in the private queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendDone {
    pub(crate) wr_id: u64,
    pub(crate) status: WcStatus,
    /// An `enum ibv_wc_opcode`.
    pub(crate) opcode: u32,
    pub(crate) byte_len: u32,
    pub(crate) qp_num: u32,
    /// The work request's number in its QP, from 1.
    pub(crate) sends: u64,
}

/// A completion in the private queue.
///
/// The completion is entered before the responder can see the request. So the completion precedes everything
/// that the responder sends because of the request. It is *due* when its request is done. The posting thread
/// marks the request as done. If the posting thread is delayed, other threads check by the receipt whether
/// the request is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedSend {
    own: SendDone,
    /// Index of the completion's QP among the CQ's senders.
    sender: u32,
    /// The RECV that the request's message has taken.
    receipt: Option<Receipt>,
    /// The positions up to which RECVs had arrived when this completion was entered.
    before: Arrived,
}

/// The positions up to which completions of RECVs have arrived at a CQ. Both positions only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrived {
    /// Position in the newest ring.
    ring: u64,
    /// Position in the lane's receive queue.
    lane: u64,
}

/// The part of a CQ that its lock protects.
#[derive(Debug)]
pub(super) struct CqState {
    process: &'static Process,
    /// The private queue: the completions of this process's sends.
    own: VecDeque<QueuedSend>,
    /// The completion of a RECV that was taken from its queue. A poll must return it after the completion of
    /// an earlier send.
    held_back: Option<ibv_wc>,
    /// The QPs whose sends or RECVs complete here, by their numbers.
    users: HashMap<u32, Arc<QpShare>, std::hash::BuildHasherDefault<QpnHasher>>,
    /// The QPs whose sends complete here.
    senders: Vec<Option<Arc<QpShare>>>,
    /// Number of QPs and XRC SRQs whose RECVs complete here.
    receivers: u32,
    /// SRQs whose RECVs complete here, each with its number of users. An SRQ's users are its QPs here, or the
    /// SRQ itself with XRC. Without users, an SRQ stays as long as the CQ has completions of it.
    srqs: Vec<(Arc<RecvQueue>, u32)>,
    /// Destroyed QPs with completions here. They stay among `users` and `senders`, and keep their numbers.
    ended: Vec<EndedUser>,
    lane: Option<CqLane>,
    rings: CqRings,
    /// Receive queues whose notices came before the next RECV in order was complete, each with the number of
    /// these notices.
    owing: Vec<(Arc<QpShare>, u64)>,
    /// Notices of SRQ RECVs that were not complete, because the sender was placing the payload.
    unfinished: Vec<(Arc<RecvQueue>, RecvNotice)>,
    looked: Instant,
}

/// A destroyed QP, and whether its RECVs completed here.
#[derive(Clone, Debug)]
struct EndedUser {
    user: Arc<QpShare>,
    receives: bool,
}

/// The rings of a CQ. A resize creates a larger ring. A process that began to notify the CQ before the resize
/// may still put its notice into an older ring.
#[derive(Debug)]
struct CqRings {
    older: Vec<OwnRing>,
    /// The ring that the CQ's record names.
    newest: OwnRing,
}

/// A receive queue that the CQ polls itself, without notices.
#[derive(Clone, Debug)]
struct CqLane {
    user: Arc<QpShare>,
    /// Position of the first RECV that senders announce by a notice; `None` while they announce none.
    until: Option<u64>,
}

/// The queue with the RECV that a notice names.
enum Receiver<'a> {
    Srq(&'a RecvQueue),
    Qp(&'a QpShare),
}

/// One of the CQ's rings. Its place is in private memory, because peers can write to the CQ's record.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnRing {
    place: RingPlace,
    head: u64,
}

/// Hasher for QP numbers, which are their own hash.
#[derive(Default)]
pub(crate) struct QpnHasher(u64);

impl std::hash::Hasher for QpnHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u32(&mut self, qpn: u32) {
        // The lower bits choose a group of the hash table, and the upper bits choose an entry within the
        // group.
        self.0 = u64::from(qpn) | u64::from(qpn) << 57;
    }
}

impl CqState {
    /// Creates the state of a CQ, with a ring of this capacity.
    pub(super) fn new(process: &'static Process, capacity: u32) -> Result<CqState, Errno> {
        let newest = OwnRing::new(process, capacity)?;
        Ok(CqState {
            process,
            own: VecDeque::with_capacity(64),
            held_back: None,
            users: HashMap::default(),
            senders: Vec::new(),
            receivers: 0,
            srqs: Vec::new(),
            ended: Vec::new(),
            lane: None,
            rings: CqRings { older: Vec::new(), newest },
            owing: Vec::new(),
            unfinished: Vec::new(),
            looked: Instant::now(),
        })
    }

    /// The ring that the CQ's record names.
    pub(super) fn newest_ring(&self) -> OwnRing {
        self.rings.newest
    }

    /// Whether there may be completions that only the holder of the lock can see.
    pub(super) fn has_waiting(&self) -> bool {
        !self.own.is_empty()
            || self.held_back.is_some()
            || !self.owing.is_empty()
            || !self.ended.is_empty()
            || !self.unfinished.is_empty()
            || !self.rings.older.is_empty()
            || self.lane.as_ref().is_some_and(|lane| lane.user.rq.has_late())
    }

    /// The slot of the lane's next RECV, and the slot's state while the RECV is posted.
    #[inline]
    pub(super) fn next_of_lane(&self) -> Option<(&'static RqSlot, SlotState)> {
        self.lane.as_ref()?.user.rq.next_slot()
    }

    /// Adds a QP whose sends complete here.
    pub(super) fn add_sender(&mut self, user: &Arc<QpShare>) {
        self.sweep(false);
        self.users.insert(user.num, user.clone());
        let free = self.senders.iter().position(Option::is_none).unwrap_or(self.senders.len());
        self.senders.resize(self.senders.len().max(free + 1), None);
        self.senders[free] = Some(user.clone());
        // Relaxed: the QP enters no completion before it is created, which is after this store.
        user.sender.store(free as u32, Relaxed);
    }

    /// Adds a QP whose RECVs complete here. The QP's record then says whether its receive queue is the CQ's
    /// lane.
    pub(super) fn add_receiver(&mut self, user: &Arc<QpShare>, record: &QpRecord) {
        self.users.insert(user.num, user.clone());
        self.receivers += 1;
        if user.uses_srq {
            match self.srqs.iter_mut().find(|(srq, _)| Arc::ptr_eq(srq, &user.rq)) {
                Some((_, users)) => *users += 1,
                None => self.srqs.push((user.rq.clone(), 1)),
            }
        }
        self.sweep(false);
        // A poll checks the lane before the ring. While a ring may hold older completions of a destroyed QP,
        // the completions of a lane would precede them. So a new QP then gets no lane.
        let alone = self.receivers == 1 && !user.uses_srq && self.ended.is_empty();
        if alone {
            self.lane = Some(CqLane { user: user.clone(), until: None });
        } else {
            self.end_lane();
        }
        // SeqCst, as in `end_lane`: a sender that claims a RECV loads `lane` after the claim.
        record.lane.store(alone.into(), SeqCst);
    }

    /// Adds an XRC SRQ whose RECVs complete here, whichever QPs take them.
    pub(super) fn add_srq(&mut self, srq: &Arc<RecvQueue>) {
        self.sweep(false);
        self.receivers += 1;
        self.srqs.push((srq.clone(), 1));
        self.end_lane();
    }

    /// Removes an XRC SRQ, because it is destroyed.
    pub(super) fn end_srq(&mut self, srq: &Arc<RecvQueue>) {
        self.receivers -= 1;
        self.drop_use(srq);
    }

    /// Removes one user of an SRQ.
    fn drop_use(&mut self, srq: &Arc<RecvQueue>) {
        let users = self.srqs.iter_mut().filter(|(other, _)| Arc::ptr_eq(other, srq));
        users.for_each(|(_, users)| *users -= 1);
    }

    /// Ends the lane: from now on, senders notify the CQ of the RECVs that they complete.
    fn end_lane(&mut self) {
        let Some(lane) = self.lane.as_mut().filter(|lane| lane.until.is_none()) else { return };
        if let Some(qp) = self.process.segment.qp(self.process.segment.index_of(lane.user.num)) {
            end_lane(qp);
        }
        lane.until = Some(lane.user.rq.first_untaken());
    }

    /// Marks a QP as destroyed. Called once for the CQ of the QP's RECVs (with `receives`) and once for the
    /// CQ of its sends.
    pub(super) fn end_user(&mut self, user: &Arc<QpShare>, receives: bool) {
        if receives {
            self.receivers -= 1;
            self.drop_use(&user.rq);
            if let Some(lane) = self.lane.as_mut().filter(|lane| lane.user.num == user.num) {
                lane.until.get_or_insert(user.rq.tail());
            }
        }
        if let Some(flights) = &user.flights {
            // Writes the results of READs and atomics to the program's memory now, because the program may
            // free this memory before it polls.
            let own = self.own.iter().map(|queued| &queued.own).filter(|own| own.qp_num == user.num);
            own.for_each(|own| flights.polled(own.sends, own.status.to_c(), own.byte_len));
        }
        match self.ended.iter_mut().find(|ended| Arc::ptr_eq(&ended.user, user)) {
            Some(ended) => ended.receives |= receives,
            None => self.ended.push(EndedUser { user: user.clone(), receives }),
        }
    }

    /// Forgets destroyed QPs and SRQs that have no completion here. If `is_overrun` is set, forgets all
    /// destroyed QPs and SRQs, because no completion will be polled.
    #[inline]
    pub(super) fn sweep(&mut self, is_overrun: bool) {
        if !self.ended.is_empty() || self.srqs.iter().any(|(_, users)| *users == 0) {
            self.sweep_ended(is_overrun);
        }
    }

    #[cold]
    fn sweep_ended(&mut self, is_overrun: bool) {
        let told = if is_overrun { Vec::new() } else { self.srq_completions() };
        let (stay, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ended)
            .into_iter()
            .partition(|ended| !is_overrun && self.has_completions_of(ended, &told));
        self.ended = stay;
        for EndedUser { user, .. } in gone {
            self.users.remove(&user.num);
            let is_it = |sender: &Option<Arc<QpShare>>| sender.as_ref().is_some_and(|of| of.num == user.num);
            self.senders.iter_mut().filter(|sender| is_it(sender)).for_each(|sender| *sender = None);
            self.owing.retain(|(other, _)| other.num != user.num);
            if self.lane.as_ref().is_some_and(|lane| lane.user.num == user.num) {
                self.lane = None;
            }
        }
        self.srqs.retain(|(srq, users)| *users > 0 || told.iter().any(|(rq, _)| *rq == srq.index));
    }

    /// The SRQ's index and the QP number of each completion of an SRQ.
    fn srq_completions(&self) -> Vec<(u32, u32)> {
        let told = self.notices().filter_map(|what| match self.receiver_of(what)? {
            Receiver::Srq(srq) => Some((srq, what)),
            Receiver::Qp(_) => None,
        });
        let unfinished = self.unfinished.iter().map(|(srq, what)| (&**srq, *what));
        told.chain(unfinished).filter_map(|(srq, what)| Some((srq.index, srq.qpn_told(what)?))).collect()
    }

    /// Whether the CQ has completions of a destroyed QP. `told` has the SRQ's index and the QP number of each
    /// completion of an SRQ.
    fn has_completions_of(&self, ended: &EndedUser, told: &[(u32, u32)]) -> bool {
        let EndedUser { user, receives } = ended;
        let has_recvs = || match user.uses_srq {
            true => told.contains(&(user.rq.index, user.num)),
            false => user.rq.complete() > 0,
        };
        self.own.iter().any(|queued| queued.own.qp_num == user.num)
            || self.held_back.is_some_and(|wc| wc.qp_num == user.num)
            || *receives && has_recvs()
    }

    /// Forgets the completions of a QP, because no poll will take them. If the QP uses an SRQ, frees the
    /// slots of the completions' RECVs.
    pub(super) fn forget(&mut self, user: &QpShare) {
        self.own.retain(|queued| queued.own.qp_num != user.num);
        self.held_back = self.held_back.filter(|wc| wc.qp_num != user.num);
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
            // Frees the cells of forgotten notices, because later completions may need them.
            while ring.get(own.head) == Some(RecvNotice::NOTHING) {
                own.pass(&ring);
            }
        }
    }

    /// Enters a send's completion. Returns `false` if the CQ holds `cqe` completions already. The function is
    /// inlined for the reason given at [`super::Cq::enter`].
    #[inline(always)]
    pub(super) fn enter(&mut self, own: SendDone, sender: u32, receipt: Option<Receipt>, cqe: u64) -> bool {
        let before = self.arrived();
        if !self.has_ample_room(before.ring, cqe) && self.held(cqe) >= cqe {
            return false;
        }
        self.own.push_back(QueuedSend { own, sender, receipt, before });
        true
    }

    /// Whether an upper bound on the number of completions already shows that the CQ has room. `tail` is the
    /// tail of the newest ring.
    #[inline(always)]
    fn has_ample_room(&self, tail: u64, cqe: u64) -> bool {
        let CqRings { older, newest } = &self.rings;
        let lane = match &self.lane {
            Some(lane) => lane.user.rq.outstanding(),
            None => 0,
        };
        older.is_empty() && self.own.len() as u64 + tail.saturating_sub(newest.head) + lane < cqe
    }

    #[inline(always)]
    fn arrived(&self) -> Arrived {
        let ring = match self.rings.newest.ring(self.process) {
            Some(ring) => ring.tail(),
            None => 0,
        };
        let lane = match &self.lane {
            Some(lane) => lane.user.rq.complete_until(),
            None => 0,
        };
        Arrived { ring, lane }
    }

    /// The entered completion of request `number` of a QP. `None` if a poll has already taken the completion,
    /// because its receipt showed that the request is done.
    pub(super) fn entered(&mut self, qp_num: u32, number: u64) -> Option<&mut QueuedSend> {
        self.own.iter_mut().rev().find(|queued| queued.own.qp_num == qp_num && queued.own.sends == number)
    }

    /// Removes the completions of a QP's requests from `number` on.
    pub(super) fn take_back(&mut self, qp_num: u32, number: u64) {
        self.own.retain(|queued| queued.own.qp_num != qp_num || queued.own.sends < number);
    }

    /// Moves the completions of a QP's requests from `number` on behind the completions of RECVs that have
    /// arrived after these completions were entered. Returns whether any RECV has arrived.
    pub(super) fn move_back(&mut self, qp_num: u32, number: u64) -> bool {
        let now = self.arrived();
        let is_meant = |queued: &QueuedSend| queued.own.qp_num == qp_num && queued.own.sends >= number;
        if self.own.iter().filter(|queued| is_meant(queued)).all(|queued| queued.before == now) {
            return false;
        }
        let moved: Vec<QueuedSend> = self.own.iter().copied().filter(is_meant).collect();
        // The positions in `before` grow from entry to entry, so the moved completions become the last
        // entries.
        self.own.retain(|queued| !is_meant(queued));
        self.own.extend(moved.into_iter().map(|queued| QueuedSend { before: now, ..queued }));
        true
    }

    /// The first completion of the private queue whose request is done.
    #[inline(always)]
    fn first_due(&self) -> Option<usize> {
        match self.is_due(self.own.front()?) {
            true => Some(0),
            false => self.later_due(),
        }
    }

    /// Finds a due completion behind the first completion, whose request another thread is still posting.
    #[cold]
    fn later_due(&self) -> Option<usize> {
        self.own.iter().position(|queued| self.is_due(queued))
    }

    #[inline(always)]
    fn is_due(&self, queued: &QueuedSend) -> bool {
        match self.sender(queued) {
            Some(sender) => sender.progress.is_done(queued.own.sends, queued.receipt, self.process),
            None => true,
        }
    }

    /// The QP of a completion.
    #[inline(always)]
    fn sender(&self, queued: &QueuedSend) -> Option<&QpShare> {
        self.senders.get(queued.sender as usize)?.as_deref()
    }

    /// Whether a poll would find a completion. If `solicited` is set, only solicited completions and errors
    /// count.
    pub(super) fn holds(&self, solicited: bool) -> bool {
        let wanted = |done: &RecvDone| !solicited || done.wakes();
        let is_wanted = |queued: &QueuedSend| !solicited || queued.own.status != WcStatus::Success;
        let is_of_lane = |user: &QpShare| self.lane.as_ref().is_some_and(|lane| lane.user.num == user.num);
        self.held_back.is_some()
            || self.own.iter().any(|queued| is_wanted(queued) && self.is_due(queued))
            || self.lane.as_ref().is_some_and(|lane| lane.user.rq.holds_next(wanted))
            || self.owing.iter().any(|(user, _)| user.rq.holds_next(wanted))
            || self.unfinished.iter().any(|(srq, what)| srq.holds_told(*what, wanted))
            || self.notices().any(|what| match self.receiver_of(what) {
                Some(Receiver::Srq(srq)) => srq.holds_told(what, wanted),
                // The lane's own RECVs were checked above.
                Some(Receiver::Qp(user)) => !is_of_lane(user) && user.rq.holds_next(wanted),
                None => false,
            })
    }

    /// The notices in the rings.
    fn notices(&self) -> impl Iterator<Item = RecvNotice> {
        self.rings.all().filter_map(|own| Some((own, own.ring(self.process)?))).flat_map(|(own, ring)| {
            (own.head..own.head + own.place.capacity()).map_while(move |position| ring.get(position))
        })
    }

    /// The queue with the RECV that a notice names.
    fn receiver_of(&self, what: RecvNotice) -> Option<Receiver<'_>> {
        let rq = what.rq();
        if rq >= QPS as u32 {
            return self.srqs.iter().find(|(srq, _)| srq.index == rq).map(|(srq, _)| Receiver::Srq(srq));
        }
        let user = self.users.get(&self.process.qp_num(rq)).filter(|user| !user.uses_srq);
        user.map(|user| Receiver::Qp(user))
    }

    /// Number of completions in a CQ that holds at most `cqe`. If a cheap upper bound is below `cqe`, returns
    /// the upper bound instead of the exact number.
    #[cold]
    pub(super) fn held(&self, cqe: u64) -> u64 {
        let len = |own: &OwnRing| own.ring(self.process).map_or(0, |ring| ring.len(own.head));
        let others = self.own.len() as u64 + self.rings.all().map(len).sum::<u64>();
        let lane = self.lane.as_ref().map_or(0, |lane| {
            // An upper bound usually shows already that the CQ has room.
            let most = lane.user.rq.outstanding();
            if others + most < cqe { most } else { lane.user.rq.complete() }
        });
        others + lane
    }

    /// Takes the oldest completion into `to`, as far as the CQ knows the order. Returns `false` if the CQ has
    /// no completion.
    #[inline(always)]
    pub(super) fn take(&mut self, to: &mut ibv_wc) -> bool {
        loop {
            let due = self.first_due();
            if self.held_back.is_some() {
                return self.take_held_back(due, to);
            }
            reach(Point::SendsSought);
            let before = due.map(|nth| self.own[nth].before);
            if self.take_from_lane(before.map(|arrived| arrived.lane), to) || self.take_owed(to) {
                return self.give_recv(due, to);
            }
            match self.next_told(before.map(|arrived| arrived.ring)) {
                Some(what) => {
                    if self.take_told(what, to) {
                        return self.give_recv(due, to);
                    }
                }
                None => return due.is_some_and(|nth| self.take_own(nth, to)),
            }
        }
    }

    /// Returns the completion of a RECV, which was just taken into `to`. If a send's completion has become
    /// due meanwhile, holds the RECV's completion back and returns the send's completion. The reason is that
    /// the peer may have sent the RECV's message because of that send.
    #[inline(always)]
    fn give_recv(&mut self, due: Option<usize>, to: &mut ibv_wc) -> bool {
        if due.is_none()
            && !self.own.is_empty()
            && let Some(nth) = self.first_due()
        {
            self.held_back = Some(*to);
            return self.take_due(nth, to);
        }
        true
    }

    /// Takes the completion of a send that is due, or else the held-back completion of a RECV.
    #[cold]
    fn take_held_back(&mut self, due: Option<usize>, to: &mut ibv_wc) -> bool {
        match (due, self.held_back) {
            (Some(nth), _) => self.take_due(nth, to),
            (None, Some(wc)) => {
                (*to, self.held_back) = (wc, None);
                true
            }
            (None, None) => false,
        }
    }

    #[cold]
    fn take_due(&mut self, nth: usize, to: &mut ibv_wc) -> bool {
        self.take_own(nth, to)
    }

    /// Takes the next notice. From the newest ring, takes only a notice before position `before`.
    #[inline(always)]
    fn next_told(&mut self, before: Option<u64>) -> Option<RecvNotice> {
        let CqRings { older, newest } = &mut self.rings;
        if let Some(what) = older.iter_mut().find_map(|own| own.next(self.process)) {
            return Some(what);
        }
        if before.is_some_and(|before| newest.head >= before) { None } else { newest.next(self.process) }
    }

    /// Creates a new ring if the newest one is smaller than `capacity`. `show` stores the new ring's place in
    /// the record.
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

    /// The receive queues of the CQ's QPs, and its XRC SRQs, to be checked for exited senders. Empty if less
    /// than [`LOOK_EVERY`] has passed since the last check.
    pub(super) fn queues_to_look_after(&mut self) -> Vec<Arc<RecvQueue>> {
        if self.looked.elapsed() < LOOK_EVERY {
            return Vec::new();
        }
        self.looked = Instant::now();
        let named = self.srqs.iter().map(|(srq, _)| srq).filter(|srq| srq.is_named());
        self.users.values().map(|user| &user.rq).chain(named).cloned().collect()
    }

    /// Frees the rings, because the CQ is destroyed.
    pub(super) fn free_rings(&self) {
        for own in self.rings.all() {
            self.process.heap.free(own.place.at(), RingPlace::bytes(own.place.capacity() as u32));
        }
    }

    /// Takes a completion of the lane. If `before` is given, takes only a RECV before that position.
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

    /// Takes a completion whose notice came too early. At that time, the RECV itself or an earlier RECV of
    /// the queue was not complete.
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
        !self.unfinished.is_empty() && self.take_finished(to)
    }

    /// Takes the completion of an SRQ's RECV, if the RECV was not complete when its notice came and is
    /// complete now.
    #[cold]
    fn take_finished(&mut self, to: &mut ibv_wc) -> bool {
        for n in 0..self.unfinished.len() {
            let (srq, what) = &self.unfinished[n];
            let (taken, is_named) = (srq.take_told(*what), srq.is_named());
            if taken.is_some() || !srq.is_unfinished(*what) {
                self.unfinished.swap_remove(n);
                return taken.is_some_and(|taken| self.give_of_srq(is_named, &taken, to));
            }
        }
        false
    }

    /// Writes the completion of an SRQ's RECV to `to`; `false` if its QP no longer exists.
    #[inline]
    fn give_of_srq(&self, is_named: bool, taken: &TakenRecv, to: &mut ibv_wc) -> bool {
        if !is_named {
            return self.users.get(&taken.done.qpn).is_some_and(|user| user.received(taken, to));
        }
        *to = completion(taken, device::lid());
        let is_write = to.opcode == WcOpcode::RecvWriteWithImm.to_c();
        counts::srq_received(to.byte_len, is_write);
        true
    }

    /// Takes the completion that a notice names. Returns `false` in three cases: the completion's QP no
    /// longer exists, the queue has no such RECV, or the next RECV of the queue is not complete yet.
    fn take_told(&mut self, what: RecvNotice, to: &mut ibv_wc) -> bool {
        let rq = what.rq();
        if rq >= QPS as u32 {
            let Some((srq, _)) = self.srqs.iter().find(|(srq, _)| srq.index == rq) else { return false };
            return match srq.take_told(what) {
                Some(taken) => self.give_of_srq(srq.is_named(), &taken, to),
                None => {
                    if srq.is_unfinished(what) {
                        let srq = srq.clone();
                        self.unfinished.push((srq, what));
                    }
                    false
                }
            };
        }
        let user = self.users.get(&self.process.qp_num(rq)).filter(|user| !user.uses_srq);
        let Some(user) = user else { return false };
        let is_lane = |lane: &&CqLane| lane.user.num == user.num;
        // The lane itself delivers the RECVs before `until`. While `until` is `None`, senders announce no
        // RECV of the lane.
        if self
            .lane
            .as_ref()
            .filter(is_lane)
            .is_some_and(|lane| lane.until.is_none_or(|until| what.is_before(until)))
        {
            return false;
        }
        // Takes one completion for each notice, whichever RECV the notice names. If polls took more
        // completions, the ring would still hold the notices of these completions. The ring has no room for
        // such notices.
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

    /// Takes a completion of the private queue.
    #[inline(always)]
    fn take_own(&mut self, nth: usize, to: &mut ibv_wc) -> bool {
        let queued = if nth == 0 { self.own.pop_front() } else { self.remove_own(nth) };
        let Some(queued) = queued else { return false };
        let own = queued.own;
        let status = own.status.to_c();
        if let Some(user) = self.sender(&queued) {
            // A plain load and store suffice. Only the holder of the CQ's lock, or a thread that has made
            // sure that no completion is left, changes `freed`. An atomic read-modify-write would wait until
            // the stores of the last message have reached the peer.
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

impl CqState {
    #[cold]
    fn remove_own(&mut self, nth: usize) -> Option<QueuedSend> {
        self.own.remove(nth)
    }
}

/// The completion of a RECV. `lid` is the LID of the sender's port. It is 0 on Ethernet, where each message
/// has a global route header.
#[inline(always)]
fn completion(taken: &TakenRecv, lid: u16) -> ibv_wc {
    let TakenRecv { wr_id, done, placed } = taken;
    let status = if *placed { done.status.into() } else { WcStatus::LocProtErr.to_c() };
    let route = if lid == 0 { IBV_WC_GRH } else { 0 };
    ibv_wc {
        wr_id: *wr_id,
        status,
        opcode: done.opcode.into(),
        byte_len: done.byte_len,
        imm_data: done.imm,
        qp_num: done.qpn,
        src_qp: done.src_qp,
        wc_flags: u32::from(done.flags & !SOLICITED) | route,
        slid: lid,
        sl: done.sl,
        ..ibv_wc::default()
    }
}

impl Drop for QpShare {
    /// Changes the generation, because the QP is destroyed and no CQ has a completion of the QP. SRQs detect
    /// lost completions by the generation.
    fn drop(&mut self) {
        if let Some(record) = self.process.segment.qp(self.number.number as usize) {
            // Relaxed: an SRQ that loads the old generation finds the lost completion later. The next QP
            // gets the number under a lock, after this change.
            record.generation.fetch_add(1, Relaxed);
        }
    }
}

impl QueuedSend {
    /// Sets the result of the request.
    pub(super) fn set_status(&mut self, status: WcStatus) {
        self.own.status = status;
    }

    /// Sets the RECV that the message has taken.
    pub(super) fn set_receipt(&mut self, receipt: Receipt) {
        self.receipt = Some(receipt);
    }
}

impl QpShare {
    /// Writes the completion of a RECV to `to`; `false` if the completion belongs to an earlier life of the
    /// QP.
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

    /// Reports why the QP is in Err, after a RECV has failed. A peer's request may have put the QP into Err.
    #[cold]
    fn look_at_error(&self) {
        say_of_responder(self.process, self.num, &self.said);
    }

    /// Whether a notice names one of this QP's RECVs. If it is a RECV of an SRQ, this call frees the RECV's
    /// slot.
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
        // A counter: it orders nothing.
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let at = process.heap.alloc(RingPlace::bytes(capacity)).ok_or(ENOMEM)?;
        let place = RingPlace::new(at, capacity);
        let ring =
            CompletionRing::begin(process.segment, place, NUMBER.fetch_add(1, Relaxed)).ok_or(ENOMEM)?;
        Ok(OwnRing { place, head: ring.head() })
    }

    /// The ring's place, and the position of its next completion.
    pub(super) fn front(&self) -> (RingPlace, u64) {
        (self.place, self.head)
    }

    /// Takes the ring's next notice.
    #[inline]
    fn next(&mut self, process: &Process) -> Option<RecvNotice> {
        let ring = self.ring(process)?;
        let what = ring.get(self.head)?;
        self.pass(&ring);
        Some(what)
    }

    /// Moves the head past a notice that was taken or forgotten, and gives its cell back to producers.
    fn pass(&mut self, ring: &CompletionRing<'_>) {
        self.head += 1;
        ring.pass(self.head);
    }

    fn ring(&self, process: &Process) -> Option<CompletionRing<'static>> {
        CompletionRing::at(process.segment, self.place)
    }
}
