//! The memory regions of this process, and the lookup of peers' regions.

use super::arena;
use super::objects::{HostMemory, Object};
use super::records::{MRS, MrRecord};
use super::segment::Segment;
use super::window::{PD_END, Window, domain_like};
use crate::errno::{EINVAL, ENOMEM, Errno};
use crate::sync::lock;
use doorbell_transport::{KeyError, Keys, Region};
use doorbell_verbs::AccessFlags;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{PoisonError, RwLock};

/// A memory region or window, and the location of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) key: u32,
    /// The sequence number of the region's record, for a peer's region.
    pub(crate) changes: u32,
    pub(crate) region: Region,
    /// Address of the region's first byte in the process that owns the region, and the memory object of this
    /// byte.
    pub(crate) host: u64,
    pub(crate) object: Object,
    /// Offset of the first byte in the segment of that process, if the region lies in its arena.
    pub(crate) shared: Option<u64>,
}

impl Place {
    /// Slot of the region in the table of regions.
    pub(crate) fn slot(&self) -> usize {
        Keys::slot_of(self.key).unwrap_or(0)
    }

    /// Checks an access to the region, and returns the offset of the access's first byte in the region.
    #[inline]
    pub(crate) fn check(&self, pd: u32, addr: u64, len: u64, need: AccessFlags) -> Result<u64, KeyError> {
        self.region.check(pd, addr, len, need)?;
        Ok(addr - self.region.addr)
    }

    /// Checks a remote access to a region or a memory window. `pd` and `qpn` are the protection domain and
    /// the number of the responder's QP.
    #[inline]
    pub(crate) fn check_remote(
        &self,
        (pd, qpn): (u32, u32),
        addr: u64,
        len: u64,
        need: AccessFlags,
    ) -> Result<u64, KeyError> {
        match self.check(pd, addr, len, need) {
            Err(KeyError::ProtectionDomain) => self.check_window((pd, qpn), addr, len, need),
            checked => checked,
        }
    }

    #[cold]
    fn check_window(
        &self,
        (pd, qpn): (u32, u32),
        addr: u64,
        len: u64,
        need: AccessFlags,
    ) -> Result<u64, KeyError> {
        let domain = domain_like(self.region.pd, pd, qpn).ok_or(KeyError::ProtectionDomain)?;
        self.check(domain, addr, len, need)
    }
}

/// A token for rights to this process's memory that were revoked. Running copies may still use these rights,
/// so `Process::settle` waits for the copies before the program's call returns.
#[must_use = "copies that run may still use the withdrawn rights"]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Revoked(());

/// The regions of this process: a private table, mirrored in its segment for peers.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    pub(super) table: RwLock<RegionTable>,
    /// Counts the changes that make a cached region stale. The fences of `copies.rs` order the checks of this
    /// count: a copy checks it after the copier's fence, and a revoking call changes it before the other
    /// fence. The table's lock orders the new lookup. So nothing relies on the Release and the Acquire here.
    epoch: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct RegionTable {
    pub(super) keys: Keys,
    /// The memory of each slot of `keys`, and the memory's offset in the segment if it lies in the arena.
    pub(super) places: Vec<(HostMemory, Option<u64>)>,
    /// The memory windows, by their slots.
    pub(super) windows: HashMap<usize, Window>,
}

impl Regions {
    /// Adds a region, shows it to peers, and returns its key. ENOMEM if the table or the segment has no room
    /// for another region.
    pub(crate) fn register(
        &self,
        segment: &Segment,
        region: Region,
        host: impl Into<HostMemory>,
    ) -> Result<u32, Errno> {
        let host = host.into();
        let shared = arena::offset_of(host.addr, region.len);
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let key = table.keys.register(region);
        let slot = Keys::slot_of(key).filter(|&slot| slot < MRS);
        let Some((slot, record)) = slot.and_then(|slot| Some((slot, segment.mr(slot)?))) else {
            table.keys.deregister(key);
            return Err(ENOMEM);
        };
        if table.places.len() <= slot {
            table.places.resize(slot + 1, (HostMemory::from(0), None));
        }
        table.places[slot] = (host, shared);
        show(record, key, &region, host, shared);
        Ok(key)
    }

    /// Changes the region with this key, which stays valid. EINVAL if no region has the key.
    pub(crate) fn replace(
        &self,
        segment: &Segment,
        key: u32,
        region: Region,
        host: impl Into<HostMemory>,
    ) -> Result<Revoked, Errno> {
        let host = host.into();
        let shared = arena::offset_of(host.addr, region.len);
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let slot = Keys::slot_of(key).filter(|_| table.keys.replace(key, region)).ok_or(EINVAL)?;
        let record = segment.mr(slot).ok_or(EINVAL)?;
        table.places[slot] = (host, shared);
        show(record, key, &region, host, shared);
        Ok(self.revoked())
    }

    /// Removes the region with this key; `None` if no region has it.
    pub(crate) fn deregister(&self, segment: &Segment, key: u32) -> Option<Revoked> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let known = table.keys.deregister(key);
        if let Some(record) = Keys::slot_of(key).filter(|_| known).and_then(|slot| segment.mr(slot)) {
            record.change(|r| r.key.store(0, Relaxed));
        }
        let revoked = self.revoked();
        known.then_some(revoked)
    }

    /// Makes all cached regions stale after a change.
    pub(super) fn revoked(&self) -> Revoked {
        self.epoch.fetch_add(1, Release);
        Revoked(())
    }

    /// A number that changes whenever a region that was found earlier may have been changed or removed.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// The region with this key.
    pub(crate) fn find(&self, key: u32) -> Option<Place> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let region = *table.keys.get(key)?;
        let (host, shared) = *table.places.get(Keys::slot_of(key)?)?;
        let HostMemory { addr: host, object } = host;
        Some(Place { key, changes: 0, region, host, object, shared })
    }
}

