//! The DMA writes of each device that are on their way to memory.

use super::lines::CoreSet;
use super::sockets::CpuSocket;
use crate::core::payload::Payload;
use crate::core::ps::Ps;
use std::collections::VecDeque;

/// What a DMA write writes.
#[derive(Clone, Copy)]
pub(crate) enum WriteData {
    /// Bytes of a payload from this one on; its buffer belongs to the write.
    Payload(Payload, u32),
    /// A word, of an atomic at its target or of its result.
    Word(u64),
}

/// A DMA write under way.
#[derive(Clone, Copy)]
pub(crate) struct DmaWrite {
    /// When its next line becomes visible, and how long after that each other one does.
    pub(crate) at: Ps,
    pub(crate) per_line: Ps,
    pub(crate) addr: u64,
    pub(crate) data: WriteData,
    pub(crate) len: u32,
    /// Bytes that are visible.
    pub(crate) done: u32,
}

impl DmaWrite {
    /// `len` bytes at `addr`, the first of which become visible at `at`.
    pub(crate) fn new(at: Ps, per_line: Ps, addr: u64, data: WriteData, len: u32) -> DmaWrite {
        DmaWrite { at, per_line, addr, data, len, done: 0 }
    }
}

/// The writes of a device.
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
    /// The cores whose threads slept until then.
    pub(crate) woken: CoreSet,
    /// When the next line of the same write does.
    pub(crate) next: Option<Ps>,
}
