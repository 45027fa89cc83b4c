//! The memory model of a host.

use super::flat::Flat;
use super::hierarchy::{Hierarchy, Uncore};
use super::lines::{CoreSet, Sets};
use super::memory::MemPlace;
use super::sockets::{CpuSocket, Sockets};
use crate::core::index::CoreId;
use crate::core::ps::Ps;
use crate::core::server::MeterWindow;
use doorbell_nic::Profile;
use doorbell_nic::cost::CpuCost;
use doorbell_verbs::PageSize;

/// The memory model that a profile selects.
#[expect(clippy::large_enum_variant, reason = "a host has one, and reaches lines through it at each access")]
pub(crate) enum MemoryModel {
    /// Without cache sizes.
    Flat(Flat),
    /// With cache sizes.
    Hierarchy(Box<Hierarchy>),
}

impl MemoryModel {
    pub(super) fn new(profile: &Profile, driver: &CpuCost, measured: MeterWindow) -> MemoryModel {
        match &profile.hierarchy {
            None => MemoryModel::Flat(Flat::new(&profile.host, Sockets::of(profile), driver)),
            Some(costs) => MemoryModel::Hierarchy(Box::new(Hierarchy::new(costs, &profile.host, measured))),
        }
    }

    pub(super) fn meter(&mut self, window: MeterWindow) {
        if let MemoryModel::Hierarchy(hierarchy) = self {
            hierarchy.measured = window;
        }
    }

    pub(super) fn allocated(&mut self, (home, zeroed): (CpuSocket, CpuSocket), len: u64, page: PageSize) {
        match self {
            MemoryModel::Flat(flat) => flat.allocated(home, zeroed, len),
            MemoryModel::Hierarchy(hierarchy) => hierarchy.allocated(page),
        }
    }

    /// Limits the cached bytes of an allocation. With cache sizes, the caches themselves set the limit.
    pub(super) fn limit_cached(&mut self, allocation: u32, bytes: u64) {
        if let MemoryModel::Flat(flat) = self {
            flat.limit_cached(allocation, bytes);
        }
    }

    pub(super) fn holds(&self, place: MemPlace, core: CoreId) -> bool {
        match self {
            MemoryModel::Flat(flat) => flat.holds(place, core),
            MemoryModel::Hierarchy(hierarchy) => hierarchy.holds(place, core),
        }
    }

    /// Prefetches the state of a line into the simulating processor's cache.
    #[inline]
    pub(super) fn fetch(&self, place: MemPlace) {
        if let MemoryModel::Flat(flat) = self {
            flat.fetch(place);
        }
    }

    pub(super) fn at_hand(&self, lines: u64) -> Ps {
        match self {
            MemoryModel::Flat(flat) => flat.at_hand(lines),
            MemoryModel::Hierarchy(hierarchy) => hierarchy.at_hand(lines),
        }
    }

    pub(super) fn watch(&mut self, place: MemPlace, core: CoreId) {
        match self {
            MemoryModel::Flat(flat) => flat.watch(place, core),
            MemoryModel::Hierarchy(hierarchy) => hierarchy.watch(place, core),
        }
    }

    pub(super) fn sets(&mut self) -> &mut Sets {
        match self {
            MemoryModel::Flat(flat) => &mut flat.sets,
            MemoryModel::Hierarchy(hierarchy) => &mut hierarchy.sets,
        }
    }

    /// Lets a core do other work of length `span` from `at` on. Returns when the work is done.
    #[inline]
    pub(super) fn work(&mut self, at: Ps, core: CoreId, span: Ps) -> Ps {
        match self {
            MemoryModel::Flat(_) => at + span,
            MemoryModel::Hierarchy(hierarchy) => hierarchy.work(at, core, span),
        }
    }

    /// When everything that a core has loaded by `at` is there.
    #[inline]
    pub(super) fn loaded(&mut self, at: Ps, core: CoreId) -> Ps {
        match self {
            MemoryModel::Flat(_) => at,
            MemoryModel::Hierarchy(hierarchy) => hierarchy.loaded(at, core),
        }
    }

    /// When everything that a core has loaded and stored by `at` is there.
    #[inline]
    pub(super) fn stored(&mut self, at: Ps, core: CoreId) -> Ps {
        match self {
            MemoryModel::Flat(_) => at,
            MemoryModel::Hierarchy(hierarchy) => hierarchy.stored(at, core),
        }
    }

    /// Takes the cores to wake because a line has changed or left their caches, in addition to the woken
    /// cores that accesses return.
    #[inline]
    pub(super) fn take_woken(&mut self) -> CoreSet {
        match self {
            MemoryModel::Flat(_) => CoreSet::EMPTY,
            MemoryModel::Hierarchy(hierarchy) => hierarchy.take_woken(),
        }
    }

    /// Counts of the uncore; none without cache sizes.
    pub(super) fn counts(&self) -> Option<Uncore> {
        match self {
            MemoryModel::Flat(_) => None,
            MemoryModel::Hierarchy(hierarchy) => Some(hierarchy.counts()),
        }
    }
}
