//! Accesses to a host's memory.

use super::machine::Host;
use super::memory::MemPlace;
use super::model::MemoryModel;
use super::reach::{Access, AccessKind, Agent, Lines, ScanSteps};
use super::rings::RingEntry;
use crate::core::index::CoreId;
use crate::core::ps::Ps;

impl Host {
    /// Lets agent `who` access `lines` of memory at `at`. Every load, store, atomic and DMA goes through
    /// here. Moving the bytes is up to the caller.
    #[inline]
    pub(crate) fn access(&mut self, at: Ps, who: Agent, lines: Lines, kind: AccessKind) -> Access {
        let MemoryModel::Flat(flat) = &mut self.model else { return self.access_sized(at, who, lines, kind) };
        match who {
            Agent::Core(core) => flat.core(at, core, lines, kind),
            Agent::Device { socket } => flat.device(at, socket, lines, kind),
        }
    }

    /// Lets agent `who` access an entry of a ring at `at`. Returns when the access is done.
    #[inline]
    pub(crate) fn reach_entry(&mut self, at: Ps, who: Agent, entry: RingEntry<'_>, kind: AccessKind) -> Ps {
        match (&self.model, who) {
            (MemoryModel::Flat(flat), Agent::Core(_)) => at + flat.ring(entry, kind),
            // In the flat model, a ring's lines have no state that a device could change.
            (MemoryModel::Flat(_), Agent::Device { .. }) => at,
            (MemoryModel::Hierarchy(_), _) => self.reach_entry_sized(at, who, entry.lines(), kind),
        }
    }

    /// [`Host::reach_entry`] with cache sizes.
    #[inline(never)]
    fn reach_entry_sized(&mut self, at: Ps, who: Agent, lines: Lines, kind: AccessKind) -> Ps {
        match &mut self.model {
            MemoryModel::Hierarchy(hierarchy) if !hierarchy.io_coherent() => {
                hierarchy.uncached(at, who, lines, kind)
            }
            _ => self.access_sized(at, who, lines, kind).done,
        }
    }

    /// [`Host::access`] with cache sizes.
    #[inline(never)]
    fn access_sized(&mut self, at: Ps, who: Agent, lines: Lines, kind: AccessKind) -> Access {
        let MemoryModel::Hierarchy(hierarchy) = &mut self.model else {
            unreachable!("a host with cache sizes has the model Hierarchy")
        };
        let access = match who {
            Agent::Core(core) => hierarchy.core(at, core, lines, kind),
            Agent::Device { socket: _ } => hierarchy.device(at, lines, kind),
        };
        self.write_back();
        access
    }

    /// Lets a core access a line several times, with instructions in between. None of the accesses waits for
    /// another.
    pub(crate) fn scan(&mut self, at: Ps, core: CoreId, line: MemPlace, steps: ScanSteps) -> Access {
        let access = match &mut self.model {
            MemoryModel::Flat(flat) => flat.scan(at, core, line, steps),
            MemoryModel::Hierarchy(hierarchy) => hierarchy.scan(at, core, line, steps),
        };
        self.write_back();
        access
    }
}
