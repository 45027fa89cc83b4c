//! Models of the ring of completions. The owner gets each completion once, in the order of its producer, and
//! sees everything that the producer wrote before the completion.

use crate::fabric::peer::Owner;
use crate::fabric::pipe::events;
use crate::memory::records::{CqRecord, CqRing};
use crate::memory::segment::Segment;
use crate::rings::completions::{Armed, CompletionRing, RecvNotice, RingPlace, arm, push, wake};
use crate::run::{ModelBounds, check};
use crate::sync::atomics::{AtomicU64, LockedCell, Ordering::*};
use loom::thread;
use std::rc::Rc;

/// Maximum number of completions that a producer puts into the ring.
const MOST: usize = 2;
/// The receive queue of completions that are in the ring before the producers start.
const EARLY: u32 = 9;

/// A CQ in shared memory, and the words that each producer writes before its completions.
struct SharedRing {
    segment: Segment,
    written: [[LockedCell<bool>; MOST]; 2],
    /// The number of completions of the first producer that were taken.
    taken: AtomicU64,
}

impl SharedRing {
    /// Makes a CQ with a ring of this capacity, and room for another ring.
    fn new(capacity: u32) -> SharedRing {
        let mut segment = Segment::default();
        for place in [SharedRing::place(0, capacity), SharedRing::place(1, capacity)] {
            segment.put(place.at(), CqRing::default());
            for cell in 0..u64::from(capacity) {
                segment.put(place.at() + size_of::<CqRing>() as u64 + 8 * cell, AtomicU64::new(0));
            }
        }
        let written = std::array::from_fn(|_| std::array::from_fn(|_| LockedCell::new(false)));
        let shared = SharedRing { segment, written, taken: AtomicU64::new(0) };
        shared.record().cqe.store(capacity, Relaxed);
        shared.record().channel_fd.store(1, Relaxed);
        shared.show(0, capacity);
        shared
    }

    fn record(&self) -> &CqRecord {
        self.segment.cq(0).expect("the segment has a CQ")
    }

    fn place(number: u64, capacity: u32) -> RingPlace {
        RingPlace::new((number + 1) << 16, capacity)
    }

    /// Publishes one of the rings to producers.
    fn show(&self, number: u64, capacity: u32) {
        let place = SharedRing::place(number, capacity);
        CompletionRing::begin(&self.segment, place, number as u32 + 1).expect("the ring is in the segment");
        // The order that `Cq::new` and `Cq::resize` use.
        self.record().ring.store(place.in_record(), Release);
    }

    fn ring(&self, number: u64, capacity: u32) -> CompletionRing<'_> {
        CompletionRing::at(&self.segment, SharedRing::place(number, capacity))
            .expect("the ring is in the segment")
    }

    /// Writes a word and puts a completion into the ring, `times` times. Returns how many completions the
    /// ring had room for.
    fn produce(&self, producer: u32, times: usize) -> u32 {
        let put_in = |position: usize| {
            // SAFETY: the owner reads the word only after it has taken the completion.
            unsafe { *self.written[producer as usize][position].get_mut() = true };
            push(&self.segment, self.record(), RecvNotice::new(producer, position as u64, 0))
        };
        // A program that overruns its CQ gets no more completions.
        (0..times).take_while(|position| put_in(*position)).count() as u32
    }

    /// Puts a completion into the ring and notifies the program, as `Completer::complete` does.
    fn produce_and_wake(&self) {
        self.produce(0, 1);
        // Acquire, as in `Receipt::is_taken`.
        wake(Owner::This, self.record(), 0, false, |_| self.taken.load(Acquire) == 0);
    }
}

/// The CQ's owner.
struct Poller {
    shared: Rc<SharedRing>,
    number: u64,
    capacity: u32,
    head: u64,
    /// The number of completions that were taken from each producer.
    got: [u32; 2],
}

impl Poller {
    fn new(shared: &Rc<SharedRing>, number: u64, capacity: u32) -> Poller {
        let head = shared.ring(number, capacity).head();
        Poller { shared: shared.clone(), number, capacity, head, got: [0; 2] }
    }

    /// Takes the next completion, as `Cq::poll` does. `false` if the ring has no completion.
    fn poll(&mut self) -> bool {
        let shared = self.shared.clone();
        let ring = shared.ring(self.number, self.capacity);
        let is_there = ring.tail() > self.head;
        let notice = ring.get(self.head);
        assert!(notice.is_some() || !is_there, "each completion before the tail is in the ring");
        let Some(notice) = notice else { return false };
        self.head += 1;
        ring.pass(self.head);
        if notice != RecvNotice::NOTHING && notice.rq() != EARLY {
            self.take(notice);
        }
        true
    }

