//! The requester: it finds the memory and the responder of a work request, and acts for both.

use super::attempt::{Attempt, Obstacle, Outcome};
use super::batch::Batch;
use super::direct::{Direct, PlainWrite, Sent, Written};
use super::refusal::Refusal;
use super::request::{Request, RequestOp};
use super::responder::{Caches, Message, Responder, receives};
use super::verified::Verified;
use crate::fabric::peer::{Owner, Peer};
use crate::fabric::process::Process;
use crate::memory::groups::GroupAddress;
use crate::memory::regions::RegionCache;
use crate::memory::transfer::{Piece, Unreachable};
use crate::path::Header;
use doorbell_abi::{CEnum, IBV_QPT_XRC_RECV};
use doorbell_launch::qp_numbers::slot_of;
use doorbell_transport::{Fault, check_initiator, local_rights};
use doorbell_verbs::{QpState, QpType, SendFlags, SendOp, Sge, WcStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// What a requester is.
#[derive(Debug)]
pub(crate) struct Requester {
    pub(crate) process: &'static Process,
    pub(crate) num: u32,
    pub(crate) qp_type: QpType,
    pub(crate) pd: u32,
    /// Type of the QPs that it sends to, as their records have it.
    pub(crate) responder_type: u32,
}

/// What a requester keeps from one work request to the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(super) caches: Caches,
    pieces: Vec<Piece>,
    /// Work requests of the list being posted that are to be moved together.
    pub(crate) batch: Batch,
    /// The process that the connected peer, or the last datagram's destination, is of.
    pub(crate) peer: Option<Arc<Peer>>,
    /// The process of the SRQ that the last request was for, where it is another; XRC.
    pub(super) srq_peer: Option<Arc<Peer>>,
    /// The connected responder, where it took the last WRITE or SEND.
    direct: Option<Direct>,
}

impl Scratch {
    /// Carries out a WRITE the short way, or gathers it.
    #[inline(always)]
    pub(crate) fn write_directly(&mut self, requester: &Requester, write: &PlainWrite<'_>) -> Written {
        let Some(direct) = &mut self.direct else { return Written::Not };
        direct.write((&mut self.caches, &mut self.batch), (requester.process, requester.pd), write)
    }

    /// Carries out a SEND the short way.
    #[inline(always)]
    pub(crate) fn send_directly(&mut self, requester: &Requester, sge: &Sge, flags: SendFlags) -> Sent {
        let Some(direct) = &mut self.direct else { return Sent::Not };
        if !self.batch.is_empty() {
            return Sent::Not;
        }
        direct.send(&mut self.caches, (requester.process, requester.pd), (sge, flags))
    }

    /// The connected QP, or its peer, may be another from here on.
    pub(crate) fn forget_peer(&mut self) {
        (self.peer, self.srq_peer, self.direct) = (None, None, None);
    }

    /// A work request is over without having done anything, when those before it are.
    pub(super) fn in_turn(&self, outcome: Outcome) -> Attempt {
        if self.batch.is_empty() { Attempt::Over(outcome) } else { Attempt::AfterGathered }
    }
}

/// Where a work request goes, and with what rights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// QP number of the responder; `None` where the path leads to no port of this fabric.
    pub(crate) dest_qpn: Option<u32>,
    /// First PSN sent; RC.
    pub(crate) sq_psn: u32,
    /// Q_Key; UD.
    pub(crate) qkey: u32,
    /// `max_rd_atomic`; RC.
    pub(crate) max_rd_atomic: u8,
    /// Global route header; UD.
    pub(crate) grh: Option<Header>,
    /// The multicast groups that it goes to instead; UD.
    pub(crate) groups: Option<GroupAddress>,
}

