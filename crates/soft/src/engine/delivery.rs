//! Messages that other processes have brought to this one's own thread: it has them received, as its memory is its own alone.

use super::batch::Request;
use super::responder::{Message, Refusal, Responder, receives};
use crate::fabric::link::Delivery;
use crate::fabric::peer::Owner;
use crate::fabric::process::Process;
use crate::fabric::service::Delivers;
use crate::memory::transfer::Piece;
use doorbell_abi::CEnum;
use doorbell_verbs::{GRH_BYTES, QpType, SendFlags, SendOp, SendWr};
use std::sync::atomic::Ordering::*;

/// Receives messages that other processes have brought to the thread of this one.
#[derive(Debug)]
pub(crate) struct Engine;

impl Delivers for Engine {
    fn deliver(&self, delivery: &Delivery, message: &[u8]) -> Option<u64> {
        receive(delivery, message).err().map(Refusal::to_word)
    }
}

/// Receives a message as a QP of this process, with that in its memory already.
fn receive(delivery: &Delivery, message: &[u8]) -> Result<(), Refusal> {
    let process = Process::current().map_err(|_| Refusal::Silence)?;
    let place = (Owner::This, process.segment);
    let responder = Responder::of(process, place, delivery.to, true).ok_or(Refusal::Silence)?;
    let state = responder.qp.shown().state();
    let qp_type = QpType::from_c(responder.qp.qp_type.load(Relaxed)).ok_or(Refusal::Silence)?;
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
    let op = delivery.imm.map_or(SendOp::Send, SendOp::SendWithImm);
    let flags = if delivery.solicited { SendFlags::SOLICITED } else { SendFlags::empty() };
    let wr = SendWr { wr_id: 0, op, sg_list: &[], flags, dest: None };
    let request = Request {
        wr,
        len: delivery.len,
        inline: None,
        number: delivery.number,
        invalidates: delivery.invalidates,
    };
    let pieces = [Piece { addr: payload.as_ptr() as u64, len: payload.len() }];
    let message =
        Message { from: delivery.from, qp_type, request: &request, pieces: &pieces, grh: grh.as_ref() };
    match delivery.invalidates {
        true => responder.receive_invalidating(&mut Default::default(), &message),
        false => responder.receive::<false>(&mut Default::default(), &message),
    }
}