    fn take(&mut self, notice: RecvNotice) {
        let producer = notice.rq() as usize;
        let position = self.got[producer];
        assert!(
            notice.is_at(position.into()),
            "completion {position} of producer {producer} is not {notice:?}"
        );
        // SAFETY: the producer has put the completion into the ring, and no longer writes the word.
        assert!(unsafe { *self.shared.written[producer][position as usize].get() });
        self.got[producer] += 1;
        if producer == 0 {
            // Release, as in `pass`.
            self.shared.taken.store(self.got[0].into(), Release);
        }
    }

    /// Asks for an event, as `Cq::request_notify` does.
    fn arm(&self) {
        let ring = self.shared.ring(self.number, self.capacity);
        arm(self.shared.record(), 0, Armed::Next, |_| ring.get(self.head).is_some());
    }
}

/// Starts a thread that puts one completion into the ring and notifies the program.
fn waking_producer(shared: &Rc<SharedRing>) -> thread::JoinHandle<()> {
    let shared = shared.clone();
    thread::spawn(move || shared.produce_and_wake())
}

/// Starts a producer of `times` completions.
fn producer(shared: &Rc<SharedRing>, number: u32, times: usize) -> thread::JoinHandle<u32> {
    let shared = shared.clone();
    thread::spawn(move || shared.produce(number, times))
}

/// Two producers fill a ring that wraps around, while the owner polls.
pub fn two_producers() -> u64 {
    check("two producers", ModelBounds { preemptions: Some(2) }, || {
        let shared = Rc::new(SharedRing::new(2));
        assert!(push(&shared.segment, shared.record(), RecvNotice::new(EARLY, 0, 0)));
        let mut poller = Poller::new(&shared, 0, 2);
        let producers = [producer(&shared, 0, 2), producer(&shared, 1, 1)];
        poller.poll();
        poller.poll();
        let room = producers.map(|producer| producer.join().expect("a producer does not panic"));
        while poller.poll() {}
        assert_eq!(poller.got, room, "the owner polls each pushed completion once");
    })
}

/// The owner forgets completions of a QP that ends, and gives their cells to two producers.
pub fn forgotten() -> u64 {
    check("forgotten", ModelBounds { preemptions: Some(2) }, || {
        let shared = Rc::new(SharedRing::new(1));
        assert!(push(&shared.segment, shared.record(), RecvNotice::new(EARLY, 0, 0)));
        let mut poller = Poller::new(&shared, 0, 1);
        let producers = [producer(&shared, 0, 1), producer(&shared, 1, 1)];
        // `CqState::forget` does this.
        shared.ring(0, 1).forget(poller.head);
        assert!(poller.poll());
        let room = producers.map(|producer| producer.join().expect("a producer does not panic"));
        while poller.poll() {}
        assert_eq!(poller.got, room, "the owner polls each pushed completion once");
    })
}

/// The owner makes a new ring, as ibv_resize_cq(3) does, while a producer fills the old or the new ring.
pub fn resized() -> u64 {
    check("resized", ModelBounds { preemptions: None }, || {
        let shared = Rc::new(SharedRing::new(2));
        let mut first = Poller::new(&shared, 0, 2);
        let producer = producer(&shared, 0, 2);
        shared.show(1, 2);
        while first.poll() {}
        let room = producer.join().expect("a producer does not panic");
        while first.poll() {}
        let mut second = Poller { got: first.got, ..Poller::new(&shared, 1, 2) };
        while second.poll() {}
        assert_eq!(second.got, [room, 0]);
    })
}

/// A program asks for an event and polls once more before it sleeps. The program gets the completion or the
/// event.
pub fn asleep() -> u64 {
    check("asleep", ModelBounds { preemptions: None }, || {
        let shared = Rc::new(SharedRing::new(2));
        let mut poller = Poller::new(&shared, 0, 2);
        let producer = waking_producer(&shared);
        poller.arm();
        let is_awake = poller.poll();
        producer.join().expect("a producer does not panic");
        assert!(is_awake || events() == 1, "the program is awake if the ring has a completion");
    })
}

/// A program polls, and then asks for an event. The program gets an event if its poll did not take the
/// completion, and no event if its poll took the completion.
pub fn told_of_what_is_there() -> u64 {
    check("told of what is there", ModelBounds { preemptions: None }, || {
        let shared = Rc::new(SharedRing::new(2));
        let mut poller = Poller::new(&shared, 0, 2);
        let producer = waking_producer(&shared);
        let has_it = poller.poll();
        poller.arm();
        producer.join().expect("a producer does not panic");
        assert_eq!(events(), u32::from(!has_it), "taken before: {has_it}");
    })
}
