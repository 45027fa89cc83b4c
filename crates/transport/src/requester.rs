//! The sending side: requests, answers and time-outs (IB specification vol. 1, 9.7 to 9.9).

use crate::qp::Qp;
use crate::scatter::scatter;
use crate::send_queue::SendEntry;
use crate::{
    Action, AtomicOp, Body, Deth, Keys, NakCode, Packet, PacketPart, RecvQueue, Reth, Source, Syndrome,
    TxPacket, check_initiator, local_rights, psn, rnr_wait, sent_qkey, state_after_failed_send,
};
use doorbell_verbs::{AccessFlags, QpState, QpType, SendFlags, SendOp, Time, WcStatus};

/// In a long RC message, every packet with a number that is a multiple of this requests an ACK. Otherwise a
/// loss near the message's end would repeat the whole message.
const ACK_EVERY: u32 = 32;

/// The reason why a work request cannot be sent.
enum Obstacle {
    /// The work request must wait for an answer, or for the end of the state Sqd.
    Wait,
    /// The work request completes with this error after all earlier work requests.
    Error(WcStatus),
}

impl Qp {
    /// Work requests that were at least partly transmitted and have not completed.
    pub fn outstanding(&self) -> u32 {
        (self.req.started - self.req.acked) as u32
    }

    /// Whether every visible work request is transmitted. Then [`Qp::next_request`] returns nothing and
    /// changes nothing.
    #[inline]
    pub fn all_sent(&self) -> bool {
        self.req.current == self.sq.visible
    }

    /// The time at which to call [`Qp::timeout`], if any. Every call on the QP can change it.
    pub fn deadline(&self) -> Option<Time> {
        (self.req.deadline != Time::NEVER).then_some(self.req.deadline)
    }

    /// The next request packet; `None` if there is none to transmit now. The packet's source is always
    /// [`Source::Wqe`], with length 0 if the packet has no payload.
    ///
    /// On UC and UD, a completion in `out` belongs to the returned packet. This completion takes effect when
    /// the packet's payload has been fetched.
    pub fn next_request(&mut self, now: Time, keys: &Keys, out: &mut Vec<Action>) -> Option<TxPacket> {
        if self.all_sent() || self.req.rnr_wait || !matches!(self.state, QpState::Rts | QpState::Sqd) {
            return None;
        }
        let slot = self.sq.slot(self.req.current);
        match self.obstacle(slot, keys) {
            None => {}
            Some(Obstacle::Error(status)) if self.req.current == self.req.acked => {
                self.fail_send(status, None, out);
                return None;
            }
            Some(_) => {
                self.req.stalled = true;
                return None;
            }
        }
        if self.req.current == self.req.started {
            self.start(slot);
        }
        let (packet, offset) = self.request(slot);
        self.transmitted(now, slot, &packet, out);
        let source = Source::Wqe { slot: slot as u32, offset, len: packet.payload_len };
        Some(TxPacket { packet, source })
    }

    /// The obstacle to sending the current work request.
    fn obstacle(&self, slot: usize, keys: &Keys) -> Option<Obstacle> {
        let entry = self.sq.entry(slot);
        let opcode = entry.op.opcode();
        if self.req.current == self.req.started {
            if self.state == QpState::Sqd {
                return Some(Obstacle::Wait);
            }
            if entry.flags.contains(SendFlags::FENCE) && self.req.reads > 0 {
                return Some(Obstacle::Wait);
            }
            if entry.returns_data() {
                if let Err(status) = check_initiator(opcode, self.settings.max_rd_atomic) {
                    return Some(Obstacle::Error(status));
                }
                if self.req.reads >= u32::from(self.settings.max_rd_atomic) {
                    return Some(Obstacle::Wait);
                }
            }
            let unacknowledged = self.req.unacknowledged();
            if unacknowledged > 0 && unacknowledged + self.packets(entry.len) > psn::HALF {
                return Some(Obstacle::Wait);
            }
        }
        if entry.flags.contains(SendFlags::INLINE) {
            return None;
        }
        let need = local_rights(opcode);
        let holds =
            self.sq.sges(slot).iter().all(|s| {
                s.length == 0 || keys.check(s.lkey, self.pd, s.addr, u64::from(s.length), need).is_ok()
            });
        (!holds).then_some(Obstacle::Error(WcStatus::LocProtErr))
    }

