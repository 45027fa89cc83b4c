//! DMA reads: what each is for, and which are under way.

use super::qp::EndedSend;
use crate::core::index::{FlightId, QpId, ReadId, RecvQueueId, WqeId};
use crate::core::ps::Ps;
use crate::core::slab::Slab;
use std::collections::VecDeque;

/// What a DMA read is for.
#[derive(Clone, Copy)]
pub(crate) enum ReadPurpose {
    /// Send WQEs that a doorbell announced, from this one on, in this one of the QP's lives.
    SendWqes { qp: QpId, life: u16, first: WqeId, count: u16 },
    /// RECV WQEs.
    RecvWqes { recv_queue: RecvQueueId, count: u16 },
    /// Bytes at `addr` for the payload of a packet, from `into` on.
    Payload { flight: FlightId, addr: u64, into: u32 },
    /// The word of an atomic.
    Atomic { flight: FlightId },
    /// The descriptor of a segment of TCP.
    Segment,
    /// The WQE of a READ or an atomic whose answer has come, to complete it in this one of the QP's lives.
    WqeAgain { qp: QpId, life: u16, ended: EndedSend },
    /// Something that fell out of a cache, or a ring of which nobody counts the reads.
    Refetch,
}

/// A DMA read under way.
#[derive(Clone, Copy)]
pub(crate) struct DmaRead {
    pub(crate) bytes: u32,
    /// How much later it is there, in picoseconds, as its address had to be translated first.
    pub(super) late: u32,
    pub(crate) purpose: ReadPurpose,
}

impl DmaRead {
    pub(super) const fn of(bytes: u32, purpose: ReadPurpose) -> DmaRead {
        DmaRead { bytes, late: 0, purpose }
    }

    /// The same, so much later.
    pub(super) fn late(self, late: Ps) -> DmaRead {
        DmaRead { late: u32::try_from(late.0).unwrap_or(u32::MAX), ..self }
    }

    /// Where it begins, as far as that matters to completions: the entries of rings and the words of atomics cross no boundary.
    pub(crate) fn addr(&self) -> u64 {
        if let ReadPurpose::Payload { addr, .. } = self.purpose { addr } else { 0 }
    }
}

/// The DMA engine: what is under way, and what waits for a tag.
pub(super) struct Dma {
    pub(super) reads: Slab<ReadId, DmaRead>,
    /// Reads that have a tag.
    pub(super) outstanding: u32,
    pub(super) waiting: VecDeque<ReadId>,
}

impl Default for Dma {
    fn default() -> Dma {
        Dma {
            reads: Slab::new(DmaRead::of(0, ReadPurpose::Refetch)),
            outstanding: 0,
            waiting: VecDeque::new(),
        }
    }
}
