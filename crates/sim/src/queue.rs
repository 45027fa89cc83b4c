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

struct Entry {
    key: Key,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.key == other.key
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// Reversed: the heap's greatest is the earliest.
    fn cmp(&self, other: &Entry) -> Ordering {
        other.key.cmp(&self.key)
    }
}

/// Pending events, earliest first.
pub(crate) struct EventQueue {
    heap: BinaryHeap<Entry>,
    sequence: u64,
}

impl EventQueue {
    pub(crate) fn new() -> EventQueue {
        EventQueue { heap: BinaryHeap::with_capacity(1024), sequence: 0 }
    }

    /// Adds an event of a NIC or a memory.
    pub(crate) fn push(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.heap.push(Entry { key: Key { time, order: self.sequence }, event });
    }

    /// Adds the turn of a thread.
    pub(crate) fn push_thread(&mut self, time: u64, thread: u32) {
        self.heap.push(Entry { key: Key::thread(time, thread), event: Event::Thread(thread) });
    }

    /// The earliest event, left in place.
    pub(crate) fn peek(&self) -> Option<(Key, Event)> {
        self.heap.peek().map(|e| (e.key, e.event))
    }

    /// Key of the earliest event.
    pub(crate) fn next_key(&self) -> Key {
        self.heap.peek().map_or(Key::NEVER, |e| e.key)
    }

    /// Takes the earliest event.
    pub(crate) fn pop(&mut self) -> Option<(Key, Event)> {
        self.heap.pop().map(|e| (e.key, e.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
