//! Contents of a NIC's SRAM: WQEs, QP contexts, address translations.

use crate::core::ps::Ps;
use doorbell_nic::{Caches as CacheSizes, Device, Requests};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A FIFO cache of WQEs. Each WQE is used once and roughly in order of entry, so no other policy would do
/// better.
struct InOrder {
    entries: u64,
    entered: u64,
}

impl InOrder {
    fn of(entries: u32) -> InOrder {
        InOrder { entries: entries.into(), entered: 0 }
    }

    #[inline]
    fn enter(&mut self) -> u64 {
        self.entered += 1;
        self.entered
    }

    #[inline]
    fn holds(&self, number: u64) -> bool {
        self.entered - number < self.entries
    }
}

/// Two caches of send WQEs, or one store. Of the caches, one holds WQEs to be sent. The other holds sent
/// READs and atomics, because the response brings data and the WQE says where the data belongs. The store
/// holds all requests in flight.
pub(crate) struct WqeCache {
    to_send: InOrder,
    asked: InOrder,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Time in the metering window for which units stalled for a WQE that was no longer cached.
    pub(crate) stalled: Ps,
    /// Whether a look-up has ever missed.
    pub(crate) was_short: bool,
    /// Look-ups of the store when a response completes a request; `None` with two caches.
    pub(crate) completed: Option<CompletedLookUps>,
}

/// Look-ups of the WQEs of requests that responses complete.
#[derive(Clone, Copy, Default)]
pub(crate) struct CompletedLookUps {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Time in the metering window for which receiving units stalled for a WQE.
    pub(crate) stalled: Ps,
}

/// Message of a panic if there are two caches of WQEs.
const STORE: &str = "only a store of requests is asked for completed requests";

impl WqeCache {
    fn new(sizes: &CacheSizes, requests: Option<Requests>) -> WqeCache {
        WqeCache {
            to_send: InOrder::of(requests.map_or(sizes.wqe_entries, |store| store.entries)),
            asked: InOrder::of(sizes.read_wqe_entries),
            hits: 0,
            misses: 0,
            stalled: Ps::ZERO,
            was_short: false,
            completed: requests.map(|_| CompletedLookUps::default()),
        }
    }

    /// Misses in the metering window, with those of completed requests.
    pub(super) fn all_misses(&self) -> u64 {
        self.misses + self.completed.map_or(0, |of| of.misses)
    }

    /// Whether there is one store, which keeps requests until they complete.
    #[inline]
    pub(super) fn keeps_requests(&self) -> bool {
        self.completed.is_some()
    }

    /// Looks up the WQE with this number for a request that a response completes. Returns whether the store
    /// still holds it. A missing WQE enters the store again, because the NIC reads it.
    ///
    /// # Panics
    /// If there are two caches.
    pub(super) fn look_up_completed(&mut self, number: u64, counted: bool) -> bool {
        let completed = self.completed.as_mut().expect(STORE);
        let there = self.to_send.holds(number);
        if !there {
            self.was_short = true;
            self.to_send.enter();
        }
        *(if there { &mut completed.hits } else { &mut completed.misses }) += u64::from(counted);
        there
    }

    /// Adds the time for which a receiving unit stalls for a WQE of the store.
    pub(super) fn stalled_completing(&mut self, time: Ps) {
        self.completed.as_mut().expect(STORE).stalled += time;
    }

    /// Enters a WQE that is still to be sent. Returns its number for [`WqeCache::look_up`].
    #[inline]
    pub(super) fn enter(&mut self) -> u64 {
        self.to_send.enter()
    }

    /// Enters the WQE of a sent READ or atomic. Returns its number for [`WqeCache::look_up_asked`].
    #[inline]
    pub(super) fn ask(&mut self) -> u64 {
        self.asked.enter()
    }

    /// Whether the unsent WQE with this number is still cached. Adds to `hits` or `misses` if `counted`.
    #[inline]
    pub(super) fn look_up(&mut self, number: u64, counted: bool) -> bool {
        let there = self.to_send.holds(number);
        self.found(there, counted)
    }

    /// Whether the sent WQE with this number is still cached. Adds to `hits` or `misses` if `counted`.
    #[inline]
    pub(super) fn look_up_asked(&mut self, number: u64, counted: bool) -> bool {
        let there = self.asked.holds(number);
        self.found(there, counted)
    }

    #[inline]
    fn found(&mut self, there: bool, counted: bool) -> bool {
        self.was_short |= !there;
        *(if there { &mut self.hits } else { &mut self.misses }) += u64::from(counted);
        there
    }
}

/// All caches of a device.
pub(crate) struct Caches {
    pub(crate) wqes: WqeCache,
    pub(crate) requester: DrawnCache,
    pub(crate) responder: DrawnCache,
    pub(crate) translations: DrawnCache,
    /// The time until which each of the NIC's context readers is busy.
    readers: Vec<Ps>,
}