    /// Packets of a message of `len` bytes. An empty message has one packet.
    pub(crate) fn packets(&self, len: u32) -> u32 {
        let mtu = self.settings.mtu();
        // Most messages have one packet, and a division is slow.
        if len <= mtu { 1 } else { len.div_ceil(mtu) }
    }

    /// Gives the current work request its PSNs.
    fn start(&mut self, slot: usize) {
        let packets = self.packets(self.sq.entry(slot).len);
        let entry = self.sq.entry_mut(slot);
        entry.first_psn = self.req.next_psn;
        entry.packets = packets;
        self.req.reads += u32::from(entry.returns_data());
        self.req.started += 1;
    }

    /// The packet at the current PSN, and the offset of its payload in the message.
    fn request(&self, slot: usize) -> (Packet, u32) {
        let entry = self.sq.entry(slot);
        let mtu = self.settings.mtu();
        let index = psn::sub(self.req.current_psn, entry.first_psn);
        let offset = index * mtu;
        let left = entry.len - offset;
        let ends = index + 1 == entry.packets;
        let part = match (index == 0, ends) {
            (true, true) => PacketPart::Only,
            (true, false) => PacketPart::First,
            (false, true) => PacketPart::Last,
            (false, false) => PacketPart::Middle,
        };
        let imm = if ends { entry.op.imm() } else { None };
        let atomic = |op| (atomic_body(entry, op), 0);
        let (body, payload_len) = match entry.op {
            SendOp::Send | SendOp::SendWithImm(_) => (Body::Send { part, imm }, left.min(mtu)),
            SendOp::Write(remote) | SendOp::WriteWithImm(remote, _) => {
                let reth = Reth { va: remote.addr, rkey: remote.rkey, dma_len: entry.len };
                (Body::Write { part, reth: (index == 0).then_some(reth), imm }, left.min(mtu))
            }
            SendOp::Read(remote) => {
                let va = remote.addr.wrapping_add(u64::from(offset));
                (Body::ReadRequest(Reth { va, rkey: remote.rkey, dma_len: left }), 0)
            }
            SendOp::CompareSwap { compare, swap, .. } => atomic(AtomicOp::CompareSwap { compare, swap }),
            SendOp::FetchAdd { add, .. } => atomic(AtomicOp::FetchAdd { add }),
        };
        let returns_data = entry.returns_data();
        let wants_ack = ends || returns_data || index % ACK_EVERY == ACK_EVERY - 1;
        let (dest_qp, deth) = match entry.dest {
            Some(dest) => {
                let qkey = sent_qkey(&dest, self.settings.qkey);
                (dest.qpn, Some(Deth { qkey, src_qp: self.num }))
            }
            None => (self.settings.dest_qp_num, None),
        };
        let packet = Packet {
            transport: self.qp_type,
            dest_qp,
            psn: self.req.current_psn,
            ack_req: self.qp_type == QpType::Rc && wants_ack,
            solicited: ends && !returns_data && entry.flags.contains(SendFlags::SOLICITED),
            msn: 0,
            deth,
            body,
            payload_len,
        };
        (packet, offset)
    }

