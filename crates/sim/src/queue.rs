//! The event queue: time first, NIC events before threads, ties by sequence.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Bit of [`Key::order`] that puts threads behind all other events of the same instant.
const THREAD: u64 = 1 << 63;

/// Where an event stands in the order of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Picoseconds.
    pub(crate) time: u64,
    /// Sequence number, or the thread's number with [`THREAD`] set.
    order: u64,
}

impl Key {
    pub(crate) const NEVER: Key = Key { time: u64::MAX, order: u64::MAX };

    /// Key of a thread that acts at `time`.
    pub(crate) const fn thread(time: u64, thread: u32) -> Key {
        Key { time, order: THREAD | thread as u64 }
    }

    /// Whether it is that of a thread.
    pub(crate) const fn is_thread(self) -> bool {
        self.order & THREAD != 0
    }
}

impl Key {
    /// Both parts as one number, which takes one comparison without a branch.
    const fn number(self) -> u128 {
        (self.time as u128) << 64 | self.order as u128
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        self.number().cmp(&other.number())
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A thread goes on.
    Thread(u32),
    /// `count` WQEs that a CPU wrote by MMIO, or a doorbell for them, reach the NIC.
    Mmio { machine: u16, count: u16, qp: u32, by_mmio: bool },
    /// A doorbell for `count` RECVs reaches the NIC.
    RecvDoorbell { machine: u16, count: u16, recv_queue: u32 },
    /// A DMA read request reaches memory.
    ReadAtHost(u32),
    /// The last completion of a DMA read reaches the NIC.
    ReadDone(u32),
    /// A processing unit for sending is done with its packet.
    TxPu { machine: u16, pu: u16 },
    /// A port that had too much to send may take more.
    PortOut { machine: u16, port: u8 },
    /// A packet reaches a port.
    Arrive(u32),
    /// A packet has come through a port that was busy with others.
    Ingress(u32),
    /// A processing unit for receiving is done with a packet.
    RxDone(u32),
    /// A DMA write, or its next cache line, becomes visible.
    Visible(u32),
    /// An atomic gives its lock back.
    Unlock { machine: u16, slot: u16 },
    /// A transport timer of a QP.
    Timer { machine: u16, qp: u32 },
}

/// An event in one word: the queue moves events about, and an enum of several sizes is moved in
/// pieces that a processor is slow to read back as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed(u64);

/// Bits of a QP's or receive queue's number; a QPN has 24.
const NUMBER_BITS: u32 = 27;

impl Packed {
    #[inline]
    fn new(event: Event) -> Packed {
        // From the lowest bit: 4 of the kind, one flag, a QP or receive queue, a machine, a count or
        // unit. Or after the kind, from bit 32 on, a number of 32 bits.
        let plain = |kind: u64, number: u32| kind | u64::from(number) << 32;
        let split = |kind: u64, flag: bool, number: u32, machine: u16, count: u16| {
            debug_assert!(number < 1 << NUMBER_BITS, "{event:?}");
            let low = kind | u64::from(flag) << 4 | u64::from(number) << 5;
            low | u64::from(machine) << 32 | u64::from(count) << 48
        };
        Packed(match event {
            Event::Thread(thread) => plain(0, thread),
            Event::Mmio { machine, count, qp, by_mmio } => split(1, by_mmio, qp, machine, count),
            Event::RecvDoorbell { machine, count, recv_queue } => split(2, false, recv_queue, machine, count),
            Event::ReadAtHost(read) => plain(3, read),
            Event::ReadDone(read) => plain(4, read),
            Event::TxPu { machine, pu } => split(5, false, 0, machine, pu),
            Event::Arrive(flight) => plain(6, flight),
            Event::Ingress(flight) => plain(7, flight),
            Event::RxDone(flight) => plain(8, flight),
            Event::Visible(write) => plain(9, write),
            Event::Timer { machine, qp } => split(10, false, qp, machine, 0),
            Event::Unlock { machine, slot } => split(11, false, 0, machine, slot),
            Event::PortOut { machine, port } => split(12, false, 0, machine, port.into()),
        })
    }

    #[inline]
    pub(crate) fn event(self) -> Event {
        let word = self.0;
        let plain = (word >> 32) as u32;
        let number = word as u32 >> 5;
        let (machine, count) = (plain as u16, (plain >> 16) as u16);
        match word & 0xf {
            0 => Event::Thread(plain),
            1 => Event::Mmio { machine, count, qp: number, by_mmio: word & 1 << 4 != 0 },
            2 => Event::RecvDoorbell { machine, count, recv_queue: number },
            3 => Event::ReadAtHost(plain),
            4 => Event::ReadDone(plain),
            5 => Event::TxPu { machine, pu: count },
            6 => Event::Arrive(plain),
            7 => Event::Ingress(plain),
            8 => Event::RxDone(plain),
            9 => Event::Visible(plain),
            10 => Event::Timer { machine, qp: number },
            11 => Event::Unlock { machine, slot: count },
            _ => Event::PortOut { machine, port: count as u8 },
        }
    }

