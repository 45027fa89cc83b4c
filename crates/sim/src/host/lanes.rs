//! The DMA writes of each device on their way to memory.

use super::lines::CoreSet;
use super::sockets::CpuSocket;
use crate::core::payload::Payload;
use crate::core::ps::Ps;
use std::collections::VecDeque;

/// The data of a DMA write.
#[derive(Clone, Copy)]
pub(crate) enum WriteData {
    /// Bytes of a payload, from this offset on. The payload's buffer belongs to the write.
    Payload(Payload, u32),
    /// A word: an atomic's target, or its result.
    Word(u64),
}

/// A DMA write in flight.
#[derive(Clone, Copy)]
pub(crate) struct DmaWrite {
    /// When the next line becomes visible, and the time from one line to the next.
    pub(crate) at: Ps,
    pub(crate) per_line: Ps,
    pub(crate) addr: u64,
    pub(crate) data: WriteData,
    pub(crate) len: u32,
    /// Number of bytes that are visible.
    pub(crate) done: u32,
}

impl DmaWrite {
    /// A write of `len` bytes at `addr`. The first line becomes visible at `at`, each further line `per_line`
    /// later.
    pub(crate) fn new(at: Ps, per_line: Ps, addr: u64, data: WriteData, len: u32) -> DmaWrite {
        DmaWrite { at, per_line, addr, data, len, done: 0 }
    }
}

/// The DMA writes of a device, in order.
pub(super) struct WriteLane {
    pub(super) socket: CpuSocket,
    pub(super) writes: VecDeque<DmaWrite>,
}

impl WriteLane {
    pub(super) fn new(socket: CpuSocket) -> WriteLane {
        WriteLane { socket, writes: VecDeque::new() }
    }
}

/// A line that has become visible.
pub(crate) struct VisibleLine {
    /// Cores whose threads slept until the line became visible.
    pub(crate) woken: CoreSet,
    /// When the next line of this write becomes visible, if there is one.
    pub(crate) next: Option<Ps>,
}
