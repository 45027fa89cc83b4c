//! Models of the claim of a RECV. Each RECV is completed once, by a process that sees the RECV as posted. The
//! owner sees the complete result.

use crate::fabric::peer::Owner;
use crate::memory::copy::Piece;
use crate::memory::records::{CqRing, QpRecord, RqRecord, RqSlot, SenderTurn};
use crate::memory::segment::Segment;
use crate::rings::completions::{CompletionRing, RingPlace};
use crate::rings::recvs::{
    Carried, Completer, PlacingStep, Receipt, RecvDone, SlotPhase, SlotState, Slots, begin_taking, end_lane,
    end_taking, flush, order_slot, pass, show_posted, stride,
};
use crate::run::{ModelBounds, check};
use crate::sync::atomics::{AtomicU64, LockedCell, Ordering::*};
use doorbell_verbs::Sge;
use loom::thread;
use std::rc::Rc;

/// Maximum number of RECVs of a model.
const MOST: usize = 4;
const GENERATION: u32 = 1;
const QPN: u32 = 0x100;
/// Offsets of the parts in the segment.
const SLOTS: u64 = 1 << 20;
const TURN: u64 = 1 << 30;
const ORDER: u64 = 2 << 30;
const RING: u64 = 3 << 30;
/// Completions that the CQ has room for.
const CQE: u32 = 4;
/// The payload of a message that its slot carries.
const PAYLOAD: u32 = 7;

/// The number of senders that take RECVs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TakenBy {
    One,
    Several,
}

/// A receive queue in shared memory, and the buffers of its RECVs.
struct SharedRecvs {
    segment: Segment,
    capacity: u32,
    taken_by: TakenBy,
    buffers: [LockedCell<u32>; MOST],
}

impl SharedRecvs {
    fn new(capacity: u32, taken_by: TakenBy) -> SharedRecvs {
        let mut segment = Segment::default();
        for index in 0..u64::from(capacity) {
            segment.put(SLOTS + index * stride(1), RqSlot::default());
            segment.put(ORDER + 8 * index, AtomicU64::new(0));
        }
        segment.put(TURN, SenderTurn::default());
        segment.put(RING, CqRing::default());
        for cell in 0..u64::from(CQE) {
            segment.put(RING + size_of::<CqRing>() as u64 + 8 * cell, AtomicU64::new(0));
        }
        let buffers = std::array::from_fn(|_| LockedCell::new(0));
        let shared = SharedRecvs { segment, capacity, taken_by, buffers };
        shared.begin();
        shared
    }

    /// Publishes the queue and its CQ, as `RecvQueue::begin` and `Cq::new` do.
    fn begin(&self) {
        let rq = self.rq();
        rq.generation.store(GENERATION, Relaxed);
        rq.max_sge.store(1, Relaxed);
        rq.slots.store(SLOTS, Relaxed);
        match self.taken_by {
            TakenBy::One => rq.turn.store(TURN, Relaxed),
            TakenBy::Several => rq.order.store(ORDER, Relaxed),
        }
        self.turn().set_state(SlotState::posted(0, GENERATION));
        rq.capacity.store(self.capacity, Release);
        let cq = self.segment.cq(0).expect("the segment has a CQ");
        let place = RingPlace::new(RING, CQE);
        CompletionRing::begin(&self.segment, place, 1).expect("the ring is in the segment");
        cq.cqe.store(CQE, Relaxed);
        cq.ring.store(place.in_record(), Release);
    }

    fn rq(&self) -> &RqRecord {
        self.segment.rq(0).expect("the segment has a receive queue")
    }

    fn qp(&self) -> &QpRecord {
        self.segment.qp(0).expect("the segment has a QP")
    }

    fn turn(&self) -> &SenderTurn {
        self.segment.in_heap(TURN).expect("the turn is in the segment")
    }

    fn slot(&self, position: u64) -> &RqSlot {
        let index = position & u64::from(self.capacity - 1);
        self.segment.in_heap(SLOTS + index * stride(1)).expect("the slot is in the segment")
    }