    /// The thread whose turn it is, if it is one's.
    #[inline]
    pub(crate) fn thread(self) -> Option<u32> {
        (self.0 & 0xf == 0).then_some((self.0 >> 32) as u32)
    }
}

/// Picoseconds of a bucket, as a power of two: about half a nanosecond.
const BUCKET_BITS: u32 = 9;
/// Buckets ahead of the present; the wheel covers about 4 us.
const BUCKETS: usize = 8192;
const NONE: u32 = u32::MAX;

/// An event in a bucket, and the next later one there.
#[derive(Clone, Copy)]
struct Node {
    key: Key,
    event: Packed,
    next: u32,
}

/// An event beyond the wheel's reach; the heap's greatest is the earliest.
struct Far(Key, Packed);

impl PartialEq for Far {
    fn eq(&self, other: &Far) -> bool {
        self.0 == other.0
    }
}

impl Eq for Far {}

impl PartialOrd for Far {
    fn partial_cmp(&self, other: &Far) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Far {
    fn cmp(&self, other: &Far) -> Ordering {
        other.0.cmp(&self.0)
    }
}

/// Words of bits for the buckets.
const WORDS: usize = BUCKETS / 64;

/// Pending events, earliest first: a wheel of short buckets for the near future, where nearly all
/// events are, and a heap for the rest. Nothing may be added before the last event taken.
pub(crate) struct EventQueue {
    /// Key of the earliest event.
    earliest: Key,
    /// Its node, or [`NONE`] where only the far future is left.
    first: u32,
    /// Events in the wheel.
    near: u32,
    free: u32,
    nodes: Vec<Node>,
    /// First node of each bucket; a bucket's nodes are in order.
    buckets: Box<[u32; BUCKETS]>,
    /// Which buckets have nodes.
    occupied: [u64; WORDS],
    /// Bucket number (not index) of the last event taken.
    present: u64,
    /// Bucket number of the earliest event in the heap; `u64::MAX` for none.
    far_from: u64,
    far: BinaryHeap<Far>,
    sequence: u64,
}

impl EventQueue {
    pub(crate) fn new() -> EventQueue {
        EventQueue {
            earliest: Key::NEVER,
            first: NONE,
            near: 0,
            free: NONE,
            nodes: Vec::with_capacity(1024),
            buckets: Box::new([NONE; BUCKETS]),
            occupied: [0; WORDS],
            present: 0,
            far_from: u64::MAX,
            far: BinaryHeap::with_capacity(1024),
            sequence: 0,
        }
    }

    /// Adds an event of a NIC or a memory.
    #[inline]
    pub(crate) fn push(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.add(Key { time, order: self.sequence }, Packed::new(event));
    }

    /// Adds the turn of a thread.
    pub(crate) fn push_thread(&mut self, time: u64, thread: u32) {
        self.add(Key::thread(time, thread), Packed::new(Event::Thread(thread)));
    }

    fn add(&mut self, key: Key, event: Packed) {
        let bucket = key.time >> BUCKET_BITS;
        debug_assert!(bucket >= self.present, "an event in the past");
        if bucket - self.present >= BUCKETS as u64 {
            return self.add_far(key, event);
        }
        self.near += 1;
        let index = bucket as usize % BUCKETS;
        let mut next = self.buckets[index];
        let Some(head) = self.nodes.get(next as usize) else {
            self.occupied[index / 64] |= 1 << (index % 64);
            return self.add_first(index, key, event, NONE);
        };
        if key < head.key {
            return self.add_first(index, key, event, next);
        }
        let mut before = next;
        loop {
            next = self.nodes[before as usize].next;
            match self.nodes.get(next as usize) {
                Some(node) if node.key <= key => before = next,
                _ => break,
            }
        }
        let number = self.new_node(Node { key, event, next });
        self.nodes[before as usize].next = number;
    }

    /// Adds an event to the front of a bucket.
    #[inline]
    fn add_first(&mut self, index: usize, key: Key, event: Packed, next: u32) {
        let number = self.new_node(Node { key, event, next });
        self.buckets[index] = number;
        if key < self.earliest {
            self.earliest = key;
            self.first = number;
        }
    }

    #[cold]
    fn add_far(&mut self, key: Key, event: Packed) {
        self.far.push(Far(key, event));
        self.far_from = self.far_from.min(key.time >> BUCKET_BITS);
        self.earliest = self.earliest.min(key);
    }

