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

/// Pending events, earliest first: a wheel of short buckets for the near future, where nearly all
/// events are, and a heap for the rest. Nothing may be added before the last event taken.
pub(crate) struct EventQueue {
    /// Key of the earliest event.
    earliest: Key,
    /// Its node, or [`NONE`] where only the far future is left.
    first: u32,
    /// First node of each bucket; a bucket's nodes are in order.
    buckets: Vec<u32>,
    /// Which buckets have nodes, and which words of this have bits.
    occupied: [u64; BUCKETS / 64],
    occupied_words: u128,
    nodes: Vec<Node>,
    free: u32,
    /// Bucket number (not index) of the last event taken.
    present: u64,
    far: BinaryHeap<Far>,
    sequence: u64,
}

impl EventQueue {
    pub(crate) fn new() -> EventQueue {
        EventQueue {
            earliest: Key::NEVER,
            first: NONE,
            buckets: vec![NONE; BUCKETS],
            occupied: [0; BUCKETS / 64],
            occupied_words: 0,
            nodes: Vec::with_capacity(1024),
            free: NONE,
            present: 0,
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
        let index = bucket as usize % BUCKETS;
        let number = self.new_node(key, event);
        self.link(index, number, key);
        self.occupied[index / 64] |= 1 << (index % 64);
        self.occupied_words |= 1 << (index / 64);
        if key < self.earliest {
            self.earliest = key;
            self.first = number;
        }
    }

    #[cold]
    fn add_far(&mut self, key: Key, event: Packed) {
        self.far.push(Far(key, event));
        self.earliest = self.earliest.min(key);
    }

    fn new_node(&mut self, key: Key, event: Packed) -> u32 {
        let node = Node { key, event, next: NONE };
        let number = self.free;
        if let Some(free) = self.nodes.get_mut(number as usize) {
            self.free = free.next;
            *free = node;
            return number;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    /// Puts a node to its place in its bucket.
    fn link(&mut self, index: usize, number: u32, key: Key) {
        let head = self.buckets[index];
        if head == NONE || key < self.nodes[head as usize].key {
            self.nodes[number as usize].next = head;
            self.buckets[index] = number;
            return;
        }
        let mut before = head;
        loop {
            let next = self.nodes[before as usize].next;
            if next == NONE || key < self.nodes[next as usize].key {
                self.nodes[number as usize].next = next;
                self.nodes[before as usize].next = number;
                return;
            }
            before = next;
        }
    }

    /// Index of the first bucket with nodes, from the present on.
    fn first_bucket(&self) -> Option<usize> {
        let present = self.present as usize % BUCKETS;
        let (word, bit) = (present / 64, present % 64);
        let here = self.occupied[word] & (u64::MAX << bit);
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        // The words after this one, then from the start on up to this one again.
        let after = (self.occupied_words >> word >> 1) << word << 1;
        let words = if after != 0 { after } else { self.occupied_words };
        if words == 0 {
            return None;
        }
        let word = words.trailing_zeros() as usize;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    /// Looks for the earliest event.
    fn find_earliest(&mut self) {
        (self.first, self.earliest) = match self.first_bucket() {
            Some(index) => {
                let first = self.buckets[index];
                (first, self.nodes[first as usize].key)
            }
            // Only the far future is left. It stays there: something nearer may still be added.
            None => (NONE, self.far.peek().map_or(Key::NEVER, |Far(key, _)| *key)),
        }
    }

    /// Moves what has come within the wheel's reach from the heap to the wheel.
    fn bring_near(&mut self) {
        while let Some(Far(key, event)) = self.far.peek()
            && (key.time >> BUCKET_BITS) - self.present < BUCKETS as u64
        {
            let (key, event) = (*key, *event);
            self.far.pop();
            self.add(key, event);
        }
    }

    /// Key of the earliest event.
    #[inline]
    pub(crate) fn next_key(&self) -> Key {
        self.earliest
    }

    /// Takes the earliest event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Key, Packed)> {
        let number = self.first;
        let Some(&Node { key, event, next }) = self.nodes.get(number as usize) else {
            return self.pop_far();
        };
        self.nodes[number as usize].next = self.free;
        self.free = number;
        let bucket = key.time >> BUCKET_BITS;
        let index = bucket as usize % BUCKETS;
        self.buckets[index] = next;
        if bucket != self.present {
            self.present = bucket;
            self.bring_near();
        }
        // What was brought near lies behind all that was.
        if next != NONE {
            self.first = next;
            self.earliest = self.nodes[next as usize].key;
        } else {
            self.empty(index);
            self.find_earliest();
        }
        Some((key, event))
    }

    /// A bucket has no nodes any more.
    fn empty(&mut self, index: usize) {
        self.occupied[index / 64] &= !(1 << (index % 64));
        if self.occupied[index / 64] == 0 {
            self.occupied_words &= !(1 << (index / 64));
        }
    }

    #[cold]
    fn pop_far(&mut self) -> Option<(Key, Packed)> {
        let Far(key, event) = self.far.pop()?;
        self.present = key.time >> BUCKET_BITS;
        self.bring_near();
        self.find_earliest();
        Some((key, event))
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
        let order: Vec<Event> = std::iter::from_fn(|| q.pop().map(|(_, e)| e.event())).collect();
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
                    let got = q.pop().map(|(key, e)| (key, e.event()));
                    prop_assert_eq!(got, expected);
                    now = got.map_or(now, |(key, _)| key.time);
                }
            }
        }
    }
}
