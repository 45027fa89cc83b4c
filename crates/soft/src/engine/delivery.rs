//! Receives messages from processes that cannot access this process's memory. Such a process sends its
//! messages to the service thread of this process.

use super::completing::NoCompletion;
use super::refusal::Refusal;
use super::request::{Request, RequestOp};
use super::responder::{Message, Responder, XrcSrq, receives};
use crate::fabric::link::{Delivery, SendOperand};
use crate::fabric::peer::Owner;
use crate::fabric::process::Process;
use crate::fabric::service::Delivers;
use crate::memory::copy::Piece;
use doorbell_abi::{CEnum, IBV_QPT_XRC_RECV};
use doorbell_verbs::{GRH_BYTES, QpType, SendFlags, SendOp};
use std::sync::atomic::Ordering::*;

/// Receives messages that other processes sent to the service thread of this process.
#[derive(Debug)]
pub(crate) struct Engine;

impl Delivers for Engine {
    fn deliver(&self, delivery: &Delivery, message: &[u8]) -> Option<u64> {
        receive(delivery, message).err().map(Refusal::to_word)
    }
}

/// Receives a message as a QP of this process. The message is already in this process's memory.
fn receive(delivery: &Delivery, message: &[u8]) -> Result<(), Refusal> {
    let process = Process::current().map_err(|_| Refusal::Silence)?;
    let here = (Owner::This, process.segment);
    let Some(srqn) = delivery.srqn else {
        let responder = Responder::of(process, here, delivery.to, true).ok_or(Refusal::Silence)?;
        return receive_as(&responder, delivery, message);
    };
    // With XRC, the SRQ is in this process. The QP decides whether the message is taken, and may be in
    // another process.
    let peer = match process.is_own(delivery.to) {
        true => None,
        false => Some(process.peer(delivery.to).ok_or(Refusal::Silence)?),
    };
    let home = peer.as_ref().map_or(here, |peer| (Owner::Peer(peer), &peer.segment));
    let target = Responder::of(process, home, delivery.to, false).ok_or(Refusal::Silence)?;
    let srq = XrcSrq::of(process.segment, srqn, &target).ok_or(Refusal::Silence)?;
    receive_as(&target.with_srq(here, &srq), delivery, message)
}

fn receive_as(responder: &Responder<'_>, delivery: &Delivery, message: &[u8]) -> Result<(), Refusal> {
    let state = responder.qp.shown().state();
    let qp_type = match (responder.qp.qp_type.load(Relaxed), responder.srq) {
        (IBV_QPT_XRC_RECV, Some(_)) => QpType::Rc,
        (number, None) => QpType::from_c(number).ok_or(Refusal::Silence)?,
        _ => return Err(Refusal::Silence),
    };
    if responder.generation != delivery.generation || !receives(state) {
        return Err(Refusal::Silence);
    }
    let (header, payload) = message.split_at_checked(delivery.header as usize).ok_or(Refusal::Silence)?;
    let grh = match (qp_type, delivery.has_grh) {
        (QpType::Ud, true) => Some(header.try_into().map_err(|_| Refusal::Silence)?),
        (QpType::Ud, false) if header.len() == GRH_BYTES as usize => None,
        (QpType::Rc | QpType::Uc, false) if header.is_empty() => None,
        _ => return Err(Refusal::Silence),
    };
    let op = match delivery.operand {
        SendOperand::None => RequestOp::Verb(SendOp::Send),
        SendOperand::Imm(imm) => RequestOp::Verb(SendOp::SendWithImm(imm)),
        SendOperand::InvalidatedKey(rkey) => RequestOp::SendWithInvalidate(rkey),
    };
    let flags = if delivery.solicited { SendFlags::SOLICITED } else { SendFlags::empty() };
    let request = Request {
        wr_id: 0,
        op,
        sg_list: &[],
        flags,
        dest: None,
        len: delivery.len,
        inline: None,
        number: delivery.number,
        srqn: delivery.srqn.unwrap_or(0),
    };
    let pieces = [Piece { addr: payload.as_ptr() as u64, len: payload.len() }];
    let message = Message {
        from: delivery.from,
        qp_type,
        request: &request,
        pieces: &pieces,
        grh: grh.as_ref(),
        sl: delivery.sl,
        completing: &NoCompletion,
    };
    match delivery.operand {
        SendOperand::InvalidatedKey(rkey) => {
            responder.receive_invalidating(&mut Default::default(), &message, rkey)
        }
        SendOperand::None | SendOperand::Imm(_) => responder.receive(&mut Default::default(), &message),
    }
}
