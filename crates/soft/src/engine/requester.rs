//! The requester. It finds the local memory and the responder of a work request. Then it lets the
//! [`Responder`] carry out the request, on the requester's thread.
//!
//! A [`Batch`] gathers requests that need a system call. A [`Copier`] marks copies as running. So a process
//! that revokes access to its memory can wait for these copies.

use super::attempt::{Attempt, Obstacle, Outcome};
use super::batch::Batch;
use super::completing::Completing;
use super::direct::{Direct, PlainWrite, Sent, Written};
use super::refusal::Refusal;
use super::request::{Request, RequestOp};
use super::responder::{Caches, Message, Responder, receives};
use super::verified::Verified;
use crate::fabric::copier::Copier;
use crate::fabric::peer::{Owner, Peer};
use crate::fabric::process::Process;
use crate::memory::copy::Piece;
use crate::memory::groups::GroupAddress;
use crate::memory::regions::RegionCache;
use crate::memory::transfer::Unreachable;
use crate::path::Header;
use crate::rings::recvs::{CARRIED_BYTES, Receipt};
use doorbell_abi::{CEnum, IBV_QPT_XRC_RECV};
use doorbell_launch::counts::drops::DropCause;
use doorbell_launch::qp_numbers::slot_of;
use doorbell_transport::{Fault, check_initiator, local_rights};
use doorbell_verbs::{GRH_BYTES, Opcode, QpState, QpType, SendFlags, SendOp, Sge, WcStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// The fixed properties of a requester.
#[derive(Debug)]
pub(crate) struct Requester {
    pub(crate) process: &'static Process,
    pub(crate) num: u32,
    pub(crate) qp_type: QpType,
    pub(crate) pd: u32,
    /// The type that the responder's record must have. It differs from `qp_type` only for an XRC initiator.
    pub(crate) responder_type: u32,
    /// Marks this QP's copies from and to memory of its own process.
    pub(crate) own: Arc<Copier>,
}

/// The state that a requester keeps between work requests.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(super) caches: Caches,
    pieces: Vec<Piece>,
    /// Work requests of the current post list whose bytes one system call will move together.
    pub(crate) batch: Batch,
    /// The process of the connected peer, or of the last datagram's destination.
    pub(crate) peer: Option<Arc<Peer>>,
    /// Marks this QP's copies from and to memory of the peer that the QP accessed last.
    pub(super) far: Option<Arc<Copier>>,
    /// The process that owns the SRQ of the last request (XRC); `None` for this process.
    pub(super) srq_peer: Option<Arc<Peer>>,
    /// Marks this QP's copies from and to memory of the SRQ's process.
    pub(super) srq_far: Option<Arc<Copier>>,
    /// The direct path to the connected responder, after the responder has taken a WRITE or SEND.
    direct: Option<Direct>,
}

impl Scratch {
    /// Carries out a WRITE on the direct path. A WRITE to private memory of the peer is gathered in the
    /// batch. `enter` is called before the responder can see the WRITE.
    #[inline(always)]
    pub(crate) fn write_directly(
        &mut self,
        requester: &Requester,
        write: &PlainWrite<'_>,
        enter: impl FnOnce(),
    ) -> Written {
        let Some(direct) = &mut self.direct else { return Written::Not };
        let own = (requester.process, requester.pd);
        direct.write((&mut self.caches, &mut self.batch), own, write, enter)
    }

