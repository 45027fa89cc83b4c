//! The requester: the half of a thread that posts the workload's operations.

use super::mailboxes::Mailboxes;
use super::pacing::Pacing;
use super::result::{Accounts, ProgramError, ThreadResult, check};
use super::ring::Ring;
use super::session::{Paths, Remote, Session, makes_sges};
use super::slots::{from_wr_id, wr_id, wrap};
use super::tally::Tally;
use super::thread::Worker;
use doorbell_systems::Measurement;
use doorbell_systems::series::SeriesPoint;
use doorbell_verbs::{
    Cq, Mr, Provider, Qp, QpType, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Span, Time, UdDest, Wc,
};
use doorbell_workload::topology;
use doorbell_workload::{Addresses, AtomicCounters, Buffers, Operation, Pattern, Resolved, Verb, Window};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Largest number of completions of one poll.
const POLL: usize = 16;

/// Upper bound of the random start delay in picoseconds, for threads that drain their windows. Used if the
/// length of the warm-up is not given.
const USUAL_DELAY: u64 = 100_000_000;

/// A QP that the thread may post to.
struct Lane {
    /// Index of the QP among the thread's QPs.
    qp: usize,
    /// Index of the ring for the operations of this QP.
    ring: usize,
    /// The peer's memory for one-sided verbs over RC and UC.
    remote: Remote,
}

/// The requesting half of a thread. Keeps the window full, or posts when operations are due.
pub(super) struct Requester<'a, P: Provider> {
    worker: &'a Worker,
    w: &'a Resolved,
    cpu: &'a P,
    qps: &'a [Qp<P>],
    /// One CQ, or one for each QP.
    cqs: &'a [Cq<P>],
    lanes: Vec<Lane>,
    dests: &'a [Vec<UdDest>],
    /// One ring for all QPs, if the QPs share a window and each operation is signalled. Otherwise one ring
    /// per QP.
    rings: Vec<Ring>,
    /// Bytes of payload of all posted operations.
    posted_bytes: u64,
    /// Number of operations outstanding on all QPs together.
    outstanding: u64,
    /// Largest allowed value of `outstanding`.
    most: u64,
    /// Completions that threads find for each other, and how many of them this thread has taken; `None` if it
    /// shares no CQ.
    shared: Option<(&'a Mailboxes, u64)>,
    kinds: Kinds,
    payload: Payload<'a, P>,
    local: Walk,
    /// Layout of the buffers in the peer's memory.
    buffers: Buffers,
    remote: Walk,
    /// Memory for a list of work requests. Empty between posts.
    list: Vec<SendWr<'a>>,
    /// Memory for the SGEs of a batch, if SGEs are computed for each operation.
    drawn: Vec<Sge>,
    wc: [Wc; POLL],
    random: Xoshiro256PlusPlus,
    /// Whether a window that was full is draining: until it is empty, nothing is posted. Only for workloads
    /// that drain.
    draining: bool,
    /// When operations are due; `None` if they are posted as soon as there is room.
    pacing: Option<Pacing>,
    /// When the next operation is due. [`Time::NEVER`] if there is no room for it.
    wakes: Time,
    /// Index of the lane for the next batch.
    lane: usize,
    /// Index of the destination for the next UD datagram.
    dest: usize,
}

