//! The one way to a host's memory: who reaches which lines how, and what that takes.

use super::memory::{LINE, Place, lines_touched};
use super::model::Model;
use super::rings::Entry;
use super::sockets::Socket;
use super::{CoreSet, Host};
use crate::core::index::CoreId;
use doorbell_verbs::Touch;

/// Who reaches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    /// A core.
    Core(CoreId),
    /// A device at this socket, by DMA.
    Device { socket: Socket },
}

/// What is done to lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
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
    pub(crate) first: Place,
    /// How many bytes from there on are meant.
    bytes: u64,
}

impl Lines {
    /// The line of a place.
    pub(crate) const fn at(place: Place) -> Lines {
        Lines { first: place, bytes: 1 }
    }

    /// Those that `len` bytes from a place on touch.
    pub(crate) const fn of(place: Place, len: u64) -> Lines {
        Lines { first: place, bytes: len }
    }

    /// How many.
    pub(crate) const fn count(self) -> u64 {
        lines_touched(self.first.offset, self.bytes)
    }

    /// A place in each.
    pub(crate) fn places(self) -> impl Iterator<Item = Place> + use<> {
        let first = self.first;
        (0..self.count()).map(move |i| {
            let offset = if i == 0 { first.offset } else { (first.offset / LINE + i) * LINE };
            Place { offset, ..first }
        })
    }
}

/// What an access comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// When it is done, in picoseconds.
    pub(crate) done: u64,
    /// Cores whose threads slept until one of the lines is written.
    pub(crate) woken: CoreSet,
}

impl Host {
    /// Lets `who` reach `lines` of memory at `at` picoseconds. Every load, store, atomic and DMA comes here;
    /// the bytes are the caller's to move.
    #[inline]
    pub(crate) fn access(&mut self, at: u64, who: Agent, lines: Lines, kind: Kind) -> Access {
        let Host { model, cores, .. } = self;
        let Model::Flat(flat) = model else { return self.access_sized(at, who, lines, kind) };
        match who {
            Agent::Core(core) => flat.core(at, core, &mut cores[core].serialized, lines, kind),
            Agent::Device { socket } => flat.device(at, socket, lines, kind),
        }
    }

    /// Lets `who` reach an entry of a ring at `at` picoseconds; returns when it has.
    #[inline]
    pub(crate) fn reach_entry(&mut self, at: u64, who: Agent, entry: Entry<'_>, kind: Kind) -> u64 {
        match (&self.model, who) {
            (Model::Flat(flat), Agent::Core(_)) => at + flat.ring(entry, kind),
            // There the lines of a ring have no state that a device could change.
            (Model::Flat(_), Agent::Device { .. }) => at,
            (Model::Hierarchy(_), _) => self.reach_entry_sized(at, who, entry.lines(), kind),
        }
    }

    /// [`Host::reach_entry`] where caches have sizes.
    #[inline(never)]
    fn reach_entry_sized(&mut self, at: u64, who: Agent, lines: Lines, kind: Kind) -> u64 {
        match &mut self.model {
            Model::Hierarchy(hierarchy) if !hierarchy.io_coherent() => {
                hierarchy.uncached(at, who, lines, kind)
            }
            _ => self.access_sized(at, who, lines, kind).done,
        }
    }

    /// [`Host::access`] where caches have sizes.
    #[inline(never)]
    fn access_sized(&mut self, at: u64, who: Agent, lines: Lines, kind: Kind) -> Access {
        let Model::Hierarchy(hierarchy) = &mut self.model else { unreachable!("the other model was asked") };
        let access = match who {
            Agent::Core(core) => hierarchy.core(at, core, lines, kind),
            Agent::Device { socket: _ } => hierarchy.device(at, lines, kind),
        };
        self.write_back();
        access
    }

    /// Lets a core access a line so many times, with so many instructions for each, none of which waits for
    /// another.
    pub(crate) fn scan(&mut self, at: u64, core: CoreId, line: Place, steps: Steps) -> Access {
        let Host { model, cores, .. } = self;
        let access = match model {
            Model::Flat(flat) => flat.scan(at, core, &mut cores[core].serialized, line, steps),
            Model::Hierarchy(hierarchy) => hierarchy.scan(at, core, line, steps),
        };
        self.write_back();
        access
    }
}

/// The steps of a scan within a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    pub(crate) touch: Touch,
    pub(crate) accesses: u32,
    pub(crate) instructions: u32,
}
