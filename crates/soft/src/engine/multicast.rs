//! Datagrams to multicast groups. Each attached QP gets a copy of its own.

use super::attempt::Outcome;
use super::batch::Batch;
use super::completing::{Completing, OfMany};
use super::diagnosis::{Unanswered, silent};
use super::request::Request;
use super::requester::{Requester, Route};
use super::responder::{Caches, Message};
use crate::fabric::copier::Copier;
use crate::fabric::peer::Peer;
use crate::memory::copy::Piece;
use crate::memory::groups::{GroupAddress, members};
use doorbell_launch::counts::drops::DropCause;
use doorbell_launch::qp_numbers::{qp_num, slot_of};
use doorbell_verbs::WcStatus;
use std::sync::Arc;

impl Requester {
    /// Sends a datagram to all members of the groups except the sending QP (IB specification vol. 1,
    /// 10.5.2.1). If no member gets it, the result has the greatest [`DropCause`] of all members, which is
    /// the latest in the order of checks.
    #[cold]
    pub(super) fn multicast(
        &self,
        caches: &mut Caches,
        (route, address): (&Route, &GroupAddress),
        (request, completing): (&Request<'_>, &dyn Completing),
        pieces: &[Piece],
    ) -> Outcome {
        let (from, qp_type, grh) = (self.num, self.qp_type, route.grh.as_ref());
        let completing = &OfMany(completing);
        let message = Message { from, qp_type, request, pieces, grh, sl: route.sl, completing };
        let (mut received, mut lost, mut is_out_of_reach) = (0, DropCause::NoGroup, false);
        for slot in self.process.slots_with_groups() {
            let peer = match self.process.segment.slots.has(slot) {
                true => None,
                false => match self.process.peer(qp_num(slot, 0)) {
                    Some(peer) => Some(peer),
                    None => {
                        is_out_of_reach |= self.process.has_peer(qp_num(slot, 0));
                        continue;
                    }
                },
            };
            let peer = peer.as_ref();
            let segment = peer.map_or(self.process.segment, |peer| &peer.segment);
            // If a process has group members with QP numbers of several slots, the loop visits the process
            // once for each of these slots. Each visit serves the members of its slot.
            let qps = members(segment, address).into_iter().map(|index| segment.slots.qp_num(index));
            for qpn in qps.filter(|qpn| slot_of(*qpn) == slot && *qpn != self.num) {
                match self.send_to_member(caches, peer, (qpn, route), &message) {
                    Outcome::Done(WcStatus::Success) => received += 1,
                    // The requester itself cannot send, so the remaining members do not get the datagram
                    // either.
                    Outcome::Done(status) => return Outcome::Done(status),
                    Outcome::Undelivered(cause) => lost = lost.max(cause),
                    Outcome::Wait(_) => {}
                }
            }
        }
        match received {
            // A process that cannot be reached may have a member of this group.
            0 if lost == DropCause::NoGroup && is_out_of_reach => Outcome::Undelivered(DropCause::OutOfReach),
            0 => Outcome::Undelivered(lost),
            _ => Outcome::Done(WcStatus::Success),
        }
    }

    /// Sends the datagram to one member.
    fn send_to_member(
        &self,
        caches: &mut Caches,
        peer: Option<&Arc<Peer>>,
        (qpn, route): (u32, &Route),
        message: &Message<'_>,
    ) -> Outcome {
        let mut far = None;
        let Ok(copier) = self.copier_for(message.request, &mut far, peer) else {
            return Outcome::Undelivered(DropCause::OutOfReach);
        };
        let _copying = copier.map(Copier::begin);
        let found = self.responder(peer, qpn, true);
        let verified = found.and_then(|responder| Some((responder, self.verify(&responder, route)?)));
        let Some((responder, verified)) = verified else {
            let sent = Unanswered {
                from: self.num,
                qp_type: self.qp_type,
                dest_qpn: qpn,
                psn: 0,
                qkey: route.qkey,
                responder_type: self.responder_type,
            };
            return Outcome::Undelivered(silent(self.process, &sent).drop_cause());
        };
        match responder.respond((caches, &mut Batch::default()), &verified, message) {
            Ok(_) => Outcome::Done(WcStatus::Success),
            Err(refusal) => self.conclude(&responder, refusal, message.request),
        }
    }
}