/// Local memory of the posted operations.
enum Payload<'a, P: Provider> {
    /// For each operation kind: the SGEs of all buffers.
    InBuffers(&'a [Vec<Sge>]),
    /// SGEs are computed for each operation.
    Made { region: &'a Mr<P>, buffers: Buffers },
}

impl<'a, P: Provider> Payload<'a, P> {
    fn of(w: &Resolved, session: &'a Session<'a, P>, sges: &'a [Vec<Sge>]) -> Payload<'a, P> {
        match session.send_mr.as_ref().filter(|_| makes_sges(w)) {
            Some(region) => Payload::Made { region, buffers: Buffers::local(w) },
            None => Payload::InBuffers(sges),
        }
    }

    /// Number of SGEs that have to be computed for a batch.
    fn drawn(&self, w: &Resolved) -> usize {
        match self {
            Payload::InBuffers(_) => 0,
            Payload::Made { .. } => w.batch as usize * w.sges() as usize,
        }
    }

    /// The SGEs of an operation of this kind in this buffer. If they are computed, they take memory from
    /// `room`.
    fn sges<'b>(
        &self,
        w: &Resolved,
        (kind, operation): (usize, Operation),
        buffer: usize,
        room: &mut &'b mut [Sge],
    ) -> &'b [Sge]
    where
        'a: 'b,
    {
        let pieces = operation.sges as usize;
        match self {
            Payload::InBuffers(sges) => &sges[kind][buffer * pieces..][..pieces],
            Payload::Made { region, buffers } => {
                let (own, rest) = std::mem::take(room).split_at_mut(pieces);
                *room = rest;
                let places = buffers.pieces(w, operation, buffer as u64);
                own.iter_mut().zip(places).for_each(|(sge, (at, length))| *sge = region.sge(at, length));
                own
            }
        }
    }
}

/// An empty list that reuses the memory of `list`.
fn emptied<'b>(list: Vec<SendWr<'_>>) -> Vec<SendWr<'b>> {
    let mut list = list;
    list.clear();
    list.into_iter().map(|_| unreachable!("it has just been cleared")).collect()
}

/// Operation kinds of the workload, with their weights.
struct Kinds {
    all: Vec<Operation>,
    /// The sum of their weights.
    weight: u64,
    /// Counts and latencies per kind, for a mix.
    tally: Tally,
}

impl Kinds {
    fn of(worker: &Worker) -> Kinds {
        let all = worker.workload.operations().to_vec();
        let weight = all.iter().map(|operation| u64::from(operation.weight)).sum();
        Kinds { all, weight, tally: worker.tally.clone() }
    }

    /// Draws the kind of the next operation; makes no draw if there is only one kind.
    fn draw(&self, random: &mut Xoshiro256PlusPlus) -> usize {
        if self.all.len() == 1 {
            return 0;
        }
        let mut at = below(random, self.weight);
        let drawn = self.all.iter().position(|operation| match at.checked_sub(operation.weight.into()) {
            Some(rest) => {
                at = rest;
                false
            }
            None => true,
        });
        drawn.expect("a draw is below the sum of all weights")
    }
}

/// Selection of a buffer for each operation.
enum Walk {
    /// The number of the operation's slot, modulo this number of buffers.
    OfSlot(usize),
    /// One buffer after the other.
    InTurn { count: usize, next: usize },
    /// A random one of this many buffers.
    AtRandom(usize),
}

impl Walk {
    /// Selection among `count` buffers. `order` is the order in a region; `None` without a region.
    fn over(count: u64, order: Option<Addresses>) -> Walk {
        let count = count as usize;
        match order {
            None => Walk::OfSlot(count),
            Some(Addresses::Sequential) => Walk::InTurn { count, next: 0 },
            Some(Addresses::Random | Addresses::AnyByte) => Walk::AtRandom(count),
        }
    }

    /// The buffer of the operation in `slot`.
    fn next(&mut self, slot: usize, random: &mut Xoshiro256PlusPlus) -> usize {
        match self {
            Walk::OfSlot(count) => wrap(slot, *count),
            Walk::InTurn { count, next } => {
                let this = *next;
                *next = wrap(this + 1, *count);
                this
            }
            Walk::AtRandom(count) => below(random, *count as u64) as usize,
        }
    }
}

/// A number below `n`.
fn below(random: &mut Xoshiro256PlusPlus, n: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(n)) >> 64) as u64
}

