//! The receiving side. Its inputs are requests. Its outputs are memory accesses, RECV completions and answers
//! (IB specification vol. 1, 9.7.4 to 9.8.3 and 9.9.3).

use crate::qp::Qp;
use crate::receive_state::{Inbound, SavedAtomic};
use crate::recv_queue::{RecvWqe, capacity};
use crate::scatter::scatter;
use crate::{
    Action, AtomicOp, Body, Fault, Keys, MAX_MESSAGE_BYTES, NakCode, Packet, PacketPart, ReadStream,
    RecvQueue, Reth, Source, Syndrome, TxPacket, check_enabled, psn,
};
use doorbell_verbs::{AccessFlags, GRH_BYTES, QpType, Wc, WcOpcode, WcStatus};

impl Qp {
    /// Handles an arrived request.
    pub(crate) fn receive_request(
        &mut self,
        packet: &Packet,
        keys: &Keys,
        rq: &mut RecvQueue,
        out: &mut Vec<Action>,
    ) {
        match self.qp_type {
            QpType::Rc => self.receive_rc(packet, keys, rq, out),
            QpType::Uc => self.receive_uc(packet, keys, rq, out),
            QpType::Ud => self.receive_ud(packet, keys, rq, out),
        }
    }

    /// Records that the driver has carried out the atomic of [`Source::Atomic`]. `original` is the previous
    /// value of the word. Duplicates are answered with this value.
    pub fn atomic_done(&mut self, resource: u8, original: u64) {
        if let Some(Some(atomic)) = self.resp.atomics.get_mut(usize::from(resource)) {
            atomic.original = Some(original);
        }
    }

    fn receive_rc(&mut self, packet: &Packet, keys: &Keys, rq: &mut RecvQueue, out: &mut Vec<Action>) {
        let distance = psn::sub(packet.psn, self.resp.epsn);
        if distance >= psn::HALF {
            return self.duplicate(packet, keys, out);
        }
        if distance > 0 {
            if !self.resp.nak_sent {
                self.resp.nak_sent = true;
                self.respond(Syndrome::Nak(NakCode::PsnSequence), self.resp.epsn, out);
            }
            return;
        }
        self.resp.nak_sent = false;
        let done = match packet.body {
            Body::Send { part, imm } => self.send_packet(packet, part, imm, keys, rq, out),
            Body::Write { part, reth, imm } => self.write_packet(packet, part, reth, imm, keys, rq, out),
            Body::ReadRequest(reth) => self.read_request(packet.psn, reth, keys, out),
            Body::Atomic { va, rkey, op } => self.atomic_request(packet.psn, va, rkey, op, keys, out),
            Body::ReadResponse { .. } | Body::AtomicAck { .. } | Body::Ack(_) => return,
        };
        match done {
            Ok(packets) => {
                self.resp.epsn = psn::add(self.resp.epsn, packets);
                if packet.ack_req && matches!(packet.body, Body::Send { .. } | Body::Write { .. }) {
                    self.respond(Syndrome::Ack, packet.psn, out);
                }
            }
            Err(fault) => self.refuse(fault, rq, out),
        }
    }

    /// Answers a request that cannot be carried out. If only a RECV is missing, the QP keeps its state. All
    /// other faults put the QP into Err (IB specification vol. 1, table 63).
    fn refuse(&mut self, fault: Fault, rq: &mut RecvQueue, out: &mut Vec<Action>) {
        let Some(code) = fault.nak() else {
            self.resp.nak_sent = true;
            let syndrome = Syndrome::RnrNak(self.settings.min_rnr_timer);
            return self.respond(syndrome, self.resp.epsn, out);
        };
        // If a message breaks off, its RECV completes with an error.
        let broken = (fault == Fault::Invalid && self.resp.held.is_some()).then_some(WcStatus::RemInvReqErr);
        let status = fault.recv_status(self.qp_type, self.uses_srq).or(broken);
        // A refused WRITE with immediate may have no RECV to take.
        if let Some(status) = status.filter(|_| self.resp.held.is_some() || rq.visible() > 0) {
            self.fail_recv(status, rq, out);
        }
        self.respond(Syndrome::Nak(code), self.resp.epsn, out);
        self.enter_error(Some(rq), out);
        out.push(Action::Failed);
    }

