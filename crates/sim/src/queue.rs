//! The event queue: time first, NIC events before threads, ties by sequence.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Bit of [`Key::order`] that puts threads behind all other events of the same instant.
const THREAD: u64 = 1 << 63;

/// Where an event stands in the order of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// Picoseconds of a bucket, as a power of two: about a nanosecond.
const BUCKET_BITS: u32 = 10;
/// Buckets ahead of the present; the wheel covers about 4 us.
const BUCKETS: usize = 4096;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    key: Key,
    event: Event,
    next: u32,
}

/// An event beyond the wheel's reach; the heap's greatest is the earliest.
struct Far(Key, Event);

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
    /// First node of each bucket.
    buckets: Vec<u32>,
    /// Which buckets have nodes, and which words of this have bits.
    occupied: [u64; BUCKETS / 64],
    occupied_words: u64,
    nodes: Vec<Node>,
    free: u32,
    /// Bucket number (not index) of the last event taken.
    present: u64,
    /// The earliest event, if it is in the wheel and was looked for.
    earliest: Option<(Key, Event)>,
    far: BinaryHeap<Far>,
    sequence: u64,
}

impl EventQueue {
    pub(crate) fn new() -> EventQueue {
        EventQueue {
            buckets: vec![NONE; BUCKETS],
            occupied: [0; BUCKETS / 64],
            occupied_words: 0,
            nodes: Vec::with_capacity(1024),
            free: NONE,
            present: 0,
            earliest: None,
            far: BinaryHeap::with_capacity(1024),
            sequence: 0,
        }
    }

    /// Adds an event of a NIC or a memory.
    pub(crate) fn push(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.add(Key { time, order: self.sequence }, event);
    }

    /// Adds the turn of a thread.
    pub(crate) fn push_thread(&mut self, time: u64, thread: u32) {
        self.add(Key::thread(time, thread), Event::Thread(thread));
    }

    fn add(&mut self, key: Key, event: Event) {
        let bucket = key.time >> BUCKET_BITS;
        debug_assert!(bucket >= self.present, "an event in the past");
        if bucket - self.present >= BUCKETS as u64 {
            self.far.push(Far(key, event));
            return;
        }
        self.add_near(key, event);
    }

    fn add_near(&mut self, key: Key, event: Event) {
        let index = (key.time >> BUCKET_BITS) as usize % BUCKETS;
        let node = Node { key, event, next: self.buckets[index] };
        let number = match self.free {
            NONE => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
            free => {
                self.free = self.nodes[free as usize].next;
                self.nodes[free as usize] = node;
                free
            }
        };
        self.buckets[index] = number;
        self.occupied[index / 64] |= 1 << (index % 64);
        self.occupied_words |= 1 << (index / 64);
        if self.earliest.is_some_and(|(earliest, _)| key < earliest) {
            self.earliest = Some((key, event));
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
        let after = if word == 63 { 0 } else { self.occupied_words & (u64::MAX << (word + 1)) };
        let words = if after != 0 { after } else { self.occupied_words };
        if words == 0 {
            return None;
        }
        let word = words.trailing_zeros() as usize;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    /// The earliest event, left in place.
    pub(crate) fn peek(&mut self) -> Option<(Key, Event)> {
        if self.earliest.is_none() {
            let Some(bucket) = self.first_bucket() else {
                // Only the far future is left. It stays there: something nearer may still be added.
                return self.far.peek().map(|Far(key, event)| (*key, *event));
            };
            let mut number = self.buckets[bucket];
            while number != NONE {
                let node = &self.nodes[number as usize];
                if self.earliest.is_none_or(|(earliest, _)| node.key < earliest) {
                    self.earliest = Some((node.key, node.event));
                }
                number = node.next;
            }
        }
        self.earliest
    }

    /// Key of the earliest event.
    pub(crate) fn next_key(&mut self) -> Key {
        self.peek().map_or(Key::NEVER, |(key, _)| key)
    }

    /// Moves what has come within the wheel's reach from the heap to the wheel.
    fn bring_near(&mut self) {
        while let Some(Far(key, event)) = self.far.peek()
            && (key.time >> BUCKET_BITS) - self.present < BUCKETS as u64
        {
            let (key, event) = (*key, *event);
            self.far.pop();
            self.add_near(key, event);
        }
    }

    /// Takes the earliest event.
    pub(crate) fn pop(&mut self) -> Option<(Key, Event)> {
        let (key, event) = self.peek()?;
        self.earliest = None;
        let bucket = key.time >> BUCKET_BITS;
        if bucket - self.present < BUCKETS as u64 {
            self.remove(bucket as usize % BUCKETS, key);
        } else {
            self.far.pop();
        }
        if bucket != self.present {
            self.present = bucket;
            self.bring_near();
        }
        Some((key, event))
    }

    fn remove(&mut self, index: usize, key: Key) {
        let mut before = NONE;
        let mut number = self.buckets[index];
        while self.nodes[number as usize].key != key {
            before = number;
            number = self.nodes[number as usize].next;
        }
        let next = self.nodes[number as usize].next;
        match before {
            NONE => self.buckets[index] = next,
            before => self.nodes[before as usize].next = next,
        }
        self.nodes[number as usize].next = self.free;
        self.free = number;
        if self.buckets[index] == NONE {
            self.occupied[index / 64] &= !(1 << (index % 64));
            if self.occupied[index / 64] == 0 {
                self.occupied_words &= !(1 << (index / 64));
            }
        }
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
        let order: Vec<Event> = std::iter::from_fn(|| q.pop().map(|(_, e)| e)).collect();
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
                prop_assert_eq!(q.peek(), q.peek());
                if let Some(after) = step {
                    let event = Event::Arrive(n as u32);
                    q.push(now + after, event);
                    model.insert((now + after, q.sequence), event);
                } else {
                    let expected = model.pop_first().map(|((time, order), e)| (Key { time, order }, e));
                    let got = q.pop();
                    prop_assert_eq!(got, expected);
                    now = got.map_or(now, |(key, _)| key.time);
                }
            }
        }
    }
}