impl Caches {
    /// The caches of a NIC. Each processing unit waits for the context that it reads, so no more readers than
    /// units are ever busy.
    pub(super) fn new(device: &Device) -> Caches {
        let (sizes, units) = (&device.caches, device.tx.units + device.rx.units);
        Caches {
            wqes: WqeCache::new(sizes, device.requests),
            requester: DrawnCache::new(sizes.requester_entries as usize),
            responder: DrawnCache::new(sizes.responder_entries as usize),
            translations: DrawnCache::new(sizes.translation_entries as usize),
            readers: vec![Ps::ZERO; sizes.context_reads.min(units) as usize],
        }
    }
}

impl Caches {
    /// Reads a context, which takes `time` once a reader is free. Returns when the context is there.
    pub(super) fn context_read(&mut self, now: Ps, time: Ps) -> Ps {
        let free = self.readers.iter_mut().min().expect("a NIC has a reader of contexts");
        *free = now.max(*free) + time;
        *free
    }
}

const ABSENT: u32 = u32::MAX;

/// A cache of limited size, keyed by small numbers. The evicted entry is drawn at random. The policy of real
/// NICs is not known. With LRU or FIFO, users that take turns never hit as soon as they outnumber the entries
/// by one. With random eviction, the hit rate falls smoothly.
pub(crate) struct DrawnCache {
    capacity: usize,
    /// The key of each entry.
    keys: Vec<u32>,
    /// The entry of each key.
    place: Vec<u32>,
    /// Draws the entry to evict.
    random: SplitMix64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Time in the metering window for which units stalled for entries that were missing.
    pub(crate) stalled: Ps,
    /// Whether an entry was ever evicted.
    pub(crate) was_short: bool,
}

impl DrawnCache {
    pub(crate) fn new(capacity: usize) -> DrawnCache {
        DrawnCache {
            capacity: capacity.max(1),
            keys: Vec::new(),
            place: Vec::new(),
            random: SplitMix64::seed_from_u64(0),
            hits: 0,
            misses: 0,
            stalled: Ps::ZERO,
            was_short: false,
        }
    }

    /// Looks an entry up, and returns whether it was cached. Brings in a missing entry. Adds to `hits` or
    /// `misses` if `counted`.
    #[inline]
    pub(crate) fn touch(&mut self, key: u32, counted: bool) -> bool {
        let there = self.place.get(key as usize).is_some_and(|&place| place != ABSENT);
        *(if there { &mut self.hits } else { &mut self.misses }) += u64::from(counted);
        if !there {
            self.bring_in(key);
        }
        there
    }

    #[inline(never)]
    fn bring_in(&mut self, key: u32) {
        if self.place.len() <= key as usize {
            self.place.resize(key as usize + 1, ABSENT);
        }
        if self.keys.len() < self.capacity {
            self.place[key as usize] = self.keys.len() as u32;
            self.keys.push(key);
            return;
        }
        self.was_short = true;
        let place = ((u128::from(self.random.next_u64()) * self.capacity as u128) >> 64) as usize;
        let evicted = std::mem::replace(&mut self.keys[place], key);
        self.place[evicted as usize] = ABSENT;
        self.place[key as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_makes_room_for_another() {
        let mut c = DrawnCache::new(2);
        assert!(!c.touch(1, true));
        assert!(!c.touch(2, true));
        assert!(c.touch(1, true));
        assert!(!c.touch(3, true));
        assert!(c.touch(3, true));
        let left = [1, 2].map(|key| c.place[key] != ABSENT);
        assert!(left[0] != left[1], "one of them is gone");
        assert_eq!((c.hits, c.misses), (2, 3));
    }

    /// With users that take turns, the hit rate has no cliff at any number of users.
    #[test]
    fn hits_fall_smoothly_with_users() {
        let hits = |users: u32| {
            let mut c = DrawnCache::new(100);
            (0..2000 * users).for_each(|i| {
                c.touch(i % users, i >= 1000 * users);
            });
            c.hits as f64 / (1000 * users) as f64
        };
        let all: Vec<f64> = (96..180).map(hits).collect();
        assert_eq!(all[4], 1.0, "100 fit");
        assert!(all.windows(2).all(|w| w[0] - w[1] < 0.12), "{all:?}");
        // With 160 users an entry is found with probability h: it survives if none of the 160 (1 - h) entries
        // brought in since has replaced it. So h = exp(-1.6 (1 - h)).
        assert!((all[64] - 0.358).abs() < 0.02, "{} of 160", all[64]);
    }

    #[test]
    fn a_working_set_that_fits_is_missed_once() {
        let mut c = DrawnCache::new(100);
        for _ in 0..10 {
            (0..100).for_each(|key| {
                c.touch(key, true);
            });
        }
        assert_eq!((c.hits, c.misses), (900, 100));
    }

    #[test]
    fn random_use_hits_as_often_as_there_is_room() {
        let mut c = DrawnCache::new(100);
        let mut key = 1u64;
        for _ in 0..100_000 {
            key = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            c.touch((key >> 33) as u32 % 400, true);
        }
        assert!((23_000..27_000).contains(&c.hits), "{} hits", c.hits);
    }
}
