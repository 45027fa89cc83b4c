//! The short way of a WRITE: to memory that is mapped here, of a responder that took the WRITE before.
//!
//! What was found then still holds where three records show what they did: the responder's QP, its region, and this process's
//! own regions. All that is checked on the long way is checked here, against what is remembered of them.

use super::responder::Caches;
use crate::fabric::peer::Peer;
use crate::fabric::process::Process;
use crate::memory::records::{Shown, index_of};
use crate::memory::transfer;
use doorbell_transport::{Keys, MAX_MESSAGE_BYTES};
use doorbell_verbs::{AccessFlags, RemoteAddr, Sge};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// A responder that took a WRITE.
#[derive(Debug)]
pub(crate) struct Direct {
    peer: Arc<Peer>,
    qp: usize,
    /// What its record showed.
    shown: Shown,
    /// Its protection domain.
    pd: u32,
    /// The regions of the last WRITE here and there, and what showed them to be so.
    near: Known,
    epoch: u64,
    far: Known,
    sequence: u32,
}

/// A region that WRITEs of this QP may use.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// 0 where none is known.
    key: u32,
    first: u64,
    len: u64,
    /// Where its first byte is mapped here.
    at: u64,
}

impl Known {
    /// Where `len` bytes from `addr` on are mapped here, if they lie within it.
    #[inline(always)]
    fn at(&self, addr: u64, len: u64) -> Option<u64> {
        let offset = addr.wrapping_sub(self.first);
        (offset <= self.len && len <= self.len - offset).then(|| self.at + offset)
    }
}

impl Direct {
    /// The responder `qpn` in a process, which has just taken a WRITE from this QP and showed this before.
    pub(super) fn new(peer: Arc<Peer>, qpn: u32, shown: Shown) -> Option<Direct> {
        let qp = index_of(qpn) as usize;
        let pd = peer.segment.qp(qp)?.pd.load(Relaxed);
        Some(Direct {
            peer,
            qp,
            shown,
            pd,
            near: Known::default(),
            epoch: 0,
            far: Known::default(),
            sequence: 0,
        })
    }

    /// Whether the responder is what it was.
    #[inline(always)]
    pub(super) fn holds(&self) -> bool {
        !self.peer.is_dead() && self.peer.segment.qp(self.qp).is_some_and(|qp| qp.shown() == self.shown)
    }

    /// Carries out a WRITE of one SGE, of a requester of protection domain `pd`; `false` where it has to go the long way, and
    /// nothing was done.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        caches: &mut Caches,
        (process, pd): (&Process, u32),
        (remote, sge, inline): (RemoteAddr, &Sge, bool),
    ) -> bool {
        let len = u64::from(sge.length);
        if !self.holds() || len == 0 || len > u64::from(MAX_MESSAGE_BYTES) {
            return false;
        }
        let is_far_known = self.far.key == remote.rkey && self.is_far_as_it_was();
        if !is_far_known && !self.find_far(caches, remote.rkey) {
            return false;
        }
        let Some(to) = self.far.at(remote.addr, len) else { return false };
        let from = if inline {
            sge.addr
        } else {
            let is_near_known = self.near.key == sge.lkey && self.epoch == process.regions.epoch();
            if !is_near_known && !self.find_near(caches, (process, pd), sge.lkey) {
                return false;
            }
            let Some(from) = self.near.at(sge.addr, len) else { return false };
            from
        };
        // SAFETY: both ranges were checked against their regions, as for `transfer::write`, or are the program's own word.
        unsafe { transfer::copy_ending_last(from as *const u8, to as *mut u8, len as usize) };
        true
    }

    #[inline(always)]
    fn is_far_as_it_was(&self) -> bool {
        let record = Keys::slot_of(self.far.key).and_then(|slot| self.peer.segment.mr(slot));
        record.is_some_and(|record| record.sequence.load(Acquire) == self.sequence)
    }

    /// Looks for a region of the peer's that all of is mapped here, and that it may be written by this QP.
    #[inline(never)]
    fn find_far(&mut self, caches: &mut Caches, key: u32) -> bool {
        let (number, segment) = (self.peer.views.number(), &self.peer.segment);
        let found = caches.remote.find(number, segment, key).and_then(|place| {
            let region = &place.region;
            place.check(self.pd, region.addr, region.len, AccessFlags::REMOTE_WRITE).ok()?;
            let at = segment.in_arena(place.shared?, region.len).ok()?;
            Some((Known { key, first: region.addr, len: region.len, at: at as u64 }, place.changes))
        });
        let Some((far, sequence)) = found else { return false };
        (self.far, self.sequence) = (far, sequence);
        true
    }

    /// Looks for a region of this process that this QP may use.
    #[inline(never)]
    fn find_near(&mut self, caches: &mut Caches, (process, pd): (&Process, u32), key: u32) -> bool {
        let epoch = process.regions.epoch();
        let Some(place) = caches.regions.find(&process.regions, key) else { return false };
        let region = &place.region;
        if place.check(pd, region.addr, region.len, AccessFlags::empty()).is_err() {
            return false;
        }
        (self.near, self.epoch) = (Known { key, first: region.addr, len: region.len, at: place.host }, epoch);
        true
    }
}