/// Seed of this thread's random draws, different for each thread.
fn seed(worker: &Worker) -> u64 {
    let thread = u64::from(worker.machine) << 32 | u64::from(worker.thread);
    worker.workload.seed ^ thread.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl<'a, P: Provider> Requester<'a, P> {
    pub(super) fn new(
        worker: &'a Worker,
        cpu: &'a P,
        session: &'a Session<'a, P>,
        paths: &'a Paths<P>,
        sges: &'a [Vec<Sge>],
    ) -> Requester<'a, P> {
        let w = &*worker.workload;
        let window = w.window();
        // If a completion can cover several operations, these are all on one QP, so each QP needs its own
        // ring.
        let own_rings = w.signal_every > 1 || matches!(window, Window::PerQp(_));
        let usable = topology::usable(w, worker.machine, worker.owner_number);
        let targets = topology::targets(w, worker.machine);
        let remote = |k: u32| {
            let peer = || topology::peer(w, worker.machine, worker.owner_number, k);
            let to = (w.transport != QpType::Ud).then(|| peer().machine);
            let index = targets.iter().position(|t| Some(*t) == to);
            index.and_then(|i| paths.remotes.get(i)).copied().unwrap_or_default()
        };
        let lanes: Vec<Lane> = usable
            .iter()
            .enumerate()
            .map(|(i, &k)| Lane { qp: k as usize, ring: if own_rings { i } else { 0 }, remote: remote(k) })
            .collect();
        let rings = if own_rings { lanes.len() } else { 1 };
        let mut requester = Requester {
            worker,
            w,
            cpu,
            qps: &session.qps,
            cqs: &session.send_cqs,
            lanes,
            dests: &paths.dests,
            rings: (0..rings).map(|_| Ring::new(window.operations())).collect(),
            posted_bytes: 0,
            outstanding: 0,
            most: match window {
                Window::PerThread(operations) => operations.into(),
                Window::PerQp(_) => u64::MAX,
            },
            shared: worker.mailboxes.as_ref().map(|mailboxes| (mailboxes, 0)),
            kinds: Kinds::of(worker),
            payload: Payload::of(w, session, sges),
            local: Walk::over(Buffers::local(w).count, w.local_region.map(|_| w.addresses())),
            buffers: Buffers::remote(w),
            remote: Walk::over(Buffers::remote(w).count, w.remote_region.map(|_| w.remote_addresses())),
            list: Vec::with_capacity(w.batch as usize),
            drawn: Vec::new(),
            wc: [Wc::default(); POLL],
            random: Xoshiro256PlusPlus::seed_from_u64(seed(worker)),
            draining: false,
            pacing: None,
            wakes: Time::NEVER,
            lane: 0,
            dest: worker.number as usize,
        };
        let none = Sge { addr: 0, length: 0, lkey: 0 };
        requester.drawn = vec![none; requester.payload.drawn(w)];
        requester.next_lane();
        requester
    }

    /// Starts the thread. A thread that drains its windows starts at a random time within the first half of
    /// the given or usual warm-up. Threads that start together would stay in step, and leave the NIC idle
    /// between their windows.
    pub(super) fn begin(&mut self) {
        if self.w.drain {
            let most = self.w.warmup.map_or(USUAL_DELAY, |warmup| warmup.span().as_ps() / 2);
            let delay = Span::from_ps(self.below(most));
            self.cpu.work(delay);
        }
        self.pacing = Pacing::of(self.worker, self.cpu.now());
    }

    /// When the requester must run again even if no completion arrives.
    pub(super) fn wakes(&self) -> Time {
        self.wakes
    }

    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        below(&mut self.random, n)
    }

    /// Chooses the QP of the next batch: at random for all-to-all, else in turn.
    fn next_lane(&mut self) {
        self.lane = match self.w.pattern {
            Pattern::AllToAll => self.below(self.lanes.len() as u64) as usize,
            Pattern::Outbound | Pattern::Inbound => wrap(self.lane + 1, self.lanes.len()),
        };
    }

    /// Chooses the destination of a datagram through `qp`: at random for all-to-all, else in turn.
    fn next_dest(&mut self, qp: usize) -> Option<UdDest> {
        let all: &'a [UdDest] = self.dests.get(qp).filter(|all| !all.is_empty())?;
        self.dest = match self.w.pattern {
            Pattern::AllToAll => self.below(all.len() as u64) as usize,
            Pattern::Outbound | Pattern::Inbound => wrap(self.dest + 1, all.len()),
        };
        Some(all[self.dest])
    }

    fn op(&mut self, verb: Verb, remote: &Remote, slot: usize) -> SendOp {
        match verb {
            Verb::Send if self.w.header_only => SendOp::SendWithImm(slot as u32),
            Verb::Send => SendOp::Send,
            Verb::Write => SendOp::Write(self.buffer(remote.buffers, slot)),
            Verb::Read => SendOp::Read(self.buffer(remote.buffers, slot)),
            Verb::FetchAdd => SendOp::FetchAdd { remote: self.counter(remote.counters), add: 1 },
            Verb::CompareSwap => {
                SendOp::CompareSwap { remote: self.counter(remote.counters), compare: 0, swap: 0 }
            }
        }
    }

    /// The buffer of the peer at `remote` for the operation in this slot.
    fn buffer(&mut self, remote: RemoteAddr, slot: usize) -> RemoteAddr {
        remote.at(self.buffers.at(self.remote.next(slot, &mut self.random) as u64))
    }

    /// A random one of the counters at `remote`.
    fn counter(&mut self, remote: RemoteAddr) -> RemoteAddr {
        let AtomicCounters { count, stride } = self.w.counters.expect("a workload with atomics has counters");
        remote.at(self.below(count.into()) * u64::from(stride))
    }

    /// Posts a batch to the QP of the current lane, with one doorbell.
    fn post(&mut self) -> Result<(), ProgramError> {
        let Lane { qp, ring, remote } = self.lanes[self.lane];
        let named = if self.shared.is_some() { self.worker.thread as usize } else { ring };
        self.cpu.work(self.worker.own_work * u64::from(self.w.batch));
        let now = self.cpu.now();
        self.outstanding += u64::from(self.w.batch);
        let mut list = emptied(std::mem::take(&mut self.list));
        let mut drawn = std::mem::take(&mut self.drawn);
        let mut room = &mut drawn[..];
        for _ in 0..self.w.batch {
            let number = self.rings[ring].posted();
            let kind = self.kinds.draw(&mut self.random);
            let operation = self.kinds.all[kind];
            let Operation { verb, size, inline, .. } = operation;
            let since = self.pacing.as_mut().map_or(now, |pacing| pacing.begin(now));
            let slot = self.rings[ring].push(since, kind, self.lane);
            self.posted_bytes += u64::from(size);
            let buffer = self.local.next(slot, &mut self.random);
            let sges = self.payload.sges(self.w, (kind, operation), buffer, &mut room);
            let op = self.op(verb, &remote, slot);
            let mut wr = SendWr::new(wr_id(named, slot), op, if size == 0 { &[] } else { sges });
            wr.dest = self.next_dest(qp);
            if self.signals(number) {
                wr = wr.flags(SendFlags::SIGNALED);
            }
            if inline {
                wr = wr.flags(SendFlags::INLINE);
            }
            list.push(wr);
        }
        let posted = self.qps[qp].post_send(&list);
        (self.list, self.drawn) = (emptied(list), drawn);
        Ok(posted?)
    }

    /// Whether operation `number` of its ring is signalled. In a window that drains, only the last operation
    /// on each QP is signalled.
    fn signals(&self, number: u64) -> bool {
        match self.w.drain {
            true => {
                let window = u64::from(self.w.window().operations());
                number % window + self.lanes.len() as u64 >= window
            }
            false if self.w.signal_every == 1 => true,
            false => (number + 1).is_multiple_of(self.w.signal_every.into()),
        }
    }

    /// Whether the current lane may post another batch.
    fn may_post(&mut self) -> bool {
        let ring = &self.rings[self.lanes[self.lane].ring];
        let of_thread = self.most - self.outstanding >= self.w.batch.into();
        let room = of_thread && ring.has_room(self.w.batch);
        if self.w.drain {
            self.draining = if self.draining { !ring.is_empty() } else { !room };
        }
        let ready = room && !self.draining;
        let Some(pacing) = &mut self.pacing else { return ready };
        let due = ready && pacing.is_due(self.cpu.now());
        self.wakes = if ready { pacing.next() } else { Time::NEVER };
        due
    }

    /// Makes one pass of the poll loop. Returns whether it did anything.
    pub(super) fn pass(
        &mut self,
        measurement: &Measurement,
        result: &mut ThreadResult,
    ) -> Result<bool, ProgramError> {
        if self.may_post() {
            self.post()?;
            self.next_lane();
            return Ok(true);
        }
        let mut any = self.take_given(measurement, result);
        // A thread without operations of its own leaves the polls of a shared CQ to the others.
        if self.shared.is_some() && self.outstanding == 0 {
            return Ok(any);
        }
        if !self.w.cq_per_qp {
            any |= self.poll(0, POLL, measurement, result)?;
        } else if let [ring] = &self.rings[..] {
            // Polls only the CQ of the oldest operation, because only its completion frees a slot of the
            // ring.
            if let Some(lane) = ring.oldest() {
                any = self.poll(self.lanes[lane].qp, 1, measurement, result)?;
            }
        } else {
            for lane in 0..self.lanes.len() {
                any |= self.poll(self.lanes[lane].qp, POLL, measurement, result)?;
            }
        }
        Ok(any)
    }

    /// Polls a CQ for at most `most` completions. Returns whether there were any.
    fn poll(
        &mut self,
        cq: usize,
        most: usize,
        measurement: &Measurement,
        result: &mut ThreadResult,
    ) -> Result<bool, ProgramError> {
        let found = self.cqs[cq].poll(&mut self.wc[..most])?.len();
        if found > 0 {
            let now = self.cpu.now();
            for i in 0..found {
                let wc = self.wc[i];
                check(&wc)?;
                let (named, slot) = from_wr_id(wc.wr_id);
                match self.shared {
                    Some((mailboxes, _)) if named != self.worker.thread as usize => {
                        mailboxes.give(self.cpu, named as u32, slot);
                    }
                    Some(_) => self.take((0, slot), now, measurement, result),
                    None => self.take((named, slot), now, measurement, result),
                }
            }
        }
        Ok(found > 0)
    }

    /// Takes the completions that other threads have found for this one. Returns whether there were any.
    fn take_given(&mut self, measurement: &Measurement, result: &mut ThreadResult) -> bool {
        let Some((mailboxes, taken)) = self.shared else { return false };
        let given = mailboxes.given(self.cpu, self.worker.thread);
        let now = self.cpu.now();
        for _ in taken..given {
            let slot = mailboxes.take(self.worker.thread);
            self.take((0, slot), now, measurement, result);
        }
        self.shared = Some((mailboxes, given));
        given > taken
    }

    /// Notes the completion of the operation in a slot of a ring.
    fn take(
        &mut self,
        (ring, slot): (usize, usize),
        now: Time,
        measurement: &Measurement,
        result: &mut ThreadResult,
    ) {
        let ring = &mut self.rings[ring];
        let posted = ring.posted_at(slot);
        let (latency, kind) = (now - posted, ring.kind_of(slot));
        // `counts` leaves out SENDs, because they count at their receivers.
        let (mut completed, mut counts, mut bytes) = (0, 0, 0);
        let mut one = |ring: &Ring, slot: usize| {
            let kind = ring.kind_of(slot);
            completed += 1;
            bytes += u64::from(self.kinds.all[kind].size);
            if !self.kinds.all[kind].verb.consumes_recv() {
                counts += 1;
                self.kinds.tally.completed(kind, now, measurement);
            }
        };
        match self.w.signal_every {
            _ if self.w.drain => {
                // This completion also covers the earlier operations of the window on this QP.
                for slot in (0..=slot).rev().step_by(self.lanes.len()) {
                    one(ring, slot);
                    ring.complete(slot);
                }
            }
            1 => {
                one(ring, slot);
                ring.complete(slot);
            }
            _ => {
                ring.through(slot).for_each(|slot| one(ring, slot));
                ring.complete_through(slot);
            }
        }
        self.outstanding -= completed;
        if let Some(pacing) = &mut self.pacing {
            pacing.ended(now, completed, self.outstanding);
        }
        result.accounts.completed += completed;
        result.accounts.completed_bytes += bytes;
        result.accounts.under_way += u128::from(measurement.overlap(posted, now).as_ps());
        let since = (self.w.signal_every > 1).then(|| ring.completed_at(now));
        measurement.saw(SeriesPoint { at: now, completed: counts, since, latency: Some(latency) });
        self.kinds.tally.took(kind, now, latency, measurement);
        if measurement.contains(now) {
            result.completed += counts;
        }
    }

    /// Adds posted and outstanding operations to the accounts, at the end of the run.
    pub(super) fn account(&self, measurement: &Measurement, accounts: &mut Accounts) {
        accounts.posted_bytes = self.posted_bytes;
        for ring in &self.rings {
            accounts.posted += ring.posted();
            accounts.outstanding += ring.outstanding();
            let signalled = ring.under_way().filter(|(number, _)| self.signals(*number));
            let times = signalled.map(|(_, posted)| measurement.overlap(posted, measurement.end()));
            accounts.under_way += times.map(|time| u128::from(time.as_ps())).sum::<u128>();
        }
    }
}