impl Requester {
    /// Tries to carry out a work request, or gathers it. The queues call this.
    pub(crate) fn attempt(&self, scratch: &mut Scratch, route: &Route, request: &Request<'_>) -> Attempt {
        let op = &request.op;
        if !scratch.batch.goes_with(op) {
            return Attempt::AfterGathered;
        }
        if let Err(status) = check_initiator(op.opcode(), route.max_rd_atomic) {
            return scratch.in_turn(Outcome::Done(status));
        }
        let mut pieces = std::mem::take(&mut scratch.pieces);
        pieces.clear();
        let attempt = if self.find_pieces(&mut scratch.caches.regions, &mut pieces, request) {
            self.attempt_at_qp(scratch, route, request, &pieces)
        } else {
            scratch.in_turn(Outcome::Done(WcStatus::LocProtErr))
        };
        scratch.pieces = pieces;
        attempt
    }

    /// What becomes of a gathered work request whose bytes could not be moved.
    pub(crate) fn not_moved(&self, scratch: &Scratch, dest_qpn: u32, cause: Unreachable) -> Outcome {
        if slot_of(dest_qpn) == self.process.slot {
            // Only the memory of an SRQ is in another process than the QP.
            return match scratch.batch.first_left() {
                Some(request) => self.not_moved_here(dest_qpn, cause.into(), &request),
                None => self.silence(),
            };
        }
        // The process may have ended meanwhile, and another have taken its place.
        let peer = scratch.peer.as_deref().filter(|peer| peer.slot == slot_of(dest_qpn));
        match peer.and_then(|peer| self.responder(Some(peer), dest_qpn, false)) {
            Some(responder) => match scratch.batch.first_left() {
                Some(request) => self.conclude(&responder, cause.into(), &request),
                None => self.silence(),
            },
            None => self.silence(),
        }
    }

    /// What becomes of a SEND that has taken a RECV whose completion there was no room for.
    #[cold]
    pub(crate) fn found_cq_full(&self, scratch: &Scratch, dest_qpn: u32, request: &Request<'_>) -> Outcome {
        match self.responder(scratch.peer.as_deref(), dest_qpn, false) {
            Some(responder) => self.conclude(&responder, Refusal::CqFull, request),
            None => self.silence(),
        }
    }

    /// The local memory of a work request, where its lkeys hold.
    #[inline(always)]
    fn find_pieces(&self, cache: &mut RegionCache, pieces: &mut Vec<Piece>, request: &Request<'_>) -> bool {
        if let Some(bytes) = request.inline {
            pieces.push(Piece { addr: bytes.as_ptr() as u64, len: bytes.len() });
            return true;
        }
        let inline = request.flags.contains(SendFlags::INLINE);
        let need = local_rights(request.op.opcode());
        for sge in request.sg_list.iter().filter(|sge| sge.length > 0) {
            let addr = if inline {
                sge.addr
            } else {
                let Some(place) = cache.find(&self.process.regions, sge.lkey) else { return false };
                let Ok(offset) = place.check(self.pd, sge.addr, u64::from(sge.length), need) else {
                    return false;
                };
                place.host + offset
            };
            pieces.push(Piece { addr, len: sge.length as usize });
        }
        true
    }

    #[inline(always)]
    fn attempt_at_qp(
        &self,
        scratch: &mut Scratch,
        route: &Route,
        request: &Request<'_>,
        pieces: &[Piece],
    ) -> Attempt {
        if self.responder_type == IBV_QPT_XRC_RECV {
            return self.attempt_at_srq(scratch, route, request, pieces);
        }
        let Some(dest_qpn) = route.dest_qpn.filter(|qpn| self.find_peer(scratch, *qpn)) else {
            return match &route.groups {
                Some(groups) => {
                    let (caches, to) = (&mut scratch.caches, (route, groups));
                    Attempt::Over(self.multicast(caches, to, request, pieces))
                }
                None => scratch.in_turn(self.silence()),
            };
        };
        let Scratch { caches, batch, peer, direct, .. } = scratch;
        let takes_recv = request.op.opcode().consumes_recv();
        let reached = self.responder(peer.as_deref(), dest_qpn, takes_recv);
        let Some((responder, verified)) =
            reached.and_then(|found| Some((found, self.verify(&found, route)?)))
        else {
            return scratch.in_turn(self.silence());
        };
        if verified.shown.state() == QpState::Rtr.to_c() && self.qp_type != QpType::Ud {
            responder.establish();
        }
        let message =
            Message { from: self.num, qp_type: self.qp_type, request, pieces, grh: route.grh.as_ref() };
        match responder.respond((caches, batch), &verified, &message) {
            Ok(attempt) => {
                let is_like_direct = matches!(request.op, RequestOp::Verb(SendOp::Write(_) | SendOp::Send))
                    && matches!(attempt, Attempt::Over(_) | Attempt::Gathered)
                    && self.qp_type != QpType::Ud;
                if is_like_direct && direct.as_ref().is_none_or(|direct| !direct.holds()) {
                    let peer = peer.clone().filter(|peer| self.qp_type == QpType::Rc || peer.link.is_none());
                    *direct = peer.and_then(|peer| Direct::new(peer, verified));
                }
                attempt
            }
            Err(_) if !batch.is_empty() => Attempt::AfterGathered,
            Err(refusal) => Attempt::Over(self.conclude(&responder, refusal, request)),
        }
    }