    fn completer(&self, claimer: u32) -> Completer<'_> {
        let (segment, qp) = (&self.segment, self.qp());
        Completer { owner: Owner::This, segment, qp, qpn: QPN, srq: None, claimer }
    }

    fn buffer(position: u64) -> Sge {
        Sge { addr: position, length: 64, lkey: 7 }
    }

    /// Posts the RECV at a position, as `RecvQueue::offer` does. Called by the owner.
    fn post(&self, position: u64) {
        let queue = (&self.segment, self.rq());
        show_posted(queue, self.slot(position), (position, GENERATION), &[SharedRecvs::buffer(position)]);
        if self.taken_by == TakenBy::Several {
            let index = position & u64::from(self.capacity - 1);
            let cell = self.segment.in_heap(ORDER + 8 * index).expect("the cell is in the segment");
            order_slot(cell, position, index as u32);
        }
    }

    /// Completes the oldest RECV with a payload that its slot carries, as the engine does. Called by a
    /// sender.
    fn send_carried(&self, claimer: u32) -> Option<Receipt> {
        let slots = Slots::of(&self.segment, self.rq())?;
        let front = slots.front(GENERATION).ok()?;
        let completer = self.completer(claimer);
        let claim = front.claim(&completer)?;
        let receipt = completer.receipt(&claim);
        let payload = PAYLOAD.to_ne_bytes();
        let mut carried = Carried::none();
        carried.gather(&[], &[Piece { addr: payload.as_ptr() as u64, len: payload.len() }]);
        let done = RecvDone { byte_len: PAYLOAD, ..RecvDone::of_send(QPN, 0) };
        assert!(completer.complete(&claim, done, &carried), "the CQ has room");
        Some(receipt)
    }

    /// Places the payload of a message in its buffer, as the engine does. Called by its sender.
    fn place(&self, receipt: Receipt, claimer: u32) {
        if let PlacingStep::Begun(placing) = receipt.begin_placing(&self.segment, claimer) {
            assert_eq!(placing.payload().0.byte_len, PAYLOAD);
            self.copy_payload(0);
            placing.end(true);
        }
    }

    /// Copies the payload of the RECV at a position to its buffer.
    fn copy_payload(&self, position: u64) {
        // SAFETY: one side at a time copies. The model checks this.
        let buffer = unsafe { self.buffers[position as usize].get_mut() };
        assert_eq!(*buffer, 0, "the payload is copied once");
        *buffer = PAYLOAD;
    }

    /// Takes the completion of the RECV at a position and places its payload, as `RecvQueue::take` does.
    /// `None` if the RECV is not complete. Called by the owner.
    fn take_carried(&self, position: u64) -> Option<()> {
        let (slot, posted) = (self.slot(position), SlotState::posted(position, GENERATION));
        if slot.state().phase_of(posted) != Some(SlotPhase::Done) {
            return None;
        }
        let is_announced = RecvDone::carried_in(slot) > 0;
        if is_announced && !begin_taking(self.rq(), slot, posted) {
            return None;
        }
        if RecvDone::of(slot).carried > 0 {
            self.copy_payload(position);
        }
        match self.taken_by {
            TakenBy::One => pass(self.rq(), position),
            TakenBy::Several => slot.set_taken(posted),
        }
        if is_announced {
            end_taking(self.rq(), posted);
        }
        Some(())
    }

    /// Uses the buffer of a RECV whose completion was taken, as the program does.
    fn use_buffer(&self, position: u64) {
        // SAFETY: the RECV is complete, so only its owner uses the buffer. The model checks this.
        let buffer = unsafe { self.buffers[position as usize].get_mut() };
        assert_eq!(*buffer, PAYLOAD, "the payload is in the buffer");
        *buffer = 1;
    }

    /// Fills the oldest RECV, as the engine does, and returns the RECV's position. Called by a sender.
    fn send(&self, claimer: u32) -> Option<u64> {
        let slots = Slots::of(&self.segment, self.rq())?;
        let front = slots.front(GENERATION).ok()?;
        let (position, buffer) = (front.position, front.sge(0)?);
        let completer = self.completer(claimer);
        let claim = front.claim(&completer)?;
        assert_eq!(
            buffer,
            SharedRecvs::buffer(position),
            "a successful claim has the buffer of a posted RECV"
        );
        // SAFETY: this sender has claimed the RECV.
        unsafe { *self.buffers[position as usize].get_mut() = claimer };
        let done = RecvDone { byte_len: claimer, ..RecvDone::of_send(QPN, 0) };
        assert!(completer.complete(&claim, done, &Carried::none()), "the CQ has room");
        Some(position)
    }

    /// Takes the completion of the RECV at a position, as `RecvQueue::take_next` does. `None` if the RECV is
    /// not complete. Called by the owner.
    fn take(&self, position: u64) -> Option<RecvDone> {
        let slot = self.slot(position);
        let posted = SlotState::posted(position, GENERATION);
        (slot.state().phase_of(posted) == Some(SlotPhase::Done)).then(|| {
            let done = RecvDone::of(slot);
            // SAFETY: the sender has completed the RECV.
            let written = unsafe { *self.buffers[position as usize].get() };
            assert_eq!(written, if done.status == 0 { done.byte_len } else { 0 });
            done
        })
    }

    /// The positions in the CQ's notices. Called after all threads have ended.
    fn told(&self) -> Vec<u64> {
        let ring =
            CompletionRing::at(&self.segment, RingPlace::new(RING, CQE)).expect("the ring is in the segment");
        let notices = (ring.head()..).map_while(|at| ring.get(at));
        notices
            .map(|notice| {
                (0..).find(|position| notice.is_at(*position)).expect("each notice belongs to a RECV")
            })
            .collect()
    }
}