    #[inline]
    fn new_node(&mut self, node: Node) -> u32 {
        let number = self.free;
        if let Some(free) = self.nodes.get_mut(number as usize) {
            self.free = free.next;
            *free = node;
            return number;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    /// Index of the first bucket with nodes, from the present on; there must be one.
    #[inline]
    fn first_bucket(&self) -> usize {
        let present = self.present as usize % BUCKETS;
        let (mut word, bit) = (present / 64, present % 64);
        let mut bits = self.occupied[word] & (u64::MAX << bit);
        // Once round, as the buckets before the present are the last ones ahead of it.
        while bits == 0 {
            word = (word + 1) % WORDS;
            bits = self.occupied[word];
        }
        word * 64 + bits.trailing_zeros() as usize
    }

    /// Looks for the earliest event.
    #[inline]
    fn find_earliest(&mut self) {
        if self.near > 0 {
            self.first = self.buckets[self.first_bucket()];
            self.earliest = self.nodes[self.first as usize].key;
        } else {
            // Only the far future is left. It stays there: something nearer may still be added.
            self.first = NONE;
            self.earliest = self.far.peek().map_or(Key::NEVER, |Far(key, _)| *key);
        }
    }

    /// Moves what has come within the wheel's reach from the heap to the wheel.
    #[cold]
    fn bring_near(&mut self) {
        while let Some(Far(key, event)) = self.far.peek()
            && (key.time >> BUCKET_BITS) - self.present < BUCKETS as u64
        {
            let (key, event) = (*key, *event);
            self.far.pop();
            self.add(key, event);
        }
        self.far_from = self.far.peek().map_or(u64::MAX, |Far(key, _)| key.time >> BUCKET_BITS);
    }

    /// Key of the earliest event.
    #[inline]
    pub(crate) fn next_key(&self) -> Key {
        self.earliest
    }

    /// Takes the earliest event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Packed> {
        let number = self.first;
        let Some(node) = self.nodes.get_mut(number as usize) else { return self.pop_far() };
        let Node { key, event, next } = *node;
        node.next = self.free;
        self.free = number;
        self.near -= 1;
        self.present = key.time >> BUCKET_BITS;
        let index = self.present as usize % BUCKETS;
        self.buckets[index] = next;
        if self.far_from - self.present < BUCKETS as u64 {
            self.bring_near();
        }
        // What was brought near lies behind all that was.
        if let Some(node) = self.nodes.get(next as usize) {
            self.first = next;
            self.earliest = node.key;
        } else {
            self.occupied[index / 64] &= !(1 << (index % 64));
            self.find_earliest();
        }
        Some(event)
    }

    #[cold]
    fn pop_far(&mut self) -> Option<Packed> {
        let Far(key, event) = self.far.pop()?;
        self.present = key.time >> BUCKET_BITS;
        self.bring_near();
        self.find_earliest();
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn order_is_time_then_nic_then_thread_then_sequence() {
        let mut q = EventQueue::new();
        q.push_thread(10, 3);
        q.push(10, Event::Arrive(1));
        q.push_thread(10, 2);
        q.push(10, Event::Arrive(2));
        q.push(5, Event::Arrive(3));
        let order: Vec<Event> = std::iter::from_fn(|| q.pop().map(Packed::event)).collect();
        assert_eq!(
            order,
            [Event::Arrive(3), Event::Arrive(1), Event::Arrive(2), Event::Thread(2), Event::Thread(3)]
        );
    }

    proptest! {
        /// Adding (after so many picoseconds) and taking in any order gives what a heap would.
        #[test]
        fn it_is_a_priority_queue(
            steps in prop::collection::vec(prop::option::of(prop_oneof![
                0u64..2000,
                0u64..5_000_000,
                0u64..100_000_000_000,
            ]), 1..400)
        ) {
            let mut q = EventQueue::new();
            let mut model = std::collections::BTreeMap::new();
            let mut now = 0;
            for (n, step) in steps.iter().enumerate() {
                // Looking changes nothing.
                prop_assert_eq!(q.next_key(), q.next_key());
                if let Some(after) = step {
                    let event = Event::Arrive(n as u32);
                    q.push(now + after, event);
                    model.insert((now + after, q.sequence), event);
                } else {
                    let expected = model.pop_first().map(|((time, order), e)| (Key { time, order }, e));
                    let key = q.next_key();
                    let got = q.pop().map(|e| (key, e.event()));
                    prop_assert_eq!(got, expected);
                    now = got.map_or(now, |(key, _)| key.time);
                }
            }
        }
    }
}
