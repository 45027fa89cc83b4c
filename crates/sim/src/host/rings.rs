//! The driver's queues in memory: lines with states, but without bytes.

use super::memory::{LINE, MemPlace};
use super::reach::Lines;
use super::sockets::CpuSocket;

/// The contents of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingQueue {
    /// Send WQEs.
    Send,
    /// RECV WQEs.
    Receive,
    /// CQEs.
    Completion,
}

impl RingQueue {
    /// The allocation that stands for all rings of this kind. Its number is beyond those of real allocations.
    const fn allocation(self) -> u32 {
        match self {
            RingQueue::Send => u32::MAX,
            RingQueue::Receive => u32::MAX - 1,
            RingQueue::Completion => u32::MAX - 2,
        }
    }
}

/// A ring of entries of equal size. The first entry begins at the beginning of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    queue: RingQueue,
    /// Socket of the core that owns the ring. The ring's memory and cache are there.
    home: CpuSocket,
    /// Offset of the ring's first byte among all rings of its kind.
    first: u64,
    entries: u32,
    /// Bytes of an entry.
    bytes: u32,
}

impl Ring {
    #[inline]
    pub(super) fn home(&self) -> CpuSocket {
        self.home
    }

    /// The first `bytes` bytes of an entry.
    #[inline]
    pub(crate) fn entry(&self, number: u32, bytes: u32) -> RingEntry<'_> {
        RingEntry { ring: self, number, bytes }
    }

    /// A whole entry.
    #[inline]
    pub(crate) fn whole(&self, number: u32) -> RingEntry<'_> {
        self.entry(number, self.bytes)
    }

    /// The entry after this one.
    #[inline]
    pub(crate) fn next(&self, number: u32) -> u32 {
        if number + 1 >= self.entries { 0 } else { number + 1 }
    }
}

/// An entry of a ring, or its first bytes.
#[derive(Clone, Copy)]
pub(crate) struct RingEntry<'r> {
    ring: &'r Ring,
    number: u32,
    bytes: u32,
}

impl RingEntry<'_> {
    /// The kind of the ring.
    #[inline]
    pub(crate) fn queue(self) -> RingQueue {
        self.ring.queue
    }

    /// The lines that the entry touches.
    #[inline]
    pub(crate) fn lines(self) -> Lines {
        let RingEntry { ring, number, bytes } = self;
        let offset = ring.first + u64::from(number) * u64::from(ring.bytes);
        Lines::of(MemPlace { allocation: ring.queue.allocation(), offset }, u64::from(bytes))
    }
}

/// Bytes of all rings so far, by their kind.
#[derive(Default)]
pub(super) struct Rings {
    send: u64,
    receive: u64,
    completion: u64,
}

impl Rings {
    /// Creates a ring of `entries` entries of `bytes` each.
    pub(super) fn add(&mut self, home: CpuSocket, queue: RingQueue, entries: u32, bytes: u32) -> Ring {
        let entries = entries.max(1);
        let taken = match queue {
            RingQueue::Send => &mut self.send,
            RingQueue::Receive => &mut self.receive,
            RingQueue::Completion => &mut self.completion,
        };
        let first = *taken;
        *taken += (u64::from(entries) * u64::from(bytes)).next_multiple_of(LINE);
        Ring { queue, home, first, entries, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_lie_side_by_side() {
        let mut rings = Rings::default();
        let first = rings.add(0, RingQueue::Receive, 5, 16);
        let second = rings.add(0, RingQueue::Receive, 4, 128);
        assert_eq!(first.whole(3).lines().first, MemPlace { allocation: u32::MAX - 1, offset: 48 });
        assert_eq!(second.whole(1).lines().first.offset, 2 * LINE + 128);
        assert_eq!((second.entry(1, 64).lines().count(), second.whole(1).lines().count()), (1, 2));
        assert_eq!((second.next(2), second.next(3)), (3, 0));
    }
}
