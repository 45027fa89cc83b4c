//! Memory windows: rkeys for parts of regions. A program binds and invalidates them by work requests.
//!
//! A window has a slot in the table of regions and an `MrRecord` in the segment, so that peers find it like a
//! region. In place of a protection domain, the window's record has a domain that no region has. So a
//! window's rkey is never a valid lkey. `Place::check_remote` checks the window's domain only if the check of
//! the protection domain fails.
//!
//! Only the window's owner binds and frees the window. A peer that sends a SEND with invalidate clears the
//! key in the window's record. The owner notices this when it next uses the window.

use super::objects::{HostMemory, Object};
use super::regions::{RegionTable, Regions, Revoked, find_in, show};
use super::segment::Segment;
use super::window::{NOTHING, Window, WindowKind, of_pd, of_qp};
use crate::errno::Errno;
use doorbell_transport::{Keys, Region};
use doorbell_verbs::AccessFlags;
use std::sync::PoisonError;
use thiserror::Error;

/// The part of a region to which a window is to be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowPart {
    pub(crate) lkey: u32,
    /// Whether windows may be bound to the region: the region has `IBV_ACCESS_MW_BIND` and is not zero-based.
    pub(crate) may_be_bound: bool,
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) access: AccessFlags,
    /// Whether the window's addresses begin at 0 (`IBV_ACCESS_ZERO_BASED`).
    pub(crate) is_zero_based: bool,
}

/// A request to bind a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    /// Slot of the window in the table of regions.
    pub(crate) slot: usize,
    /// The lowest 8 bits of the rkey that the window gets. The other bits belong to the window.
    pub(crate) tag: u8,
    /// `None` unbinds the window.
    pub(crate) part: Option<WindowPart>,
}

/// The reason why a window cannot be bound or invalidated (IB specification vol. 1, 10.6.7.2 and 10.6.7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum WindowError {
    /// The window was deallocated or never existed.
    #[error("there is no such memory window")]
    Unknown,
    /// The window and the QP belong to different protection domains.
    #[error("the memory window and the QP belong to different protection domains")]
    Domain,
    /// A window of type 2 must be invalidated before it is bound again.
    #[error("a bound memory window of type 2 must be invalidated before it is bound again")]
    Bound,
    /// A window of type 2 cannot be bound to 0 bytes. A window of type 1 can.
    #[error("a memory window of type 2 cannot be bound to 0 bytes; invalidate it with IBV_WR_LOCAL_INV")]
    Empty,
    /// No region has the lkey, or the region belongs to another protection domain.
    #[error("no memory region of the protection domain has the lkey")]
    Region,
    /// The region was not registered for windows.
    #[error("the memory region was registered without IBV_ACCESS_MW_BIND, or with IBV_ACCESS_ZERO_BASED")]
    NoBind,
    /// The window would let peers write to a region that has no local write access.
    #[error("the memory region lacks IBV_ACCESS_LOCAL_WRITE, which a window for WRITEs or atomics needs")]
    Rights,
    /// The window does not lie within the region.
    #[error("the memory window extends beyond the memory region")]
    Bounds,
    /// A QP can only invalidate a window of type 2 that the QP itself has bound.
    #[error("the QP has bound no memory window of type 2 with this rkey")]
    NotBound,
}

/// The memory of a window that is not bound.
const NOWHERE: HostMemory = HostMemory { addr: 0, object: Object::Private };

impl Regions {
    /// Creates an unbound window; returns its key.
    pub(crate) fn add_window(&self, segment: &Segment, pd: u32, kind: WindowKind) -> Result<u32, Errno> {
        let key = self.register(segment, NOTHING, NOWHERE)?;
        let slot = Keys::slot_of(key).unwrap_or(0);
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.windows.insert(slot, Window { kind, pd, key, bound: None });
        Ok(key)
    }