    /// Advances past `packet`.
    fn transmitted(&mut self, now: Time, slot: usize, packet: &Packet, out: &mut Vec<Action>) {
        let entry = self.sq.entry(slot);
        let end = psn::add(entry.first_psn, entry.packets);
        // The answer to a READ uses all remaining PSNs of the READ.
        let next = if matches!(packet.body, Body::ReadRequest(_)) { end } else { psn::add(packet.psn, 1) };
        let req = &mut self.req;
        if psn::sub(next, req.una_psn) > req.unacknowledged() {
            req.next_psn = next;
        } else {
            self.repeats.packets += 1;
        }
        req.current_psn = next;
        let ended = next == end;
        req.current += u64::from(ended);
        if self.qp_type == QpType::Rc {
            if req.deadline == Time::NEVER {
                req.arm(now, &self.settings);
            }
        } else if ended {
            req.una_psn = next;
            self.complete_send(WcStatus::Success, out);
        }
    }

    /// Handles an arrived answer (IB specification vol. 1, 9.7.5 and 9.9.2).
    pub(crate) fn receive_answer(
        &mut self,
        now: Time,
        packet: &Packet,
        keys: &Keys,
        rq: &mut RecvQueue,
        out: &mut Vec<Action>,
    ) {
        let before = self.req.una_psn;
        let distance = psn::sub(packet.psn, before);
        if distance >= self.req.unacknowledged() {
            return; // Stale, or an answer to nothing.
        }
        let positive = packet.body == Body::Ack(Syndrome::Ack);
        let complete = self.acknowledge(distance + u32::from(positive), out);
        if self.req.una_psn != before {
            self.req.progress(now, &self.settings);
        }
        if complete {
            self.take_answer(now, packet, keys, rq, out);
        } else if self.req.implicit_nak != Some(self.req.una_psn) {
            self.req.implicit_nak = Some(self.req.una_psn);
            self.retry(now, Some(rq), out);
        }
        if self.req.stalled {
            self.req.stalled = false;
            out.push(Action::Transmit);
        }
    }

    /// Handles an answer to the oldest unacknowledged PSN. All earlier PSNs are acknowledged.
    fn take_answer(
        &mut self,
        now: Time,
        packet: &Packet,
        keys: &Keys,
        rq: &mut RecvQueue,
        out: &mut Vec<Action>,
    ) {
        match packet.body {
            Body::ReadResponse { .. } => self.take_read_response(now, packet, keys, rq, out),
            Body::AtomicAck { original } => self.take_atomic_ack(now, original, keys, rq, out),
            Body::Ack(Syndrome::RnrNak(code)) => self.take_rnr_nak(now, code, rq, out),
            Body::Ack(Syndrome::Nak(NakCode::PsnSequence)) => self.retry(now, Some(rq), out),
            Body::Ack(Syndrome::Nak(code)) => self.fail_send(code.status(), Some(rq), out),
            _ => {}
        }
    }

    /// Acknowledges `count` PSNs from the oldest unacknowledged PSN on. At a PSN of a READ or atomic, stops
    /// and returns `false`, because the answer with the data is missing.
    fn acknowledge(&mut self, mut count: u32, out: &mut Vec<Action>) -> bool {
        while count > 0 {
            let entry = self.sq.entry(self.sq.slot(self.req.acked));
            if entry.returns_data() {
                return false;
            }
            let end = psn::add(entry.first_psn, entry.packets);
            let rest = psn::sub(end, self.req.una_psn);
            if count < rest {
                self.req.una_psn = psn::add(self.req.una_psn, count);
                return true;
            }
            count -= rest;
            self.req.una_psn = end;
            self.complete_send(WcStatus::Success, out);
        }
        true
    }

    fn take_read_response(
        &mut self,
        now: Time,
        packet: &Packet,
        keys: &Keys,
        rq: &mut RecvQueue,
        out: &mut Vec<Action>,
    ) {
        let slot = self.sq.slot(self.req.acked);
        let entry = self.sq.entry(slot);
        let mtu = self.settings.mtu();
        let index = psn::sub(self.req.una_psn, entry.first_psn);
        let offset = index * mtu;
        if !matches!(entry.op, SendOp::Read(_)) || packet.payload_len != mtu.min(entry.len - offset) {
            return self.fail_send(WcStatus::BadRespErr, Some(rq), out);
        }
        let ends = index + 1 == entry.packets;
        let sges = self.sq.sges(slot);
        if scatter(keys, self.pd, sges, u64::from(offset), packet.payload_len, out).is_err() {
            return self.fail_send(WcStatus::LocProtErr, Some(rq), out);
        }
        self.answered(now, ends, out);
    }