    /// Handles a request that was carried out before (IB specification vol. 1, 9.7.5.1.3). A SEND or WRITE is
    /// acknowledged again. A READ is executed again. An atomic is answered with the saved value.
    fn duplicate(&mut self, packet: &Packet, keys: &Keys, out: &mut Vec<Action>) {
        match packet.body {
            Body::Send { .. } | Body::Write { .. } if packet.ack_req => {
                self.respond(Syndrome::Ack, psn::sub(self.resp.epsn, 1), out);
            }
            Body::ReadRequest(reth) => {
                let behind = psn::sub(self.resp.epsn, packet.psn);
                if self.check_reth(AccessFlags::REMOTE_READ, reth, keys).is_ok()
                    && self.packets(reth.dma_len) <= behind
                {
                    out.push(Action::RespondRead(self.read_stream(packet.psn, reth)));
                }
            }
            Body::Atomic { .. } => {
                if let Some(original) = self.resp.saved_atomic(packet.psn).and_then(|a| a.original) {
                    let answer = self.answer(Body::AtomicAck { original }, packet.psn);
                    out.push(Action::Respond(TxPacket { packet: answer, source: Source::None }));
                }
            }
            _ => {}
        }
    }

    /// Handles a packet of UC (IB specification vol. 1, 9.8.2). A gap or a broken order of packets drops the
    /// message. The RECV of a dropped message stays for the next message.
    fn receive_uc(&mut self, packet: &Packet, keys: &Keys, rq: &mut RecvQueue, out: &mut Vec<Action>) {
        let in_order = packet.psn == self.resp.epsn;
        self.resp.epsn = psn::add(packet.psn, 1);
        let (Body::Send { part, .. } | Body::Write { part, .. }) = packet.body else { return };
        if part.begins() || !in_order {
            self.resp.inbound = Inbound::Idle;
        }
        if !part.begins() && self.resp.inbound == Inbound::Idle {
            return;
        }
        let done = match packet.body {
            Body::Send { part, imm } => self.send_packet(packet, part, imm, keys, rq, out),
            Body::Write { part, reth, imm } => self.write_packet(packet, part, reth, imm, keys, rq, out),
            _ => return,
        };
        if let Err(fault) = done {
            self.drop_message(fault, rq, out);
        }
    }

    /// Handles a datagram (IB specification vol. 1, 9.8.3).
    fn receive_ud(&mut self, packet: &Packet, keys: &Keys, rq: &mut RecvQueue, out: &mut Vec<Action>) {
        let (Body::Send { part: PacketPart::Only, imm }, Some(deth)) = (packet.body, packet.deth) else {
            return;
        };
        if deth.qkey != self.settings.qkey {
            return;
        }
        let done = self.receive_only(packet, imm, GRH_BYTES, deth.src_qp, keys, rq, out);
        if let Err(fault) = done {
            self.drop_message(fault, rq, out);
        }
    }

    /// Drops a message of UC or UD.
    fn drop_message(&mut self, fault: Fault, rq: &mut RecvQueue, out: &mut Vec<Action>) {
        self.resp.inbound = Inbound::Idle;
        if let Some(status) = fault.recv_status(self.qp_type, self.uses_srq) {
            self.fail_recv(status, rq, out);
        }
        if fault.is_fatal(self.qp_type) {
            self.enter_error(Some(rq), out);
            out.push(Action::Failed);
        }
    }

    /// Handles a packet of a SEND.
    fn send_packet(
        &mut self,
        packet: &Packet,
        part: PacketPart,
        imm: Option<u32>,
        keys: &Keys,
        rq: &mut RecvQueue,
        out: &mut Vec<Action>,
    ) -> Result<u32, Fault> {
        let received = match (part.begins(), self.resp.inbound) {
            (true, Inbound::Idle) => 0,
            (false, Inbound::Send { received }) => received,
            _ => return Err(Fault::Invalid),
        };
        self.check_part(part, packet.payload_len)?;
        if part == PacketPart::Only {
            self.receive_only(packet, imm, 0, 0, keys, rq, out)?;
            self.resp.message_done();
            return Ok(1);
        }
        if self.resp.held.is_none() {
            let RecvWqe { wr_id, sges } = rq.front().ok_or(Fault::NoRecv)?;
            self.resp.held = Some(wr_id);
            self.resp.held_sges.clear();
            self.resp.held_sges.extend_from_slice(sges);
            rq.pop();
        }
        let sges = &self.resp.held_sges;
        let total = u64::from(received) + u64::from(packet.payload_len);
        if total > capacity(sges) || total > u64::from(MAX_MESSAGE_BYTES) {
            return Err(Fault::RecvTooSmall);
        }
        scatter(keys, rq.pd(), sges, u64::from(received), packet.payload_len, out)
            .map_err(|_| Fault::RecvProtection)?;
        self.resp.inbound = Inbound::Send { received: total as u32 };
        if part.ends() {
            let wr_id = self.take_recv(rq);
            let wc = Wc { wr_id, opcode: WcOpcode::Recv, byte_len: total as u32, imm, ..Wc::default() };
            self.complete_recv(wc, packet.solicited, out);
            self.resp.message_done();
        }
        Ok(1)
    }

