//! The short way of a WRITE, and of a SEND that its completion carries: to a responder that took a message before.
//!
//! What was found then still holds where three records show what they did: the responder's QP, its region, and this process's
//! own regions. All that is checked on the long way is checked here, against what is remembered of them.

use super::batch::Batch;
use super::request::Request;
use super::responder::Caches;
use crate::fabric::mapping::ViewCache;
use crate::fabric::peer::{Owner, Peer};
use crate::fabric::process::Process;
use crate::memory::records::{Shown, index_of};
use crate::memory::regions::Place;
use crate::memory::segment::Segment;
use crate::memory::transfer::{self, Piece};
use crate::rings::recvs::{CARRIED_BYTES, Carried, Completer, RecvDone, SOLICITED, Slots};
use doorbell_transport::{Keys, MAX_MESSAGE_BYTES, check_enabled};
use doorbell_verbs::{AccessFlags, RemoteAddr, SendFlags, SendOp, SendWr, Sge};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// A responder that took a message, and the regions that the last ones were of.
#[derive(Debug)]
pub(crate) struct Direct {
    to: Target,
    regions: Regions,
}

/// A responder that took a message.
#[derive(Debug)]
struct Target {
    peer: Arc<Peer>,
    qpn: u32,
    /// What its record showed.
    shown: Shown,
    /// Its protection domain, and which of the QPs it is that its record has been.
    pd: u32,
    generation: u32,
}

#[derive(Debug, Default)]
struct Regions {
    /// Of this process, and when that was known.
    near: Known,
    epoch: u64,
    /// Of the peer: where the last WRITE went, and the buffer of the last RECV, with the protection domain of its queue.
    written: Far,
    received: Far,
    received_pd: u32,
}

/// What becomes of a WRITE on the short way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is in place.
    Placed,
    /// It is gathered with others of the list, as it goes to private memory.
    Gathered,
    /// It has to go the long way, and nothing was done.
    Not,
}

/// What becomes of a SEND on the short way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is received.
    Received,
    /// It has to go the long way, and nothing was done.
    Not,
    /// It has taken a RECV that there was no room for a completion of.
    CqFull,
}

/// A region of the peer's, and what showed it to be so.
#[derive(Clone, Copy, Debug, Default)]
struct Far {
    known: Known,
    sequence: u32,
    /// Whether it is private memory of the peer's, so that where it is mapped is said of the peer.
    is_foreign: bool,
}

/// A region that messages of this QP may use.
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

impl Far {
    /// Whether it is still the region with this key.
    #[inline(always)]
    fn is_of(&self, segment: &Segment, key: u32) -> bool {
        let record = Keys::slot_of(key).and_then(|slot| segment.mr(slot));
        self.known.key == key && record.is_some_and(|record| record.sequence.load(Acquire) == self.sequence)
    }

    /// The region or window with this key, if all of it may be used like this by a QP of the protection domain and number in
    /// `by`; `at` says where it is mapped, where that matters, and whether at the peer.
    #[inline(never)]
    fn find(
        caches: &mut Caches,
        peer: &Peer,
        (key, by, need): (u32, (u32, u32), AccessFlags),
        at: impl Fn(&Place, &mut ViewCache) -> Option<(u64, bool)>,
    ) -> Option<Far> {
        let Caches { remote, views, .. } = caches;
        let place = remote.find(peer.views.number(), &peer.segment, key).ok()??;
        let region = &place.region;
        place.check_remote(by, region.addr, region.len, need).ok()?;
        let (at, is_foreign) = at(place, views)?;
        let known = Known { key, first: region.addr, len: region.len, at };
        Some(Far { known, sequence: place.changes, is_foreign })
    }
}

/// A WRITE of one SGE without immediate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainWrite<'a> {
    pub(crate) wr_id: u64,
    pub(crate) remote: RemoteAddr,
    pub(crate) sge: &'a Sge,
    pub(crate) flags: SendFlags,
    /// Its number among those of its QP, from 1.
    pub(crate) number: u64,
}

impl PlainWrite<'_> {
    /// Adds it to what is gathered, if it goes along.
    #[inline(always)]
    fn gather(&self, batch: &mut Batch, from: u64, pid: u32, at: u64) -> Written {
        let PlainWrite { wr_id, remote, sge, flags, number } = *self;
        let wr = SendWr { flags, ..SendWr::new(wr_id, SendOp::Write(remote), std::slice::from_ref(sge)) };
        let request = Request::of(&wr, sge.length, number);
        match batch.add(&request, &[Piece { addr: from, len: sge.length as usize }], pid, at) {
            true => Written::Gathered,
            false => Written::Not,
        }
    }
}

impl Target {
    /// Whether the responder is what it was.
    #[inline(always)]
    fn holds(&self) -> bool {
        let qp = self.peer.segment.qp(index_of(self.qpn) as usize);
        !self.peer.is_dead() && qp.is_some_and(|qp| qp.shown() == self.shown)
    }
}

impl Direct {
    /// The responder `qpn` in a process, which has just taken a message from this QP and showed this before.
    pub(super) fn new(peer: Arc<Peer>, qpn: u32, shown: Shown) -> Option<Direct> {
        let qp = peer.segment.qp(index_of(qpn) as usize)?;
        let (pd, generation) = (qp.pd.load(Relaxed), qp.generation.load(Relaxed));
        Some(Direct { to: Target { peer, qpn, shown, pd, generation }, regions: Regions::default() })
    }

    /// Whether the responder is what it was.
    pub(super) fn holds(&self) -> bool {
        self.to.holds()
    }

