//! The one way to a host's memory.

use super::machine::Host;
use super::memory::Place;
use super::model::Model;
use super::reach::{Access, Agent, Kind, Lines, Steps};
use super::rings::Entry;
use crate::core::index::CoreId;

impl Host {
    /// Lets `who` reach `lines` of memory at `at` picoseconds. Every load, store, atomic and DMA comes here;
    /// the bytes are the caller's to move.
    #[inline]
    pub(crate) fn access(&mut self, at: u64, who: Agent, lines: Lines, kind: Kind) -> Access {
        let Model::Flat(flat) = &mut self.model else { return self.access_sized(at, who, lines, kind) };
        match who {
            Agent::Core(core) => flat.core(at, core, lines, kind),
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
        let access = match &mut self.model {
            Model::Flat(flat) => flat.scan(at, core, line, steps),
            Model::Hierarchy(hierarchy) => hierarchy.scan(at, core, line, steps),
        };
        self.write_back();
        access
    }
}