    /// Handles a SEND of one packet. The payload begins `header` bytes after the start of the RECV's buffers.
    #[allow(clippy::too_many_arguments)]
    fn receive_only(
        &mut self,
        packet: &Packet,
        imm: Option<u32>,
        header: u32,
        src_qp: u32,
        keys: &Keys,
        rq: &mut RecvQueue,
        out: &mut Vec<Action>,
    ) -> Result<(), Fault> {
        let wqe = match self.resp.held {
            Some(wr_id) => RecvWqe { wr_id, sges: &self.resp.held_sges },
            None => rq.front().ok_or(Fault::NoRecv)?,
        };
        let byte_len = header + packet.payload_len;
        if u64::from(byte_len) > wqe.capacity() {
            return Err(Fault::RecvTooSmall);
        }
        scatter(keys, rq.pd(), wqe.sges, u64::from(header), packet.payload_len, out)
            .map_err(|_| Fault::RecvProtection)?;
        let wr_id = self.take_recv(rq);
        let wc = Wc { wr_id, opcode: WcOpcode::Recv, byte_len, imm, src_qp, ..Wc::default() };
        self.complete_recv(wc, packet.solicited, out);
        Ok(())
    }

    /// Handles a packet of a WRITE.
    #[allow(clippy::too_many_arguments)]
    fn write_packet(
        &mut self,
        packet: &Packet,
        part: PacketPart,
        reth: Option<Reth>,
        imm: Option<u32>,
        keys: &Keys,
        rq: &mut RecvQueue,
        out: &mut Vec<Action>,
    ) -> Result<u32, Fault> {
        let payload = packet.payload_len;
        let of_message = |fault: Fault| fault.of_message(imm.is_some());
        let (va, rkey, left, total) = match (part.begins(), self.resp.inbound, reth) {
            (true, Inbound::Idle, Some(reth)) => {
                self.check_reth(AccessFlags::REMOTE_WRITE, reth, keys).map_err(of_message)?;
                (reth.va, reth.rkey, reth.dma_len, reth.dma_len)
            }
            (false, Inbound::Write { va, rkey, left, total }, None) => {
                // The region may have been deregistered since the first packet.
                self.check_remote(rkey, va, payload, AccessFlags::REMOTE_WRITE, keys).map_err(of_message)?;
                (va, rkey, left, total)
            }
            _ => return Err(Fault::Invalid),
        };
        self.check_part(part, payload)?;
        if payload > left || part.ends() != (payload == left) {
            return Err(Fault::Invalid);
        }
        if imm.is_some() && self.resp.held.is_none() && rq.visible() == 0 {
            return Err(Fault::NoRecv);
        }
        if payload > 0 {
            out.push(Action::Place { addr: va, payload_offset: 0, len: payload });
        }
        if !part.ends() {
            let va = va.wrapping_add(u64::from(payload));
            self.resp.inbound = Inbound::Write { va, rkey, left: left - payload, total };
            return Ok(1);
        }
        if imm.is_some() {
            let wr_id = self.take_recv(rq);
            let opcode = WcOpcode::RecvWriteWithImm;
            let wc = Wc { wr_id, opcode, byte_len: total, imm, ..Wc::default() };
            self.complete_recv(wc, packet.solicited, out);
        }
        self.resp.message_done();
        Ok(1)
    }

    fn read_request(
        &mut self,
        psn: u32,
        reth: Reth,
        keys: &Keys,
        out: &mut Vec<Action>,
    ) -> Result<u32, Fault> {
        if self.resp.inbound != Inbound::Idle {
            return Err(Fault::Invalid);
        }
        self.check_reth(AccessFlags::REMOTE_READ, reth, keys)?;
        self.resp.message_done();
        out.push(Action::RespondRead(self.read_stream(psn, reth)));
        Ok(self.packets(reth.dma_len))
    }