    /// What becomes of a work request that the responder did not carry out.
    pub(super) fn conclude(
        &self,
        responder: &Responder<'_>,
        refusal: Refusal,
        request: &Request<'_>,
    ) -> Outcome {
        match refusal {
            Refusal::Silence => self.silence(),
            Refusal::Fault(Fault::NoRecv) if self.qp_type == QpType::Rc => {
                Outcome::Wait(Obstacle::NoRecv(responder.qp.min_rnr_timer.load(Relaxed) as u8 & 31))
            }
            refusal => {
                responder.blame_for(refusal, self.num, request, self.qp_type);
                match (responder.refuse(refusal, self.qp_type), self.qp_type) {
                    (WcStatus::Success, QpType::Uc | QpType::Ud) => Outcome::Undelivered,
                    (status, _) => Outcome::Done(status),
                }
            }
        }
    }

    /// What becomes of a work request that nobody answers.
    pub(super) fn silence(&self) -> Outcome {
        match self.qp_type {
            QpType::Rc => Outcome::Wait(Obstacle::Silence),
            QpType::Uc | QpType::Ud => Outcome::Undelivered,
        }
    }

    /// The responder `qpn` in that process, or in this one, of a message that takes a RECV or of another.
    #[inline(always)]
    pub(super) fn responder<'a>(
        &self,
        peer: Option<&'a Peer>,
        qpn: u32,
        takes_recv: bool,
    ) -> Option<Responder<'a>> {
        let place = match peer {
            Some(peer) => (Owner::Peer(peer), &peer.segment),
            None => (Owner::This, self.process.segment),
        };
        Responder::of(self.process, place, qpn, takes_recv)
    }

    /// Makes `scratch.peer` the process of `qpn`, `None` for this one; `false` where there is none.
    #[inline(always)]
    pub(super) fn find_peer(&self, scratch: &mut Scratch, qpn: u32) -> bool {
        let slot = slot_of(qpn);
        if slot == self.process.slot {
            scratch.peer = None;
            return true;
        }
        let known = scratch.peer.as_ref().is_some_and(|peer| peer.slot == slot && !peer.is_dead());
        if !known {
            // A connection is to one process: another that comes to its place is not the peer,
            // which its own QP's attributes show.
            scratch.peer = self.process.peer(qpn);
        }
        scratch.peer.is_some()
    }

    /// Verifies that the responder takes what this requester sends at all.
    #[inline(always)]
    pub(super) fn verify(&self, responder: &Responder<'_>, route: &Route) -> Option<Verified> {
        let qp = responder.qp;
        // Before all else: whoever changes another field shows another version afterwards.
        let shown = qp.shown();
        if !receives(shown.state()) || qp.qp_type.load(Relaxed) != self.responder_type {
            return None;
        }
        let is_reached = match self.qp_type {
            QpType::Ud => qp.qkey.load(Relaxed) == route.qkey,
            QpType::Uc => qp.dest_qpn.load(Relaxed) == self.num,
            QpType::Rc => qp.dest_qpn.load(Relaxed) == self.num && qp.rq_psn.load(Relaxed) == route.sq_psn,
        };
        is_reached.then(|| Verified::of(qp, shown, (responder.qpn, responder.generation)))
    }
}