/// Writes a region's record for peers.
pub(super) fn show(record: &MrRecord, key: u32, region: &Region, host: HostMemory, shared: Option<u64>) {
    record.change(|r| {
        r.key.store(key, Relaxed);
        r.pd.store(region.pd, Relaxed);
        r.access.store(region.access.bits(), Relaxed);
        r.start.store(region.addr, Relaxed);
        r.len.store(region.len, Relaxed);
        r.host.store(host.addr, Relaxed);
        r.object.iter().zip(host.object.to_words()).for_each(|(to, word)| to.store(word, Relaxed));
        r.shared.store(shared.map_or(0, |at| at + 1), Relaxed);
    });
}

/// A cache of the regions that a queue used last. A hit takes no lock.
#[derive(Debug, Default)]
pub(crate) struct RegionCache {
    epoch: u64,
    entries: [Option<Place>; 4],
}

impl RegionCache {
    /// Returns the result of [`Regions::find`], from the cache if possible.
    #[inline]
    pub(crate) fn find(&mut self, regions: &Regions, key: u32) -> Option<&Place> {
        let at = Keys::slot_of(key)? % self.entries.len();
        let known = self.entries[at].as_ref().is_some_and(|place| place.key == key);
        if !known || regions.epoch() != self.epoch {
            self.look_up(regions, key, at)?;
        }
        self.entries[at].as_ref()
    }

    #[cold]
    fn look_up(&mut self, regions: &Regions, key: u32, at: usize) -> Option<()> {
        let epoch = regions.epoch();
        if epoch != self.epoch {
            *self = RegionCache { epoch, ..RegionCache::default() };
        }
        self.entries[at] = Some(regions.find(key)?);
        Some(())
    }
}

/// The error for a peer's record that stays incomplete: its owner is changing the record, or was stopped
/// during a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsettled;

/// A cache of the peers' regions that a queue used last. A hit takes one load of the record's sequence
/// number.
#[derive(Debug, Default)]
pub(crate) struct RemoteCache([Option<(u64, Place)>; 4]);

impl RemoteCache {
    /// Returns the result of [`find_in`] for the peer with this number, from the cache if possible.
    #[inline(always)]
    pub(crate) fn find(
        &mut self,
        peer: u64,
        segment: &Segment,
        key: u32,
    ) -> Result<Option<&Place>, Unsettled> {
        let Some(slot) = Keys::slot_of(key) else { return Ok(None) };
        let at = slot % self.0.len();
        // The fences of `copies.rs` order this check, as for `Regions::epoch`. The Acquire adds nothing to
        // them.
        let is_known = matches!(&self.0[at], Some((number, place)) if *number == peer && place.key == key
            && segment.mr(slot).is_some_and(|record| record.sequence.load(Acquire) == place.changes));
        if !is_known {
            self.look_up(peer, segment, key, at)?;
        }
        Ok(self.0[at].as_ref().map(|(_, place)| place))
    }

    #[cold]
    fn look_up(&mut self, peer: u64, segment: &Segment, key: u32, at: usize) -> Result<(), Unsettled> {
        self.0[at] = find_in(segment, key)?.map(|place| (peer, place));
        Ok(())
    }
}

/// The region with this key in a peer's segment; `None` if no region has the key.
pub(crate) fn find_in(segment: &Segment, key: u32) -> Result<Option<Place>, Unsettled> {
    let Some(record) = Keys::slot_of(key).and_then(|slot| segment.mr(slot)) else { return Ok(None) };
    let place = record.read(|r| {
        let region = Region {
            pd: r.pd.load(Relaxed),
            addr: r.start.load(Relaxed),
            len: r.len.load(Relaxed),
            access: AccessFlags::from_bits_truncate(r.access.load(Relaxed)),
        };
        Place {
            key: r.key.load(Relaxed),
            changes: r.sequence.load(Relaxed),
            region,
            host: r.host.load(Relaxed),
            object: Object::from_words([&r.object[0], &r.object[1]].map(|word| word.load(Relaxed))),
            shared: r.shared.load(Relaxed).checked_sub(1),
        }
    });
    let place = place.ok_or(Unsettled)?;
    Ok((place.key == key && key != 0).then_some(place))
}

/// Maximum number of protection domains of a process.
pub(crate) const MAX_PD: usize = 1 << 16;

/// Allocates the numbers of protection domains.
#[derive(Debug, Default)]
pub(crate) struct PdNumbers(std::sync::Mutex<Pds>);

#[derive(Debug, Default)]
struct Pds {
    last: u32,
    living: usize,
}

impl PdNumbers {
    /// Allocates a number that was never used before. ENOMEM if all numbers are used up, or if [`MAX_PD`]
    /// domains exist.
    pub(crate) fn take(&self) -> Result<u32, Errno> {
        let mut pds = lock(&self.0);
        if pds.living == MAX_PD || pds.last + 1 == PD_END {
            return Err(ENOMEM);
        }
        pds.living += 1;
        pds.last += 1;
        Ok(pds.last)
    }

    /// Counts a protection domain as destroyed.
    pub(crate) fn end(&self) {
        lock(&self.0).living -= 1;
    }
}
