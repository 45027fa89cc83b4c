//! The short way of a WRITE: to memory that is mapped here, of a responder that took the WRITE before.
//!
//! What was found then still holds where three records show what they did: the responder's QP, its region, and this process's
//! own regions. All that is checked on the long way is checked here, against what is remembered of them.

use super::responder::Caches;
use crate::fabric::peer::Peer;
use crate::fabric::process::Process;
use crate::memory::records::{Shown, index_of};
use crate::memory::transfer;
use doorbell_transport::MAX_MESSAGE_BYTES;
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
}

impl Direct {
    /// The responder `qpn` in a process, which has just taken a WRITE from this QP and showed this before.
    pub(super) fn new(peer: Arc<Peer>, qpn: u32, shown: Shown) -> Option<Direct> {
        let qp = index_of(qpn) as usize;
        let pd = peer.segment.qp(qp)?.pd.load(Relaxed);
        Some(Direct { peer, qp, shown, pd })
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
        &self,
        caches: &mut Caches,
        process: &Process,
        pd: u32,
        (remote, sge, inline): (RemoteAddr, &Sge, bool),
    ) -> bool {
        let len = u64::from(sge.length);
        if !self.holds() || len == 0 || len > u64::from(MAX_MESSAGE_BYTES) {
            return false;
        }
        let near = if inline {
            sge.addr
        } else {
            let Some(place) = caches.regions.find(&process.regions, sge.lkey) else { return false };
            let Ok(offset) = place.check(pd, sge.addr, len, AccessFlags::empty()) else { return false };
            place.host + offset
        };
        let (number, segment) = (self.peer.views.number(), &self.peer.segment);
        let Some(place) = caches.remote.find(number, segment, remote.rkey) else { return false };
        let Ok(offset) = place.check(self.pd, remote.addr, len, AccessFlags::REMOTE_WRITE) else {
            return false;
        };
        let Some(at) = place.shared else { return false };
        let Ok(far) = segment.in_arena(at.saturating_add(offset), len) else { return false };
        // SAFETY: both ranges were checked against their regions, as for `transfer::write`, or are the program's own word.
        unsafe { transfer::copy_ending_last(near as *const u8, far, len as usize) };
        true
    }
}