    /// Carries out a SEND on the direct path. `enter` is called before the responder can see the SEND.
    #[inline(always)]
    pub(crate) fn send_directly(
        &mut self,
        requester: &Requester,
        (sge, flags): (&Sge, SendFlags),
        enter: impl FnOnce(Owner<'_>, Receipt),
    ) -> Sent {
        let Some(direct) = &mut self.direct else { return Sent::Not };
        if !self.batch.is_empty() {
            return Sent::Not;
        }
        direct.send(&mut self.caches, (requester.process, requester.pd), (sge, flags), enter)
    }

    /// Forgets the peer, because from now on the QP may be connected to another QP or another process.
    pub(crate) fn forget_peer(&mut self) {
        (self.peer, self.far, self.direct) = (None, None, None);
        (self.srq_peer, self.srq_far) = (None, None);
    }

    /// The end of a work request that has had no effect. If the batch is not empty, the result is that the
    /// batch must be carried out first.
    pub(super) fn in_turn(&self, outcome: Outcome) -> Attempt {
        self.batch.in_turn(outcome)
    }
}

/// A process has no copy record left for another requester.
pub(super) struct TooManyCopiers;

/// The destination of a work request, and the attributes that its checks need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// QP number of the responder; `None` if the path leads to no port of this fabric.
    pub(crate) dest_qpn: Option<u32>,
    /// First PSN sent (RC).
    pub(crate) sq_psn: u32,
    /// Q_Key (UD).
    pub(crate) qkey: u32,
    /// `max_rd_atomic` (RC).
    pub(crate) max_rd_atomic: u8,
    /// Global route header (UD).
    pub(crate) grh: Option<Header>,
    /// Service level (UD).
    pub(crate) sl: u8,
    /// Multicast groups to which the datagram goes, if it does not go to a QP (UD).
    pub(crate) groups: Option<GroupAddress>,
}

impl Requester {
    /// Tries to carry out a work request, or gathers it. `completing` is the request's completion.
    pub(crate) fn attempt(
        &self,
        scratch: &mut Scratch,
        route: &Route,
        request: &Request<'_>,
        completing: &dyn Completing,
    ) -> Attempt {
        let op = &request.op;
        if !scratch.batch.goes_with(op) {
            return Attempt::AfterGathered;
        }
        if let Err(status) = check_initiator(op.answered_as(), route.max_rd_atomic) {
            return scratch.in_turn(Outcome::Done(status));
        }
        // If the batch is not empty, its requests have already marked the copy as running.
        let copying = scratch.batch.is_empty().then(|| self.own.begin());
        let mut pieces = std::mem::take(&mut scratch.pieces);
        pieces.clear();
        let attempt = if self.find_pieces(&mut scratch.caches.regions, &mut pieces, request) {
            self.attempt_at_qp(scratch, route, (request, completing), &pieces)
        } else {
            scratch.in_turn(Outcome::Done(WcStatus::LocProtErr))
        };
        scratch.pieces = pieces;
        if attempt == Attempt::Gathered {
            scratch.batch.keep(copying);
        }
        attempt
    }

    /// The result of a gathered work request whose bytes could not be moved.
    pub(crate) fn not_moved(&self, scratch: &Scratch, dest_qpn: u32, cause: Unreachable) -> Outcome {
        if cause == Unreachable::Local {
            return Outcome::Done(WcStatus::LocProtErr);
        }
        if self.process.is_own(dest_qpn) {
            // Gathered requests access memory of another process. The responder QP is in this process. So it
            // is an XRC target, and the memory is in the process of the SRQ.
            return match scratch.batch.first_left() {
                Some(request) => self.not_moved_here(dest_qpn, cause.into(), &request),
                None => self.silence(),
            };
        }
        // Since the request was gathered, the peer's process may have exited, and another process may have
        // taken its slot.
        let peer = scratch.peer.as_ref().filter(|peer| peer.slot == slot_of(dest_qpn));
        match peer.and_then(|peer| self.responder(Some(peer), dest_qpn, false)) {
            Some(responder) => match scratch.batch.first_left() {
                Some(request) => self.conclude(&responder, cause.into(), &request),
                None => self.silence(),
            },
            None => self.silence(),
        }
    }

    /// The result of a SEND that has taken a RECV, if the RECV's CQ had no room for the completion.
    #[cold]
    pub(crate) fn found_cq_full(&self, scratch: &Scratch, dest_qpn: u32, request: &Request<'_>) -> Outcome {
        match self.responder(scratch.peer.as_ref(), dest_qpn, false) {
            Some(responder) => self.conclude(&responder, Refusal::CqFull, request),
            None => self.silence(),
        }
    }

