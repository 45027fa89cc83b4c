//! Who reaches which lines of memory how, and what that comes to.

use super::lines::CoreSet;
use super::memory::{LINE, MemPlace, lines_touched};
use super::sockets::CpuSocket;
use crate::core::index::CoreId;
use crate::core::ps::Ps;
use doorbell_verbs::Touch;

/// Who reaches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    /// A core.
    Core(CoreId),
    /// A device at this socket, by DMA.
    Device { socket: CpuSocket },
}

/// What is done to lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessKind {
    /// Loads; of several lines, one after another with the hardware prefetcher's help. A device reads.
    Load,
    /// Stores within one line.
    Store,
    /// An atomic read-modify-write.
    Atomic,
    /// Brings lines in without waiting for them.
    Prefetch,
    /// Looks at a CQE that the NIC has not written.
    Spin,
    /// A core writes lines back to memory, and caches let go of them.
    Flush,
}

/// Lines that follow each other in an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) first: MemPlace,
    /// How many bytes from there on are meant.
    bytes: u64,
}

impl Lines {
    /// The line of a place.
    pub(crate) const fn at(place: MemPlace) -> Lines {
        Lines { first: place, bytes: 1 }
    }

    /// Those that `len` bytes from a place on touch.
    pub(crate) const fn of(place: MemPlace, len: u64) -> Lines {
        Lines { first: place, bytes: len }
    }

    /// How many.
    pub(crate) const fn count(self) -> u64 {
        lines_touched(self.first.offset, self.bytes)
    }

    /// A place in each.
    pub(crate) fn places(self) -> impl Iterator<Item = MemPlace> + use<> {
        let first = self.first;
        (0..self.count()).map(move |i| {
            let offset = if i == 0 { first.offset } else { (first.offset / LINE + i) * LINE };
            MemPlace { offset, ..first }
        })
    }
}

/// What an access comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// When it is done.
    pub(crate) done: Ps,
    /// Cores whose threads slept until one of the lines is written.
    pub(crate) woken: CoreSet,
}

/// The steps of a scan within a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScanSteps {
    pub(crate) touch: Touch,
    pub(crate) accesses: u32,
    pub(crate) instructions: u32,
}
