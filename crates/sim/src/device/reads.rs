//! DMA reads: their purposes, and the reads in flight.

use super::qp::EndedSend;
use crate::core::index::{FlightId, QpId, ReadId, RecvQueueId, WqeId};
use crate::core::ps::Ps;
use crate::core::server::MeterWindow;
use crate::core::slab::Slab;
use std::collections::VecDeque;

/// The purpose of a DMA read.
#[derive(Clone, Copy)]
pub(crate) enum ReadPurpose {
    /// Send WQEs that a doorbell announced, from `first` on, in life `life` of the QP.
    SendWqes { qp: QpId, life: u16, first: WqeId, count: u16 },
    /// RECV WQEs.
    RecvWqes { recv_queue: RecvQueueId, count: u16 },
    /// Bytes at `addr` for the payload of a packet, to be stored from offset `into` on.
    Payload { flight: FlightId, addr: u64, into: u32 },
    /// The word of an atomic.
    Atomic { flight: FlightId },
    /// The descriptor of a TCP segment.
    Segment,
    /// The WQE of a READ or an atomic, read again to complete it after its response. `life` is the QP's life.
    WqeAgain { qp: QpId, life: u16, ended: EndedSend },
    /// Something evicted from a cache, or a ring whose reads are not simulated in detail.
    Refetch,
}

/// A DMA read in flight.
#[derive(Clone, Copy)]
pub(crate) struct DmaRead {
    pub(crate) bytes: u32,
    /// Picoseconds by which the read is late, because its address had to be translated first.
    pub(super) late: u32,
    pub(crate) purpose: ReadPurpose,
}

impl DmaRead {
    pub(super) const fn of(bytes: u32, purpose: ReadPurpose) -> DmaRead {
        DmaRead { bytes, late: 0, purpose }
    }

    /// This read, delayed by `late`.
    pub(super) fn late(self, late: Ps) -> DmaRead {
        DmaRead { late: u32::try_from(late.0).unwrap_or(u32::MAX), ..self }
    }

    /// An address by which the read's data are split into completions. Entries of rings and words of atomics
    /// cross no boundary of completions, so 0 stands for their address.
    pub(crate) fn addr(&self) -> u64 {
        if let ReadPurpose::Payload { addr, .. } = self.purpose { addr } else { 0 }
    }
}

/// The DMA engine: reads in flight, and reads that wait for a tag.
pub(crate) struct Dma {
    pub(super) reads: Slab<ReadId, DmaRead>,
    /// Number of reads that have a tag.
    pub(super) outstanding: u32,
    pub(super) waiting: VecDeque<ReadId>,
    /// Since when some reads have waited for a tag without a break. Only valid while `waiting` is not empty.
    short_since: Ps,
    /// Time in the metering window for which some reads waited for a tag, up to `short_since`.
    short: Ps,
}

impl Dma {
    /// Queues a read until a tag is free.
    #[cold]
    pub(super) fn wait_for_tag(&mut self, now: Ps, read: ReadId) {
        if self.waiting.is_empty() {
            self.short_since = now;
        }
        self.waiting.push_back(read);
    }

    /// Removes the read that has waited longest for a tag.
    #[inline]
    pub(super) fn next_for_tag(&mut self, now: Ps, window: MeterWindow) -> Option<ReadId> {
        let next = self.waiting.pop_front()?;
        if self.waiting.is_empty() {
            self.short += window.overlap(self.short_since, now);
        }
        Some(next)
    }

    /// Time in the metering window for which some reads waited for a tag.
    pub(crate) fn short_of_tags(&self, window: MeterWindow) -> Ps {
        match self.waiting.is_empty() {
            true => self.short,
            false => self.short + window.overlap(self.short_since, window.to.max(self.short_since)),
        }
    }
}

impl Default for Dma {
    fn default() -> Dma {
        Dma {
            reads: Slab::new(DmaRead::of(0, ReadPurpose::Refetch)),
            outstanding: 0,
            waiting: VecDeque::new(),
            short_since: Ps::ZERO,
            short: Ps::ZERO,
        }
    }
}
