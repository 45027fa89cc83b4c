//! XRC requests. The addressed QP decides whether a request is accepted. The SRQ that the request names has
//! the RECVs and the memory. The SRQ may be in another process than the QP (IB specification vol. 1, annex
//! A14).

use super::attempt::{Attempt, Outcome};
use super::completing::Completing;
use super::refusal::Refusal;
use super::request::Request;
use super::requester::{Requester, Route, Scratch};
use super::responder::{Message, Responder, XrcSrq};
use crate::fabric::peer::{Owner, Peer};
use crate::memory::copy::Piece;
use crate::memory::records::QPS;
use crate::memory::segment::Segment;
use doorbell_abi::CEnum;
use doorbell_launch::qp_numbers::slot_of;
use doorbell_transport::Fault;
use doorbell_verbs::QpState;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

impl<'a> XrcSrq<'a> {
    /// The SRQ with this number in that segment, and its generation; `None` if the QP's domain has no such
    /// SRQ.
    pub(super) fn of(segment: &'a Segment, num: u32, target: &Responder<'a>) -> Option<(XrcSrq<'a>, u32)> {
        let index = QPS as u32 + segment.slots.index_of(num);
        let record = segment.rq(index as usize)?;
        // Acquire, so that the generation is read before the record's domain is checked. A queue that is
        // created later in this record has another generation.
        let generation = record.generation.load(Acquire);
        // Acquire: a process that loads the domain also sees the queue, which the owner created before it
        // stored the domain.
        let domain = target.segment.domain(target.segment.index_of(target.qpn))?.load(Acquire);
        let is_of_it = domain != 0 && segment.domain(index as usize)?.load(Acquire) == domain;
        let home = (target.owner, target.segment);
        is_of_it.then_some((XrcSrq { record, index, num, home }, generation))
    }
}

impl<'a> Responder<'a> {
    /// This QP as the responder of requests for this SRQ, which is in the given process.
    pub(super) fn with_srq(
        self,
        (owner, segment): (Owner<'a>, &'a Segment),
        (srq, rq_generation): &'a (XrcSrq<'a>, u32),
    ) -> Responder<'a> {
        Responder { owner, segment, rq_generation: *rq_generation, srq: Some(srq), ..self }
    }
}

/// The result of the search for an SRQ's process.
enum SrqPlace {
    Here,
    There(Arc<Peer>),
    /// The process exists, but it cannot be reached now.
    Silent,
    /// There is no such process.
    Nowhere,
}

impl Requester {
    /// Tries to carry out a request for an SRQ, or gathers it.
    #[cold]
    pub(super) fn attempt_at_srq(
        &self,
        scratch: &mut Scratch,
        route: &Route,
        (request, completing): (&Request<'_>, &dyn Completing),
        pieces: &[Piece],
    ) -> Attempt {
        let Some(dest_qpn) = route.dest_qpn.filter(|qpn| self.find_peer(scratch, *qpn)) else {
            return scratch.in_turn(self.unreached(route.dest_qpn));
        };
        let srq_peer = match self.find_srq(scratch, request.srqn) {
            SrqPlace::Here => Some(None),
            SrqPlace::There(peer) => Some(Some(peer)),
            SrqPlace::Silent => return scratch.in_turn(self.delay()),
            // If the QP's process has exited, the request gets no answer.
            SrqPlace::Nowhere if !self.process.has_peer(dest_qpn) => return scratch.in_turn(self.silence()),
            SrqPlace::Nowhere => None,
        };
        let Scratch { caches, batch, peer, far, srq_far, .. } = scratch;
        let srq_process = srq_peer.as_ref().and_then(Option::as_ref);
        let (Ok(copier), Ok(srq_copier)) =
            (self.copier_for(request, far, peer.as_ref()), self.copier_for(request, srq_far, srq_process))
        else {
            return batch.in_turn(self.silence());
        };
        let copying = [batch.begin(copier), batch.begin(srq_copier)];
        let found = self.responder(peer.as_ref(), dest_qpn, false);
        let Some((target, verified)) = found.and_then(|target| Some((target, self.verify(&target, route)?)))
        else {
            return batch.in_turn(self.silence());
        };
        if verified.shown.state() == QpState::Rtr.to_c() {
            target.establish();
        }
        let place = srq_peer.as_ref().map(|peer| match peer {
            Some(peer) => (Owner::Peer(peer), &peer.segment),
            None => (Owner::This, self.process.segment),
        });
        let found = place.and_then(|place| Some((place, XrcSrq::of(place.1, request.srqn, &target)?)));
        let done = match &found {
            Some((place, srq)) => {
                let responder = target.with_srq(*place, srq);
                let (from, qp_type) = (self.num, self.qp_type);
                let message = Message { from, qp_type, request, pieces, grh: None, sl: 0, completing };
                // Messages access memory of the SRQ's protection domain.
                let verified = verified.with_pd(srq.0.record.pd.load(Relaxed));
                let done = responder.respond((caches, batch), &verified, &message);
                done.map_err(|refusal| (responder, refusal))
            }
            None => Err((target, Refusal::from(Fault::Invalid))),
        };
        match done {
            Ok(attempt) => {
                if attempt == Attempt::Gathered {
                    copying.into_iter().for_each(|copying| batch.keep(copying));
                }
                attempt
            }
            Err(_) if !batch.is_empty() => Attempt::AfterGathered,
            Err((responder, refusal)) => Attempt::Over(self.conclude(&responder, refusal, request)),
        }
    }

    fn find_srq(&self, scratch: &mut Scratch, num: u32) -> SrqPlace {
        let slot = slot_of(num);
        if slot == self.process.slot {
            return SrqPlace::Here;
        }
        let known = scratch.srq_peer.take().filter(|peer| peer.slot == slot && !peer.is_dead());
        match known.or_else(|| self.process.peer(num)) {
            Some(peer) => {
                scratch.srq_peer = Some(peer.clone());
                SrqPlace::There(peer)
            }
            None if self.process.has_peer(num) => SrqPlace::Silent,
            None => SrqPlace::Nowhere,
        }
    }

    /// The result of a gathered request whose bytes could not be moved. Its responder QP is in this process.
    pub(super) fn not_moved_here(&self, dest_qpn: u32, refusal: Refusal, request: &Request<'_>) -> Outcome {
        match self.responder(None, dest_qpn, false) {
            Some(responder) => self.conclude(&responder, refusal, request),
            None => self.silence(),
        }
    }
}