/// Starts a thread that runs `run` with the queue.
fn with<T: 'static>(
    shared: &Rc<SharedRecvs>,
    run: impl FnOnce(&SharedRecvs) -> T + 'static,
) -> thread::JoinHandle<T> {
    let shared = shared.clone();
    thread::spawn(move || run(&shared))
}

fn join<T>(thread: thread::JoinHandle<T>) -> T {
    thread.join().expect("a thread of a model does not panic")
}

/// The only sender fills RECVs. The owner posts each slot again as soon as the owner has the completion.
pub fn one_sender() -> u64 {
    check("one sender", ModelBounds { preemptions: None }, || {
        let shared = Rc::new(SharedRecvs::new(1, TakenBy::One));
        shared.qp().lane.store(1, SeqCst);
        shared.post(0);
        let sender = with(&shared, |shared| [shared.send(1), shared.send(1)].into_iter().flatten().count());
        let early = shared.take(0).is_some();
        if early {
            shared.post(1);
        }
        let sent = join(sender);
        let late = shared.take(u64::from(early)).is_some();
        assert_eq!(usize::from(early) + usize::from(late), sent);
    })
}

/// The only sender fills RECVs while another process puts the QP into Err and flushes them.
pub fn flushed() -> u64 {
    check("flushed", ModelBounds { preemptions: Some(2) }, || {
        let shared = Rc::new(SharedRecvs::new(2, TakenBy::One));
        shared.post(0);
        shared.post(1);
        let sender = with(&shared, |shared| [shared.send(1), shared.send(1)].into_iter().flatten().count());
        assert!(shared.qp().enter_error(|_| true));
        flush(&shared.completer(2));
        let sent = join(sender);
        let mut told = shared.told();
        told.sort_unstable();
        assert_eq!(told, [0, 1], "each RECV is completed once");
        let done = [0, 1].map(|position| shared.take(position).expect("each RECV is complete"));
        let filled = done.iter().filter(|done| done.status == 0).count();
        assert_eq!(filled, sent);
    })
}

/// Two of several senders take RECVs while the owner posts them.
pub fn two_senders() -> u64 {
    check("two senders", ModelBounds { preemptions: Some(3) }, || {
        let shared = Rc::new(SharedRecvs::new(2, TakenBy::Several));
        shared.qp().lane.store(1, SeqCst);
        shared.post(0);
        let senders = [1, 2].map(|claimer| with(&shared, move |shared| shared.send(claimer)));
        shared.post(1);
        let mut sent: Vec<u64> = senders.into_iter().filter_map(join).collect();
        sent.sort_unstable();
        assert!([&[0][..], &[0, 1]].contains(&&sent[..]), "the senders take the oldest RECVs, not {sent:?}");
        let taken = [0, 1].into_iter().filter(|position| shared.take(*position).is_some());
        assert_eq!(taken.collect::<Vec<u64>>(), sent);
    })
}

