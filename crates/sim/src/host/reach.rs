//! Accesses to memory: the agent, the lines, the kind of access, and its result.

use super::lines::CoreSet;
use super::memory::{LINE, MemPlace, lines_touched};
use super::sockets::CpuSocket;
use crate::core::index::CoreId;
use crate::core::ps::Ps;
use doorbell_verbs::Touch;

/// An agent that accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    /// A core of the host.
    Core(CoreId),
    /// A device at this socket, which uses DMA.
    Device { socket: CpuSocket },
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessKind {
    /// A load. Several lines are loaded one after another with the hardware prefetcher's help. For a device:
    /// a DMA read.
    Load,
    /// A store within one line. For a device: a DMA write.
    Store,
    /// An atomic read-modify-write.
    Atomic,
    /// Fetches lines without waiting for them.
    Prefetch,
    /// A poll of a CQE that the NIC has not written.
    Spin,
    /// A core writes lines back to memory, and caches drop them.
    Flush,
}

/// Consecutive lines of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) first: MemPlace,
    /// Number of bytes accessed, from `first` on.
    bytes: u64,
}

impl Lines {
    /// The line of a place.
    pub(crate) const fn at(place: MemPlace) -> Lines {
        Lines { first: place, bytes: 1 }
    }

    /// The lines that `len` bytes from a place on touch.
    pub(crate) const fn of(place: MemPlace, len: u64) -> Lines {
        Lines { first: place, bytes: len }
    }

    /// Number of lines.
    pub(crate) const fn count(self) -> u64 {
        lines_touched(self.first.offset, self.bytes)
    }

    /// One place in each line.
    pub(crate) fn places(self) -> impl Iterator<Item = MemPlace> + use<> {
        let first = self.first;
        (0..self.count()).map(move |i| {
            let offset = if i == 0 { first.offset } else { (first.offset / LINE + i) * LINE };
            MemPlace { offset, ..first }
        })
    }
}

/// The result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// When the access is done.
    pub(crate) done: Ps,
    /// Cores whose threads slept until one of the lines was written.
    pub(crate) woken: CoreSet,
}

/// The steps of a scan within a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScanSteps {
    pub(crate) touch: Touch,
    pub(crate) accesses: u32,
    pub(crate) instructions: u32,
}
