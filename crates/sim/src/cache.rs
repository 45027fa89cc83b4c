//! A NIC's caches: what is in them, and what had to be fetched again.

use rustc_hash::FxHashMap;

const NONE: u32 = u32::MAX;

/// Keys of limited number, the least recently used leaving first. Its memory grows to `capacity`
/// entries and stays.
pub(crate) struct LruCache {
    capacity: usize,
    slots: Vec<Slot>,
    index: FxHashMap<u64, u32>,
    newest: u32,
    oldest: u32,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

struct Slot {
    key: u64,
    newer: u32,
    older: u32,
}

impl LruCache {
    pub(crate) fn new(capacity: usize) -> LruCache {
        LruCache {
            capacity: capacity.max(1),
            slots: Vec::new(),
            index: FxHashMap::default(),
            newest: NONE,
            oldest: NONE,
            hits: 0,
            misses: 0,
        }
    }

    fn unlink(&mut self, i: u32) {
        let Slot { newer, older, .. } = self.slots[i as usize];
        match newer {
            NONE => self.newest = older,
            n => self.slots[n as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            o => self.slots[o as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, i: u32) {
        let old = self.newest;
        self.slots[i as usize].newer = NONE;
        self.slots[i as usize].older = old;
        match old {
            NONE => self.oldest = i,
            o => self.slots[o as usize].newer = i,
        }
        self.newest = i;
    }

    /// Uses an entry; brings it in and returns false where it was missing. `count` says whether
    /// the look-up counts.
    pub(crate) fn touch(&mut self, key: u64, count: bool) -> bool {
        if self.newest != NONE && self.slots[self.newest as usize].key == key {
            self.hits += u64::from(count);
            return true;
        }
        if let Some(&i) = self.index.get(&key) {
            self.unlink(i);
            self.link_newest(i);
            self.hits += u64::from(count);
            return true;
        }
        self.misses += u64::from(count);
        self.insert(key);
        false
    }

    /// Brings an entry in that is known to be missing.
    fn insert(&mut self, key: u64) {
        let i = if self.slots.len() < self.capacity {
            self.slots.push(Slot { key, newer: NONE, older: NONE });
            (self.slots.len() - 1) as u32
        } else {
            let i = self.oldest;
            self.unlink(i);
            self.index.remove(&self.slots[i as usize].key);
            self.slots[i as usize].key = key;
            i
        };
        self.link_newest(i);
        self.index.insert(key, i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_leaves() {
        let mut c = LruCache::new(2);
        assert!(!c.touch(1, true));
        assert!(!c.touch(2, true));
        assert!(c.touch(1, true));
        assert!(!c.touch(3, true));
        assert!(c.touch(1, true));
        assert!(!c.touch(2, true));
        assert_eq!((c.hits, c.misses), (2, 4));
    }
}
