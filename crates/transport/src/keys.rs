//! The table of memory regions, and the checks of every access.

use doorbell_verbs::AccessFlags;
use thiserror::Error;

/// A registered memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Protection domain.
    pub pd: u32,
    /// First virtual address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Rights.
    pub access: AccessFlags,
}

impl Region {
    /// Checks that a QP or SRQ of protection domain `pd` may access `len` bytes at `addr` with all rights in
    /// `need`. Reads by the local device need no right.
    pub fn check(&self, pd: u32, addr: u64, len: u64, need: AccessFlags) -> Result<(), KeyError> {
        if self.pd != pd {
            return Err(KeyError::ProtectionDomain);
        }
        let offset = addr.checked_sub(self.addr).ok_or(KeyError::Bounds)?;
        if offset > self.len || len > self.len - offset {
            return Err(KeyError::Bounds);
        }
        if !self.access.contains(need) {
            return Err(KeyError::Rights);
        }
        Ok(())
    }
}

/// The reason why an access was refused. If several reasons apply, it is the first of them in the order of
/// the variants (IB specification vol. 1, 10.6.3 and 9.7.5.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// No region has this key.
    #[error("no memory region has this key")]
    Unknown,
    /// The region belongs to another protection domain.
    #[error("the memory region belongs to another protection domain")]
    ProtectionDomain,
    /// Not all of the bytes lie within the region.
    #[error("the access extends beyond the memory region")]
    Bounds,
    /// The region does not grant this kind of access.
    #[error("the memory region does not grant this access")]
    Rights,
}

/// Memory regions by key. The lkey and the rkey of a region are one number.
///
/// A key is the slot's number plus one (24 bits) and a tag (8 bits). The tag changes with each use of the
/// slot, so a stale key finds nothing until the tag wraps around.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    slots: Vec<KeySlot>,
    free: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct KeySlot {
    region: Option<Region>,
    /// Low 8 bits of the key of the current region, or of the next one.
    tag: u8,
}

impl Keys {
    /// Adds a region and returns its key, which is never 0.
    ///
    /// # Panics
    /// If there are 2^24 - 1 regions already; no driver allows so many.
    pub fn register(&mut self, region: Region) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(KeySlot::default());
            (self.slots.len() - 1) as u32
        });
        assert!(number < (1 << 24) - 1, "more than 2^24 - 1 memory regions");
        let slot = &mut self.slots[number as usize];
        slot.region = Some(region);
        (number + 1) << 8 | u32::from(slot.tag)
    }

    /// Removes a region. Returns `false` if no region has this key.
    pub fn deregister(&mut self, key: u32) -> bool {
        let Some(slot) = self.slot_mut(key) else { return false };
        slot.region = None;
        slot.tag = slot.tag.wrapping_add(1);
        self.free.push((key >> 8) - 1);
        true
    }

    /// Changes the region with this key (ibv_rereg_mr(3)). Returns `false` if there is none.
    pub fn replace(&mut self, key: u32, region: Region) -> bool {
        let Some(slot) = self.slot_mut(key) else { return false };
        slot.region = Some(region);
        true
    }

    /// Gives the region with this key another tag and returns the new key. Each bind of a memory window does
    /// this.
    pub fn retag(&mut self, key: u32, tag: u8) -> Option<u32> {
        self.slot_mut(key)?.tag = tag;
        Some(key & !0xff | u32::from(tag))
    }

    /// The region with this key.
    #[inline]
    pub fn get(&self, key: u32) -> Option<&Region> {
        let slot = self.slots.get(Keys::slot_of(key)?)?;
        if slot.tag == key as u8 { slot.region.as_ref() } else { None }
    }

    /// Calls [`Region::check`] for the region with this key.
    pub fn check(&self, key: u32, pd: u32, addr: u64, len: u64, need: AccessFlags) -> Result<(), KeyError> {
        self.get(key).ok_or(KeyError::Unknown)?.check(pd, addr, len, need)
    }

    /// The slot of a key, regardless of its tag; `None` if no slot has such a key.
    pub const fn slot_of(key: u32) -> Option<usize> {
        ((key >> 8) as usize).checked_sub(1)
    }

    /// The slot of the region with this key.
    fn slot_mut(&mut self, key: u32) -> Option<&mut KeySlot> {
        let slot = self.slots.get_mut(Keys::slot_of(key)?)?;
        (slot.tag == key as u8 && slot.region.is_some()).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(addr: u64, len: u64) -> Region {
        Region { pd: 1, addr, len, access: AccessFlags::REMOTE_READ }
    }

    #[test]
    fn the_first_fault_in_order_is_reported() {
        let mut keys = Keys::default();
        let key = keys.register(region(100, 50));
        let rights = AccessFlags::REMOTE_WRITE;
        assert_ne!(key, 0);
        assert_eq!(keys.check(key, 1, 100, 50, AccessFlags::REMOTE_READ), Ok(()));
        assert_eq!(keys.check(key, 1, 150, 0, AccessFlags::empty()), Ok(()));
        assert_eq!(keys.check(key + 1, 2, 0, 1, rights), Err(KeyError::Unknown));
        assert_eq!(keys.check(0, 1, 100, 1, AccessFlags::empty()), Err(KeyError::Unknown));
        assert_eq!(keys.check(key, 2, 0, 1, rights), Err(KeyError::ProtectionDomain));
        assert_eq!(keys.check(key, 1, 99, 1, rights), Err(KeyError::Bounds));
        assert_eq!(keys.check(key, 1, 101, 50, rights), Err(KeyError::Bounds));
        assert_eq!(keys.check(key, 1, 151, 0, rights), Err(KeyError::Bounds));
        assert_eq!(keys.check(key, 1, 100, u64::MAX, rights), Err(KeyError::Bounds));
        assert_eq!(keys.check(key, 1, 100, 50, rights), Err(KeyError::Rights));
    }

    #[test]
    fn a_region_may_end_at_the_last_address() {
        let mut keys = Keys::default();
        let key = keys.register(region(u64::MAX - 7, 8));
        assert_eq!(keys.check(key, 1, u64::MAX - 7, 8, AccessFlags::empty()), Ok(()));
        assert_eq!(keys.check(key, 1, u64::MAX - 6, 8, AccessFlags::empty()), Err(KeyError::Bounds));
    }

    #[test]
    fn a_region_can_be_replaced_while_it_is_there() {
        let mut keys = Keys::default();
        let key = keys.register(region(0, 8));
        assert!(keys.replace(key, region(16, 8)));
        assert_eq!(keys.get(key), Some(&region(16, 8)));
        assert!(keys.deregister(key));
        assert!(!keys.replace(key, region(0, 8)));
        assert_eq!(keys.get(key), None);
    }

    #[test]
    fn a_tag_is_what_it_is_set_to() {
        let mut keys = Keys::default();
        let old = keys.register(region(0, 8));
        let new = keys.retag(old, 0x77).expect("there is a region");
        assert_eq!(new, old & !0xff | 0x77);
        assert_eq!((keys.get(old), keys.get(new)), (None, Some(&region(0, 8))));
        assert_eq!(keys.retag(old, 1), None);
        assert!(keys.deregister(new));
    }

    #[test]
    fn stale_keys_find_nothing() {
        let mut keys = Keys::default();
        let old = keys.register(region(0, 8));
        assert!(keys.deregister(old));
        assert!(!keys.deregister(old));
        let new = keys.register(region(0, 8));
        assert_ne!(old, new);
        assert_eq!(keys.get(old), None);
        assert!(keys.get(new).is_some());
    }
}