    fn take_atomic_ack(
        &mut self,
        now: Time,
        original: u64,
        keys: &Keys,
        rq: &mut RecvQueue,
        out: &mut Vec<Action>,
    ) {
        let slot = self.sq.slot(self.req.acked);
        if !self.sq.entry(slot).op.opcode().is_atomic() {
            return self.fail_send(WcStatus::BadRespErr, Some(rq), out);
        }
        let sge = self.sq.sges(slot)[0];
        if keys.check(sge.lkey, self.pd, sge.addr, 8, AccessFlags::LOCAL_WRITE).is_err() {
            return self.fail_send(WcStatus::LocProtErr, Some(rq), out);
        }
        out.push(Action::PlaceAtomic { addr: sge.addr, original });
        self.answered(now, true, out);
    }

    /// Records that the answer to the oldest unacknowledged PSN has arrived. `ends` is true if this answer
    /// completes the work request.
    fn answered(&mut self, now: Time, ends: bool, out: &mut Vec<Action>) {
        self.req.una_psn = psn::add(self.req.una_psn, 1);
        if ends {
            self.req.reads -= 1;
            self.complete_send(WcStatus::Success, out);
        }
        self.req.progress(now, &self.settings);
    }

    fn take_rnr_nak(&mut self, now: Time, code: u8, rq: &mut RecvQueue, out: &mut Vec<Action>) {
        if self.req.rnr_wait {
            return; // A duplicate of the NAK that started the wait.
        }
        if let Err(status) = self.req.retries.take_rnr_nak() {
            return self.fail_send(status, Some(rq), out);
        }
        self.repeats.rnr_naks += 1;
        self.req.go_back();
        self.req.rnr_wait = true;
        self.req.deadline = now + rnr_wait(code);
    }

    /// Sends again from the oldest unacknowledged PSN, if a retry is left.
    fn retry(&mut self, now: Time, rq: Option<&mut RecvQueue>, out: &mut Vec<Action>) {
        if self.req.rnr_wait {
            return; // The wait ends with a retransmission anyway.
        }
        if let Err(status) = self.req.retries.take_unanswered() {
            return self.fail_send(status, rq, out);
        }
        self.req.go_back();
        self.req.arm(now, &self.settings);
        self.req.stalled = false;
        out.push(Action::Transmit);
    }

    /// Handles a time-out. The driver calls this function at [`Qp::deadline`]. An earlier call does nothing.
    pub fn timeout(&mut self, now: Time, _keys: &Keys, out: &mut Vec<Action>) {
        if now < self.req.deadline || self.req.deadline == Time::NEVER {
            return;
        }
        if self.req.rnr_wait {
            self.req.rnr_wait = false;
            self.req.arm(now, &self.settings);
            out.push(Action::Transmit);
        } else {
            self.repeats.timeouts += 1;
            self.retry(now, None, out);
        }
    }

    /// Completes the oldest work request with an error. The QP enters Err (RC) or Sqe.
    fn fail_send(&mut self, status: WcStatus, rq: Option<&mut RecvQueue>, out: &mut Vec<Action>) {
        self.complete_send(status, out);
        match state_after_failed_send(self.qp_type) {
            QpState::Err => self.enter_error(rq, out),
            state => {
                self.state = state;
                self.flush_sends(out);
            }
        }
        out.push(Action::Failed);
    }
}

fn atomic_body(entry: &SendEntry, op: AtomicOp) -> Body {
    let remote = entry.op.remote().unwrap_or_default();
    Body::Atomic { va: remote.addr, rkey: remote.rkey, op }
}