    /// Carries out a WRITE of one SGE, of a requester of protection domain `pd`, or gathers it; `number` is its among those of
    /// its QP.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        (caches, batch): (&mut Caches, &mut Batch),
        own: (&Process, u32),
        write: &PlainWrite<'_>,
    ) -> Written {
        let PlainWrite { remote, sge, flags, .. } = *write;
        let (Direct { to, regions }, len) = (self, u64::from(sge.length));
        if !to.holds() || len == 0 || len > u64::from(MAX_MESSAGE_BYTES) {
            return Written::Not;
        }
        let is_known = regions.written.is_of(&to.peer.segment, remote.rkey);
        if !is_known && !regions.find_written(caches, to, remote.rkey) {
            return Written::Not;
        }
        let Some(at) = regions.written.known.at(remote.addr, len) else { return Written::Not };
        let inline = flags.contains(SendFlags::INLINE);
        let Some(from) = regions.source(caches, own, sge, inline) else { return Written::Not };
        if regions.written.is_foreign {
            return write.gather(batch, from, to.peer.member.pid, at);
        }
        if !batch.is_empty() {
            return Written::Not;
        }
        // SAFETY: both ranges were checked against their regions, as for `transfer::write`, or are the program's own word.
        unsafe { transfer::copy_ending_last(from as *const u8, at as *mut u8, len as usize) };
        Written::Placed
    }

    /// Carries out a SEND of one SGE whose payload fits into its completion, to a receive queue that this QP alone sends to.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        caches: &mut Caches,
        own: (&Process, u32),
        (sge, inline, solicited): (&Sge, bool, bool),
    ) -> Sent {
        let Direct { to, regions } = self;
        let (segment, len) = (&to.peer.segment, u64::from(sge.length));
        let Some(qp) = segment.qp(index_of(to.qpn) as usize) else { return Sent::Not };
        let Some(rq) = segment.rq(qp.rq.load(Relaxed) as usize) else { return Sent::Not };
        // Before it is seen that nothing has changed: a queue that is reset is another one.
        let generation = rq.generation.load(Acquire);
        if !to.holds() || len == 0 || len > CARRIED_BYTES as u64 {
            return Sent::Not;
        }
        let Some(slots) = Slots::of_one_sender(segment, rq) else { return Sent::Not };
        let Ok(front) = slots.front(generation) else { return Sent::Not };
        let Some(room) = front.sge(0).filter(|room| front.room().0 > 0 && len <= room.length.into()) else {
            return Sent::Not;
        };
        let pd = rq.pd.load(Relaxed);
        let is_known = regions.received_pd == pd && regions.received.is_of(segment, room.lkey);
        if !is_known && !regions.find_received(caches, to, (room.lkey, pd)) {
            return Sent::Not;
        }
        if regions.received.known.at(room.addr, len).is_none() || front.is_beyond_lane(qp, segment) {
            return Sent::Not;
        }
        let Some(from) = regions.source(caches, own, sge, inline) else { return Sent::Not };
        let mut carried = Carried::none();
        carried.gather(&[], &[Piece { addr: from, len: len as usize }]);
        let owner = Owner::Peer(&to.peer);
        let completer = Completer { owner, segment, qp, qpn: to.qpn, srq: None, claimer: own.0.claimer };
        let Some(claim) = front.claim(&completer) else { return Sent::Not };
        let flags = if solicited { SOLICITED } else { 0 };
        let done = RecvDone { byte_len: sge.length, flags, ..RecvDone::of_send(to.qpn, to.generation) };
        if completer.complete(&claim, done, &carried) { Sent::Received } else { Sent::CqFull }
    }
}

impl Regions {
    /// Where the payload of a message of one SGE is.
    #[inline(always)]
    fn source(&mut self, caches: &mut Caches, own: (&Process, u32), sge: &Sge, inline: bool) -> Option<u64> {
        if inline {
            return Some(sge.addr);
        }
        let is_known = self.near.key == sge.lkey && self.epoch == own.0.regions.epoch();
        if !is_known && !self.find_near(caches, own, sge.lkey) {
            return None;
        }
        self.near.at(sge.addr, sge.length.into())
    }

    /// Looks for a region of the peer's that the QP may be used to write to, and of which all is mapped here, or private memory
    /// of a peer that lets others to it.
    #[inline(never)]
    fn find_written(&mut self, caches: &mut Caches, to: &Target, key: u32) -> bool {
        let Peer { segment, views, link, .. } = &*to.peer;
        // The message that the responder took may have been a SEND, which needs no right of the QP.
        let Some(qp) = segment.qp(index_of(to.qpn) as usize) else { return false };
        let enabled = AccessFlags::from_bits_truncate(qp.access.load(Relaxed));
        if check_enabled(AccessFlags::REMOTE_WRITE, 0, enabled, 0).is_err() {
            return false;
        }
        let at = |place: &Place, cache: &mut ViewCache| match place.shared {
            Some(shared) => Some((segment.in_arena(shared, place.region.len).ok()? as u64, false)),
            None if link.is_some() || cache.address(views, segment, place, 0).is_some() => None,
            None => Some((place.host, true)),
        };
        let found = Far::find(caches, &to.peer, (key, (to.pd, to.qpn), AccessFlags::REMOTE_WRITE), at);
        found.inspect(|far| self.written = *far).is_some()
    }

    /// Looks for a region of the peer's that RECVs of a queue of this protection domain may be filled in.
    #[inline(never)]
    fn find_received(&mut self, caches: &mut Caches, to: &Target, (key, pd): (u32, u32)) -> bool {
        let found = Far::find(caches, &to.peer, (key, (pd, to.qpn), AccessFlags::LOCAL_WRITE), |place, _| {
            Some((place.host, false))
        });
        found.inspect(|far| (self.received, self.received_pd) = (*far, pd)).is_some()
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