    /// Removes a window, bound or not; `None` if the slot has no window.
    pub(crate) fn remove_window(&self, segment: &Segment, slot: usize) -> Option<Revoked> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let window = table.windows.remove(&slot)?;
        drop(table);
        self.deregister(segment, window.key)
    }

    /// Binds a window for a work request of the QP with this protection domain and number. If a window of
    /// type 1 was bound before, its old rights are revoked.
    pub(crate) fn bind(
        &self,
        segment: &Segment,
        (pd, qpn): (u32, u32),
        bind: &Bind,
    ) -> Result<Option<Revoked>, WindowError> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let mut window = *table.windows.get(&bind.slot).ok_or(WindowError::Unknown)?;
        if window.pd != pd {
            return Err(WindowError::Domain);
        }
        let domain = match window.kind {
            WindowKind::One => of_pd(pd),
            WindowKind::Two if window.is_bound(segment) => return Err(WindowError::Bound),
            WindowKind::Two if bind.part.is_none_or(|part| part.len == 0) => return Err(WindowError::Empty),
            WindowKind::Two => of_qp(qpn),
        };
        let part = bind.part.filter(|part| part.len > 0);
        let (region, host) = match &part {
            Some(part) => table.part(pd, domain, part)?,
            None => (NOTHING, NOWHERE),
        };
        let (old, was_bound) = (window.key, window.bound.is_some());
        (window.key, window.bound) = (old & !0xff | u32::from(bind.tag), part.map(|part| (part.lkey, qpn)));
        table.set_window(segment, (old, window), region, host);
        let revoked = self.revoked();
        Ok(was_bound.then_some(revoked))
    }

    /// Invalidates the window of type 2 with this rkey. The QP with this number must have bound the window,
    /// because a window of type 2B belongs to its QP (IB specification vol. 1, 10.6.7.2).
    pub(crate) fn invalidate(&self, segment: &Segment, qpn: u32, rkey: u32) -> Result<Revoked, WindowError> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let window = Keys::slot_of(rkey).and_then(|slot| table.windows.get(&slot)).copied();
        let is_it = |window: &Window| {
            window.kind == WindowKind::Two
                && window.key == rkey
                && window.bound.is_some_and(|(_, by)| by == qpn)
                && window.is_bound(segment)
        };
        let window = window.filter(is_it).ok_or(WindowError::NotBound)?;
        table.free(segment, window);
        Ok(self.revoked())
    }

    /// Unbinds the windows of type 2 that a QP has bound, because the QP is being destroyed.
    pub(crate) fn qp_ends(&self, segment: &Segment, qpn: u32) -> Revoked {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let is_its = |window: &&Window| {
            window.kind == WindowKind::Two && window.bound.is_some_and(|(_, by)| by == qpn)
        };
        let its: Vec<Window> = table.windows.values().filter(is_its).copied().collect();
        for window in its {
            table.free(segment, window);
        }
        self.revoked()
    }

    /// Whether windows are bound to the region with this key.
    pub(crate) fn has_windows(&self, segment: &Segment, lkey: u32) -> bool {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let is_to = |window: &Window| window.bound.is_some_and(|(to, _)| to == lkey);
        table.windows.values().any(|window| is_to(window) && window.is_bound(segment))
    }
}

impl RegionTable {
    fn free(&mut self, segment: &Segment, window: Window) {
        self.set_window(segment, (window.key, Window { bound: None, ..window }), NOTHING, NOWHERE);
    }

    /// The region for a window with this domain that is bound to `part`, and the region's memory.
    fn part(&self, pd: u32, domain: u32, part: &WindowPart) -> Result<(Region, HostMemory), WindowError> {
        let region = self.keys.get(part.lkey).filter(|region| region.pd == pd).ok_or(WindowError::Region)?;
        let writes = part.access.intersects(AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC);
        if !part.may_be_bound {
            return Err(WindowError::NoBind);
        }
        if writes && !region.access.contains(AccessFlags::LOCAL_WRITE) {
            return Err(WindowError::Rights);
        }
        region.check(pd, part.addr, part.len, AccessFlags::empty()).map_err(|_| WindowError::Bounds)?;
        let slot = Keys::slot_of(part.lkey).unwrap_or(0);
        let host = self.places.get(slot).ok_or(WindowError::Region)?.0.at(part.addr - region.addr);
        let addr = if part.is_zero_based { 0 } else { part.addr };
        // A window has no lkey, so local rights do not apply to it.
        Ok((Region { pd: domain, addr, len: part.len, access: part.access - AccessFlags::LOCAL_WRITE }, host))
    }

    /// Gives the window with the key `old` its new key, region and binding, and shows them to peers.
    fn set_window(
        &mut self,
        segment: &Segment,
        (old, window): (u32, Window),
        region: Region,
        host: HostMemory,
    ) -> Option<()> {
        let slot = Keys::slot_of(old)?;
        let key = self.keys.retag(old, window.key as u8)?;
        self.keys.replace(key, region);
        let shared = super::arena::offset_of(host.addr, region.len).filter(|_| region.len > 0);
        *self.places.get_mut(slot)? = (host, shared);
        self.windows.insert(slot, window);
        show(segment.mr(slot)?, key, &region, host, shared);
        Some(())
    }
}

/// Whether the key names a window of type 2 that the QP with this number has bound.
pub(crate) fn is_bound_by(segment: &Segment, key: u32, qpn: u32) -> bool {
    find_in(segment, key).is_ok_and(|found| found.is_some_and(|place| place.region.pd == of_qp(qpn)))
}
