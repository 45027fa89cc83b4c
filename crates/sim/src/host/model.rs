//! Which memory a host has: what is behind the one way to it.

use super::flat::Flat;
use super::hierarchy::{Hierarchy, Uncore};
use super::lines::{CoreSet, Sets};
use super::memory::Place;
use super::sockets::{Socket, Sockets};
use crate::core::index::CoreId;
use crate::core::server::Window;
use doorbell_nic::Profile;
use doorbell_nic::cost::CpuCost;
use doorbell_verbs::PageSize;

/// What a profile's host has.
#[expect(clippy::large_enum_variant, reason = "a host has one, and reaches lines through it at each access")]
pub(crate) enum Model {
    /// Caches have no size.
    Flat(Flat),
    /// They have.
    Hierarchy(Box<Hierarchy>),
}

impl Model {
    pub(super) fn new(profile: &Profile, driver: &CpuCost, measured: Window) -> Model {
        match &profile.hierarchy {
            None => Model::Flat(Flat::new(&profile.host, Sockets::of(profile), driver)),
            Some(costs) => Model::Hierarchy(Box::new(Hierarchy::new(costs, &profile.host, measured))),
        }
    }

    pub(super) fn meter(&mut self, window: Window) {
        if let Model::Hierarchy(hierarchy) = self {
            hierarchy.measured = window;
        }
    }

    pub(super) fn allocated(&mut self, (home, zeroed): (Socket, Socket), len: u64, page: PageSize) {
        match self {
            Model::Flat(flat) => flat.allocated(home, zeroed, len),
            Model::Hierarchy(hierarchy) => hierarchy.allocated(page),
        }
    }

    /// Where caches have sizes, these say what they hold.
    pub(super) fn limit_cached(&mut self, allocation: u32, bytes: u64) {
        if let Model::Flat(flat) = self {
            flat.limit_cached(allocation, bytes);
        }
    }

    pub(super) fn holds(&self, place: Place, core: CoreId) -> bool {
        match self {
            Model::Flat(flat) => flat.holds(place, core),
            Model::Hierarchy(hierarchy) => hierarchy.holds(place, core),
        }
    }

    /// Asks our own processor for what is known of a line.
    #[inline]
    pub(super) fn fetch(&self, place: Place) {
        if let Model::Flat(flat) = self {
            flat.fetch(place);
        }
    }

    pub(super) fn at_hand(&self, lines: u64) -> u64 {
        match self {
            Model::Flat(flat) => flat.at_hand(lines),
            Model::Hierarchy(hierarchy) => hierarchy.at_hand(lines),
        }
    }

    pub(super) fn watch(&mut self, place: Place, core: CoreId) {
        match self {
            Model::Flat(flat) => flat.watch(place, core),
            Model::Hierarchy(hierarchy) => hierarchy.watch(place, core),
        }
    }

    pub(super) fn sets(&mut self) -> &mut Sets {
        match self {
            Model::Flat(flat) => &mut flat.sets,
            Model::Hierarchy(hierarchy) => &mut hierarchy.sets,
        }
    }

    /// When a core that begins something else at `at` has done it.
    #[inline]
    pub(super) fn work(&mut self, at: u64, core: CoreId, span: u64) -> u64 {
        match self {
            Model::Flat(_) => at + span,
            Model::Hierarchy(hierarchy) => hierarchy.work(at, core, span),
        }
    }

    /// When all that a core has loaded by `at` is there.
    #[inline]
    pub(super) fn loaded(&mut self, at: u64, core: CoreId) -> u64 {
        match self {
            Model::Flat(_) => at,
            Model::Hierarchy(hierarchy) => hierarchy.loaded(at, core),
        }
    }

    /// When all that a core has loaded and stored by `at` is there.
    #[inline]
    pub(super) fn stored(&mut self, at: u64, core: CoreId) -> u64 {
        match self {
            Model::Flat(_) => at,
            Model::Hierarchy(hierarchy) => hierarchy.stored(at, core),
        }
    }

    /// The cores to wake, beside those that an access names, as a line has changed or has left them.
    #[inline]
    pub(super) fn take_woken(&mut self) -> CoreSet {
        match self {
            Model::Flat(_) => CoreSet::EMPTY,
            Model::Hierarchy(hierarchy) => hierarchy.take_woken(),
        }
    }

    /// What the uncore counted, where caches have sizes.
    pub(super) fn counts(&self) -> Option<Uncore> {
        match self {
            Model::Flat(_) => None,
            Model::Hierarchy(hierarchy) => Some(hierarchy.counts()),
        }
    }
}