    /// Collects the local memory of a work request in `pieces`. Returns `false` if the request's lkeys do not
    /// allow the access.
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
        (request, completing): (&Request<'_>, &dyn Completing),
        pieces: &[Piece],
    ) -> Attempt {
        if self.responder_type == IBV_QPT_XRC_RECV {
            return self.attempt_at_srq(scratch, route, (request, completing), pieces);
        }
        let Some(dest_qpn) = route.dest_qpn.filter(|qpn| self.find_peer(scratch, *qpn)) else {
            return match &route.groups {
                Some(groups) => {
                    let (caches, to) = (&mut scratch.caches, (route, groups));
                    Attempt::Over(self.multicast(caches, to, (request, completing), pieces))
                }
                None => scratch.in_turn(self.unreached(route.dest_qpn)),
            };
        };
        let Scratch { caches, batch, peer, far, direct, .. } = scratch;
        let Ok(copier) = self.copier_for(request, far, peer.as_ref()) else {
            return batch.in_turn(self.delay());
        };
        let copying = batch.begin(copier);
        let takes_recv = request.op.opcode().consumes_recv();
        let reached = self.responder(peer.as_ref(), dest_qpn, takes_recv);
        let Some((responder, verified)) =
            reached.and_then(|found| Some((found, self.verify(&found, route)?)))
        else {
            return batch.in_turn(self.silence());
        };
        if verified.shown.state() == QpState::Rtr.to_c() && self.qp_type != QpType::Ud {
            responder.establish();
        }
        let (from, qp_type, grh) = (self.num, self.qp_type, route.grh.as_ref());
        let message = Message { from, qp_type, request, pieces, grh, sl: route.sl, completing };
        match responder.respond((caches, batch), &verified, &message) {
            Ok(attempt) => {
                match attempt {
                    Attempt::Gathered => batch.keep(copying),
                    Attempt::Over(_) | Attempt::AfterGathered => drop(copying),
                }
                let is_like_direct = matches!(request.op, RequestOp::Verb(SendOp::Write(_) | SendOp::Send))
                    && matches!(attempt, Attempt::Over(_) | Attempt::Gathered)
                    && self.qp_type != QpType::Ud;
                if is_like_direct && direct.as_ref().is_none_or(|direct| !direct.holds()) {
                    let peer = peer.clone().filter(|peer| self.qp_type == QpType::Rc || peer.link.is_none());
                    *direct = peer.and_then(|peer| {
                        let far = self.find_copier(far, &peer)?.clone();
                        Direct::new(peer, (self.own.clone(), far), verified)
                    });
                }
                attempt
            }
            Err(_) if !batch.is_empty() => Attempt::AfterGathered,
            Err(refusal) => Attempt::Over(self.conclude(&responder, refusal, request)),
        }
    }

    /// The result of a work request that the responder did not carry out.
    pub(super) fn conclude(
        &self,
        responder: &Responder<'_>,
        refusal: Refusal,
        request: &Request<'_>,
    ) -> Outcome {
        match refusal {
            Refusal::Silence => self.delay(),
            Refusal::Taking => self.unanswered(Obstacle::Taking),
            Refusal::Local => Outcome::Done(WcStatus::LocProtErr),
            Refusal::Fault(Fault::NoRecv) if self.qp_type == QpType::Rc => {
                Outcome::Wait(Obstacle::NoRecv(responder.qp.min_rnr_timer.load(Relaxed) & 31))
            }
            refusal => {
                responder.blame_for(refusal, self.num, request, self.qp_type);
                match (responder.refuse(refusal, self.qp_type), self.qp_type) {
                    (WcStatus::Success, QpType::Uc | QpType::Ud) => {
                        Outcome::Undelivered(refusal.drop_cause())
                    }
                    (status, _) => Outcome::Done(status),
                }
            }
        }
    }

    /// The result of a work request that gets no answer, because no responder takes it.
    pub(super) fn silence(&self) -> Outcome {
        self.unanswered(Obstacle::Silence)
    }

    /// The result of a work request that gets no answer now, for a reason that only the software NIC has.
    /// For example, another process holds a lock.
    pub(super) fn delay(&self) -> Outcome {
        self.unanswered(Obstacle::Delay)
    }

