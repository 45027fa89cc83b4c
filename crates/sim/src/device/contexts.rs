//! What a NIC keeps in its SRAM: WQEs, QP contexts, address translations; and what had to be fetched
//! again.

use super::Device;
use super::dma::{DmaRead, ReadPurpose};
use crate::core::index::{Id, QpId};
use crate::host::{ALLOCATED, Host, Place};
use crate::world::Env;
use doorbell_nic::Caches as Sizes;

/// The cache of send WQEs: they leave in the order in which they came.
pub(crate) struct WqeCache {
    entries: u64,
    entered: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Some look-up has ever missed.
    pub(crate) was_short: bool,
}

impl WqeCache {
    /// A WQE comes in; returns its number, by which it is looked up.
    #[inline]
    pub(super) fn enter(&mut self) -> u64 {
        self.entered += 1;
        self.entered
    }

    /// Whether the WQE with this number is still there. `counted` says whether the look-up counts.
    #[inline]
    pub(super) fn look_up(&mut self, number: u64, counted: bool) -> bool {
        let there = self.entered - number < self.entries;
        self.was_short |= !there;
        *(if there { &mut self.hits } else { &mut self.misses }) += u64::from(counted);
        there
    }
}

/// All caches of a device.
pub(crate) struct Caches {
    pub(crate) wqes: WqeCache,
    pub(crate) requester: Cache,
    pub(crate) responder: Cache,
    pub(crate) translations: Cache,
}

impl Caches {
    pub(super) fn new(sizes: &Sizes) -> Caches {
        Caches {
            wqes: WqeCache {
                entries: sizes.wqe_entries.into(),
                entered: 0,
                hits: 0,
                misses: 0,
                was_short: false,
            },
            requester: Cache::new(sizes.requester_entries as usize),
            responder: Cache::new(sizes.responder_entries as usize),
            translations: Cache::new(sizes.translation_entries as usize),
        }
    }
}

impl Device {
    /// Looks up a QP context; returns how long the unit stands still for it.
    pub(super) fn context(&mut self, env: &mut Env, qp: QpId, requester: bool) -> u64 {
        let cache = if requester { &mut self.caches.requester } else { &mut self.caches.responder };
        if cache.touch(qp.index() as u32, env.counts()) {
            return 0;
        }
        self.refetch(env, self.profile.caches.context);
        self.costs.send.context_stall
    }

    /// Looks up the translation of an address, and reads it where it is missing; returns the place.
    pub(super) fn translate(&mut self, host: &Host, env: &mut Env, addr: u64) -> Place {
        let place = host.memory.place(addr, 0).expect(ALLOCATED);
        if !self.caches.translations.touch(host.memory.page(place), env.counts()) {
            self.refetch(env, self.profile.caches.translation);
        }
        place
    }

    /// Reads again what fell out of a cache; only its traffic matters.
    pub(super) fn refetch(&mut self, env: &mut Env, bytes: u32) {
        self.start_read(env, DmaRead { bytes, purpose: ReadPurpose::Refetch });
    }
}

const ABSENT: u32 = u32::MAX;

/// Entries of limited number, named by small numbers. Who has not been used for a round of the
/// clock makes room (an approximation of least recently used that costs no list).
pub(crate) struct Cache {
    capacity: usize,
    slots: Vec<Slot>,
    /// Slot of each key.
    place: Vec<u32>,
    hand: usize,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// An entry has ever had to make room.
    pub(crate) was_short: bool,
}

struct Slot {
    key: u32,
    used: bool,
}

impl Cache {
    pub(crate) fn new(capacity: usize) -> Cache {
        Cache {
            capacity: capacity.max(1),
            slots: Vec::new(),
            place: Vec::new(),
            hand: 0,
            hits: 0,
            misses: 0,
            was_short: false,
        }
    }

    /// Uses an entry; brings it in and returns false where it was missing. `counted` says whether
    /// the look-up counts.
    #[inline]
    pub(crate) fn touch(&mut self, key: u32, counted: bool) -> bool {
        if let Some(&slot) = self.place.get(key as usize)
            && slot != ABSENT
        {
            self.slots[slot as usize].used = true;
            self.hits += u64::from(counted);
            return true;
        }
        self.misses += u64::from(counted);
        self.bring_in(key);
        false
    }

    #[inline(never)]
    fn bring_in(&mut self, key: u32) {
        if self.place.len() <= key as usize {
            self.place.resize(key as usize + 1, ABSENT);
        }
        let new = Slot { key, used: true };
        if self.slots.len() < self.capacity {
            self.place[key as usize] = self.slots.len() as u32;
            self.slots.push(new);
            return;
        }
        self.was_short = true;
        while std::mem::take(&mut self.slots[self.hand].used) {
            self.hand = (self.hand + 1) % self.capacity;
        }
        self.place[self.slots[self.hand].key as usize] = ABSENT;
        self.place[key as usize] = self.hand as u32;
        self.slots[self.hand] = new;
        self.hand = (self.hand + 1) % self.capacity;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_used_makes_room() {
        let mut c = Cache::new(2);
        assert!(!c.touch(1, true));
        assert!(!c.touch(2, true));
        assert!(c.touch(1, true));
        // Both were used; the hand comes by and takes the first.
        assert!(!c.touch(3, true));
        assert!(!c.touch(1, true));
        assert!(c.touch(3, true));
        assert_eq!((c.hits, c.misses), (2, 4));
    }

    #[test]
    fn a_working_set_that_fits_is_missed_once() {
        let mut c = Cache::new(100);
        for _ in 0..10 {
            (0..100).for_each(|key| {
                c.touch(key, true);
            });
        }
        assert_eq!((c.hits, c.misses), (900, 100));
    }

    #[test]
    fn random_use_hits_as_often_as_there_is_room() {
        let mut c = Cache::new(100);
        let mut key = 1u64;
        for _ in 0..100_000 {
            key = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            c.touch((key >> 33) as u32 % 400, true);
        }
        assert!((23_000..27_000).contains(&c.hits), "{} hits", c.hits);
    }
}