/// The CQ ends its lane while a sender fills a RECV. The sender notifies the CQ, or the owner sees that the
/// RECV was taken before.
pub fn lane_ended() -> u64 {
    check("lane ended", ModelBounds { preemptions: None }, || {
        let shared = Rc::new(SharedRecvs::new(2, TakenBy::One));
        shared.qp().lane.store(1, SeqCst);
        shared.post(0);
        let sender = with(&shared, |shared| shared.send(1));
        // `CqState::end_lane` does this.
        end_lane(shared.qp());
        let is_untaken = shared.slot(0).is_untaken(Some(shared.turn()), 0, GENERATION);
        let sent = join(sender).is_some();
        let is_told = !shared.told().is_empty();
        assert!(!sent || is_told || !is_untaken, "the owner sees that the sender took the RECV");
    })
}

/// The owner takes the completion of a message, and answers. Another thread of the sender sees the answer.
/// The receipt then tells this thread that the message was taken, and the message is complete.
pub fn answered() -> u64 {
    check("answered", ModelBounds { preemptions: Some(3) }, || {
        let shared = Rc::new(SharedRecvs::new(1, TakenBy::One));
        shared.qp().lane.store(1, SeqCst);
        shared.post(0);
        let slots = Slots::of(&shared.segment, shared.rq()).expect("it has slots");
        let receipt = slots.front(GENERATION).expect("a RECV").receipt(0);
        let answer = Rc::new(AtomicU64::new(0));
        let sender = with(&shared, |shared| shared.send(1));
        let poller = {
            let answer = answer.clone();
            with(&shared, move |shared| {
                // Acquire, like the load of the state of the slot that contains the answer.
                let is_answered = answer.load(Acquire) == 1;
                let is_taken = receipt.is_taken(&shared.segment);
                assert!(is_taken || !is_answered, "the answer does not precede the completion");
                if is_taken {
                    // SAFETY: the message is complete.
                    assert_eq!(unsafe { *shared.buffers[0].get() }, 1);
                }
            })
        };
        if shared.take(0).is_some() {
            pass(shared.rq(), 0);
            answer.store(1, Release);
        }
        join(sender);
        join(poller);
    })
}

/// A sender places the payload of a message while the owner takes the completion. One of the two copies the
/// payload. Afterwards only the owner's program uses the buffer.
///
/// The model posts the slot again only after the sender has ended, although an owner may do so earlier. In
/// that case, the owner's plain store of the new state follows the sender's first change of the old state.
/// The sender's second change then fails, because no store comes between the store that a compare-and-swap
/// has loaded and its own store. loom does not know this rule.
fn placed(taken_by: TakenBy) {
    let shared = Rc::new(SharedRecvs::new(1, taken_by));
    shared.qp().lane.store(1, SeqCst);
    shared.post(0);
    let receipt = shared.send_carried(1).expect("a RECV is posted");
    let sender = with(&shared, move |shared| shared.place(receipt, 1));
    let is_early = shared.take_carried(0).is_some();
    if is_early {
        shared.use_buffer(0);
    }
    join(sender);
    if !is_early {
        shared.take_carried(0).expect("the message is complete again");
        shared.use_buffer(0);
    }
    shared.post(1);
    assert!(shared.send_carried(1).is_some() && shared.take_carried(1).is_some());
}

/// Runs `placed` in a queue of one sender.
pub fn placed_in_turn() -> u64 {
    check("placed in turn", ModelBounds { preemptions: None }, || placed(TakenBy::One))
}

/// Runs `placed` in a queue of several senders.
pub fn placed_in_slot() -> u64 {
    check("placed in slot", ModelBounds { preemptions: None }, || placed(TakenBy::Several))
}