    /// The result of a work request for a QP whose process does not exist or cannot be reached.
    pub(super) fn unreached(&self, dest_qpn: Option<u32>) -> Outcome {
        let exists = || dest_qpn.is_some_and(|qpn| self.process.has_peer(qpn));
        if self.qp_type == QpType::Rc && exists() { self.delay() } else { self.silence() }
    }

    fn unanswered(&self, obstacle: Obstacle) -> Outcome {
        match self.qp_type {
            QpType::Rc => Outcome::Wait(obstacle),
            QpType::Uc | QpType::Ud => Outcome::Undelivered(match obstacle {
                Obstacle::Silence => DropCause::Unknown,
                _ => DropCause::OutOfReach,
            }),
        }
    }

    /// The responder `qpn` in the peer, or in this process if `peer` is `None`. `takes_recv` tells whether
    /// the message takes a RECV.
    #[inline(always)]
    pub(super) fn responder<'a>(
        &self,
        peer: Option<&'a Arc<Peer>>,
        qpn: u32,
        takes_recv: bool,
    ) -> Option<Responder<'a>> {
        let place = match peer {
            Some(peer) => (Owner::Peer(peer), &peer.segment),
            None => (Owner::This, self.process.segment),
        };
        Responder::of(self.process, place, qpn, takes_recv)
    }

    /// Sets `scratch.peer` to the process of `qpn`, or to `None` for this process. Returns `false` if no
    /// process has this QP number, or if the process cannot be reached.
    #[inline(always)]
    pub(super) fn find_peer(&self, scratch: &mut Scratch, qpn: u32) -> bool {
        let slot = slot_of(qpn);
        let known = scratch.peer.as_ref().is_some_and(|peer| peer.slot == slot && !peer.is_dead());
        if !known {
            if self.process.is_own(qpn) {
                scratch.peer = None;
                return true;
            }
            // A QP is connected to a QP of one process. If that process exits and another process takes its
            // slot, `verify` rejects the QP of the new process by its attributes.
            scratch.peer = self.process.peer(qpn);
        }
        scratch.peer.is_some()
    }

    /// The copier that marks the copies of a message to this peer. `None` if the message accesses no memory
    /// of the peer's program. See [`Requester::find_copier`].
    #[inline(always)]
    pub(super) fn copier_for<'a>(
        &self,
        request: &Request<'_>,
        far: &'a mut Option<Arc<Copier>>,
        peer: Option<&Arc<Peer>>,
    ) -> Result<Option<&'a Arc<Copier>>, TooManyCopiers> {
        match peer {
            Some(peer) if self.touches_memory(request) => {
                self.find_copier(far, peer).map(Some).ok_or(TooManyCopiers)
            }
            _ => Ok(None),
        }
    }

    /// The copier that marks this QP's copies at a peer. `None` if all copy records of the peer are in use.
    /// `far` keeps the copier for the next message.
    #[inline(always)]
    fn find_copier<'a>(&self, far: &'a mut Option<Arc<Copier>>, peer: &Arc<Peer>) -> Option<&'a Arc<Copier>> {
        if !far.as_ref().is_some_and(|far| far.is_at(peer)) {
            *far = None;
            *far = self.process.copier_at(peer);
        }
        far.as_ref()
    }

    /// Whether a message accesses memory of the responder's program. The payload of a small SEND goes into
    /// the RECV's slot in the receive queue, and the receiver copies it from there.
    #[inline(always)]
    fn touches_memory(&self, request: &Request<'_>) -> bool {
        let header = if self.qp_type == QpType::Ud { GRH_BYTES } else { 0 };
        let is_send = matches!(request.op.opcode(), Opcode::Send | Opcode::SendWithImm);
        !is_send || header as usize + request.len as usize > CARRIED_BYTES
    }

    /// Verifies that the responder takes messages of this requester; `None` if it does not.
    #[inline(always)]
    pub(super) fn verify(&self, responder: &Responder<'_>, route: &Route) -> Option<Verified> {
        let qp = responder.qp;
        // `shown` contains the record's version. The version is loaded before the other fields, because the
        // owner stores a new version after it has changed the other fields.
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