    fn atomic_request(
        &mut self,
        psn: u32,
        va: u64,
        rkey: u32,
        op: AtomicOp,
        keys: &Keys,
        out: &mut Vec<Action>,
    ) -> Result<u32, Fault> {
        if self.resp.inbound != Inbound::Idle {
            return Err(Fault::Invalid);
        }
        self.check_enabled(AccessFlags::REMOTE_ATOMIC, va)?;
        if self.resp.atomics.is_empty() {
            self.resp.atomics = vec![None; usize::from(self.resp.rd_atomic)];
        }
        let resource = self.resp.next_atomic;
        match self.resp.atomics.get(usize::from(resource)) {
            None | Some(Some(SavedAtomic { original: None, .. })) => return Err(Fault::Invalid),
            Some(_) => {}
        }
        self.check_remote(rkey, va, 8, AccessFlags::REMOTE_ATOMIC, keys)?;
        self.resp.atomics[usize::from(resource)] = Some(SavedAtomic { psn, original: None });
        let last = resource + 1 >= self.resp.rd_atomic;
        self.resp.next_atomic = if last { 0 } else { resource + 1 };
        self.resp.message_done();
        let packet = self.answer(Body::AtomicAck { original: 0 }, psn);
        let source = Source::Atomic { addr: va, op, resource };
        out.push(Action::Respond(TxPacket { packet, source }));
        Ok(1)
    }

    /// Checks that every packet but the last is full, and that only a message of one packet is empty.
    fn check_part(&self, part: PacketPart, payload: u32) -> Result<(), Fault> {
        let mtu = self.settings.mtu();
        let fits = match part {
            PacketPart::First | PacketPart::Middle => payload == mtu,
            PacketPart::Last => (1..=mtu).contains(&payload),
            PacketPart::Only => payload <= mtu,
        };
        if fits { Ok(()) } else { Err(Fault::Invalid) }
    }

    fn check_reth(&self, need: AccessFlags, reth: Reth, keys: &Keys) -> Result<(), Fault> {
        self.check_enabled(need, reth.va)?;
        if reth.dma_len > MAX_MESSAGE_BYTES {
            return Err(Fault::Invalid);
        }
        self.check_remote(reth.rkey, reth.va, reth.dma_len, need, keys)
    }

    /// Calls [`check_enabled`] for this QP.
    fn check_enabled(&self, need: AccessFlags, va: u64) -> Result<(), Fault> {
        check_enabled(need, va, self.settings.access, self.settings.max_dest_rd_atomic)
    }

    /// Checks an rkey, unless no byte is accessed (IB specification vol. 1, 9.7.5.2.4).
    fn check_remote(
        &self,
        rkey: u32,
        va: u64,
        len: u32,
        need: AccessFlags,
        keys: &Keys,
    ) -> Result<(), Fault> {
        if len == 0 {
            return Ok(());
        }
        keys.check(rkey, self.pd, va, u64::from(len), need).map_err(|_| Fault::Access)
    }

    /// Takes the RECV of the message that ends: the held RECV, or the oldest visible one.
    fn take_recv(&mut self, rq: &mut RecvQueue) -> u64 {
        self.resp.held.take().unwrap_or_else(|| {
            let wr_id = rq.front().map_or(0, |wqe| wqe.wr_id);
            rq.pop();
            wr_id
        })
    }

    /// Completes the RECV of the current message with an error.
    fn fail_recv(&mut self, status: WcStatus, rq: &mut RecvQueue, out: &mut Vec<Action>) {
        let wr_id = self.take_recv(rq);
        self.complete_recv(Wc { wr_id, status, ..Wc::default() }, false, out);
    }

    fn respond(&mut self, syndrome: Syndrome, psn: u32, out: &mut Vec<Action>) {
        let packet = self.answer(Body::Ack(syndrome), psn);
        out.push(Action::Respond(TxPacket { packet, source: Source::None }));
    }

    fn answer(&self, body: Body, psn: u32) -> Packet {
        Packet {
            transport: QpType::Rc,
            dest_qp: self.settings.dest_qp_num,
            psn,
            ack_req: false,
            solicited: false,
            msn: self.resp.msn,
            deth: None,
            body,
            payload_len: 0,
        }
    }

    fn read_stream(&self, psn: u32, reth: Reth) -> ReadStream {
        ReadStream {
            dest_qp: self.settings.dest_qp_num,
            psn,
            msn: self.resp.msn,
            addr: reth.va,
            left: reth.dma_len,
            mtu: self.settings.mtu(),
            at_start: true,
            done: false,
        }
    }
}
