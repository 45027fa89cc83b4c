//! A queue pair: its state, attributes and queues. `requester.rs` sends requests and handles their answers.
//! `responder.rs` handles arriving requests.

use crate::receive_state::Responder;
use crate::send_queue::SendQueue;
use crate::send_state::Requester;
use crate::settings::Settings;
use crate::{
    Action, Keys, Packet, Queue, RecvQueue, Refused, Repeats, SendShape, SendWqe, check_modify,
    check_post_recv, flushes_sends, is_signaled, takes_requests,
};
use doorbell_verbs::{
    AhAttr, Mtu, QpAttr, QpInitAttr, QpState, QpType, SendFlags, SendWr, Time, VerbsError, Wc, WcStatus,
};

/// A queue pair. The fields for sending come first, then the fields for both directions, then the fields for
/// receiving. Drivers have many QPs, so each further cache line that a call touches is one more miss.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Qp {
    pub(crate) qp_type: QpType,
    pub(crate) state: QpState,
    sq_sig_all: bool,
    pub(crate) uses_srq: bool,
    pub(crate) pd: u32,
    pub(crate) req: Requester,
    pub(crate) sq: SendQueue,
    pub(crate) settings: Settings,
    pub(crate) resp: Responder,
    max_inline_data: u32,
    pub(crate) num: u32,
    pub(crate) repeats: Repeats,
}

impl Qp {
    /// Creates QP number `num` of protection domain `pd`, in state Reset. With `uses_srq`, later calls get
    /// the [`RecvQueue`] of an SRQ.
    pub fn new(num: u32, pd: u32, attr: &QpInitAttr, uses_srq: bool) -> Qp {
        Qp {
            num,
            pd,
            qp_type: attr.qp_type,
            state: QpState::Reset,
            max_inline_data: attr.cap.max_inline_data,
            sq_sig_all: attr.sq_sig_all,
            uses_srq,
            settings: Settings::UNSET,
            sq: SendQueue::new(attr.cap.max_send_wr, attr.cap.max_send_sge),
            req: Requester::new(0),
            resp: Responder::default(),
            repeats: Repeats::default(),
        }
    }

    /// Repeated transmissions of the QP.
    pub fn repeats(&self) -> Repeats {
        self.repeats
    }

    /// QP number.
    pub fn num(&self) -> u32 {
        self.num
    }

    /// Protection domain.
    pub fn pd(&self) -> u32 {
        self.pd
    }

    /// Transport.
    pub fn qp_type(&self) -> QpType {
        self.qp_type
    }

    /// Current state.
    pub fn state(&self) -> QpState {
        self.state
    }

    /// Port, from 1.
    pub fn port_num(&self) -> u8 {
        self.settings.port_num
    }

    /// Path to the peer, once connected.
    pub fn ah_attr(&self) -> Option<AhAttr> {
        self.settings.ah_attr
    }

    /// QP number of the peer, once connected.
    pub fn dest_qp_num(&self) -> u32 {
        self.settings.dest_qp_num
    }

    /// Payload bytes of a full packet: the path MTU, or the size of a segment.
    pub fn packet_payload(&self) -> u32 {
        self.settings.mtu.into()
    }

    /// Whether a work request with these flags gives a CQE if it succeeds.
    pub fn signals(&self, flags: SendFlags) -> bool {
        is_signaled(WcStatus::Success, flags, self.sq_sig_all)
    }

    /// Q_Key; UD.
    pub fn qkey(&self) -> u32 {
        self.settings.qkey
    }

    /// Whether the QP takes its RECVs from an SRQ.
    pub fn uses_srq(&self) -> bool {
        self.uses_srq
    }

    /// Send work requests whose slots are in use.
    pub fn send_queue_len(&self) -> u32 {
        self.sq.len()
    }

    /// Sets the MTU of a UD QP to its port's MTU. No attribute gives this MTU, so the driver calls this
    /// function once the port is known. Until then, the MTU is 4096.
    pub fn set_port_mtu(&mut self, mtu: Mtu) {
        if self.qp_type == QpType::Ud {
            self.settings.path_mtu = mtu;
            self.settings.mtu = mtu.bytes() as u16;
        }
    }

    /// Makes the QP speak iWARP. Its packets carry `bytes` bytes regardless of the path MTU, because they are
    /// segments of a TCP stream (RFC 5044, section 5.1). It offers only the operations of
    /// [`doorbell_verbs::Opcode::is_of_iwarp`].
    pub fn set_segment(&mut self, bytes: u16) {
        (self.settings.mtu, self.settings.segments) = (bytes, true);
    }

    /// Changes state and attributes; ibv_modify_qp(3). [`check_modify`] lists the errors. A change to Err
    /// completes all work requests: first the send queue, then the receive queue. A change to Reset empties
    /// both queues without completions. No change touches an SRQ.
    pub fn modify(
        &mut self,
        attr: &QpAttr,
        rq: &mut RecvQueue,
        out: &mut Vec<Action>,
    ) -> Result<(), VerbsError> {
        let previous = self.state;
        let next = check_modify(previous, self.qp_type, attr).map_err(Refused::into_error)?;
        self.settings.update(attr);
        self.state = next;
        match (previous, next) {
            (_, QpState::Reset) => self.reset(rq),
            (_, QpState::Err) => self.enter_error(Some(rq), out),
            (QpState::Init, QpState::Rtr) => {
                let psn = attr.rq_psn.unwrap_or(0);
                self.resp.connect(psn, self.settings.max_dest_rd_atomic);
            }
            (QpState::Rtr, QpState::Rts) => {
                self.req = Requester::new(attr.sq_psn.unwrap_or(0));
                self.req.refill_retries(&self.settings);
            }
            (QpState::Sqd | QpState::Sqe, QpState::Rts) => out.push(Action::Transmit),
            _ => {}
        }
        if previous == QpState::Sqd {
            self.req.refill_retries(&self.settings);
            self.resp.resize(self.settings.max_dest_rd_atomic);
        }
        Ok(())
    }

    fn reset(&mut self, rq: &mut RecvQueue) {
        self.sq.clear();
        self.req = Requester::new(0);
        self.resp.clear();
        if !self.uses_srq {
            rq.clear();
        }
    }

    /// Calls [`check_post_recv`] for this QP.
    pub fn check_post_recv(&self) -> Result<(), VerbsError> {
        check_post_recv(self.state, self.uses_srq).map_err(Refused::into_error)
    }

    /// Writes a work request to the send queue. Returns the slot of the work request, a number below the
    /// queue's depth. The work request is not visible to the NIC before [`Qp::ring`].
    ///
    /// The state, the transport, the queue's sizes or the message's length may forbid the work request. Then
    /// it is refused. The lkeys are checked when the work request is carried out.
    pub fn post_send(&mut self, wr: &SendWr<'_>) -> Result<u32, VerbsError> {
        let shape = SendShape {
            qp_type: self.qp_type,
            state: self.state,
            max_send_sge: self.sq.max_sge(),
            max_inline_data: self.max_inline_data,
            path_mtu: self.settings.path_mtu,
        };
        let len = shape.check(wr).map_err(Refused::into_error)?;
        if self.settings.segments {
            check_iwarp(wr)?;
        }
        self.sq.post(wr, len)
    }

    /// Makes `n` more posted work requests visible to the NIC. In Err and Sqe they are flushed.
    pub fn ring(&mut self, n: u32, out: &mut Vec<Action>) {
        self.sq.ring(n);
        if flushes_sends(self.state) {
            self.flush_sends(out);
        }
    }

    /// Flushes the visible RECVs of the QP's own receive queue if the QP is in Err. The driver calls this
    /// function when RECVs have become visible. It also calls this function after [`Action::Failed`], because
    /// some calls that can fail do not get the receive queue.
    pub fn recv_posted(&mut self, rq: &mut RecvQueue, out: &mut Vec<Action>) {
        if self.state != QpState::Err || self.uses_srq {
            return;
        }
        while let Some(wqe) = rq.front() {
            let wr_id = wqe.wr_id;
            rq.pop();
            self.complete_recv(Wc { wr_id, status: WcStatus::WrFlushErr, ..Wc::default() }, false, out);
        }
    }

    /// Frees the slots of the send queue up to and including `slot`. These include the slots of earlier
    /// unsignalled work requests. The driver calls this function when the CQE of `slot` is polled.
    pub fn release(&mut self, slot: u32) {
        self.sq.release(slot, self.req.acked());
    }

    /// The work request in a slot.
    ///
    /// # Panics
    /// If the queue has no such slot.
    pub fn send_wqe(&self, slot: u32) -> SendWqe<'_> {
        self.sq.wqe(slot as usize)
    }

    /// Handles a packet that arrived for this QP. The driver holds the payload. `rq` is the QP's receive
    /// queue, or the SRQ. By the rules of the transport, the function drops broken packets, stale packets,
    /// and packets that the state does not accept.
    pub fn receive(
        &mut self,
        now: Time,
        packet: &Packet,
        keys: &Keys,
        rq: &mut RecvQueue,
        out: &mut Vec<Action>,
    ) {
        if packet.transport != self.qp_type {
            return;
        }
        if packet.is_answer() {
            if self.qp_type == QpType::Rc && matches!(self.state, QpState::Rts | QpState::Sqd) {
                self.receive_answer(now, packet, keys, rq, out);
            }
        } else if takes_requests(self.state) {
            self.receive_request(packet, keys, rq, out);
        }
    }

    /// Enters Err. Completes the send queue, the RECV of a partial message, and the receive queue `rq`.
    /// Without `rq`, the driver must complete the receive queue by [`Qp::recv_posted`].
    pub(crate) fn enter_error(&mut self, rq: Option<&mut RecvQueue>, out: &mut Vec<Action>) {
        self.state = QpState::Err;
        self.flush_sends(out);
        self.req.stop();
        if let Some(wr_id) = self.resp.abandon_held() {
            self.complete_recv(Wc { wr_id, status: WcStatus::WrFlushErr, ..Wc::default() }, false, out);
        }
        if let Some(rq) = rq {
            self.recv_posted(rq, out);
        }
    }

    /// Completes every visible send work request as flushed.
    pub(crate) fn flush_sends(&mut self, out: &mut Vec<Action>) {
        while self.req.acked() < self.sq.visible {
            self.complete_send(WcStatus::WrFlushErr, out);
        }
        self.req.skip_to(self.sq.visible);
    }

    /// Completes the oldest send work request.
    pub(crate) fn complete_send(&mut self, status: WcStatus, out: &mut Vec<Action>) {
        let slot = self.sq.slot(self.req.acked());
        let entry = self.sq.entry(slot);
        let opcode = entry.op.opcode();
        let success = status == WcStatus::Success;
        let wc = Wc {
            wr_id: entry.wr_id,
            status,
            opcode: opcode.into(),
            byte_len: if success && opcode.returns_data() { entry.len } else { 0 },
            qp_num: self.num,
            ..Wc::default()
        };
        let signaled = is_signaled(status, entry.flags, self.sq_sig_all);
        self.req.advance_acked();
        out.push(Action::Complete { queue: Queue::Send, wc, slot: slot as u32, signaled, solicited: false });
    }

    /// Completes a RECV.
    pub(crate) fn complete_recv(&self, wc: Wc, solicited: bool, out: &mut Vec<Action>) {
        let opcode = if wc.opcode == doorbell_verbs::WcOpcode::Send {
            doorbell_verbs::WcOpcode::Recv
        } else {
            wc.opcode
        };
        let wc = Wc { opcode, qp_num: self.num, ..wc };
        out.push(Action::Complete { queue: Queue::Recv, wc, slot: 0, signaled: true, solicited });
    }
}

/// Checks that iWARP offers the operation.
#[cold]
fn check_iwarp(wr: &SendWr<'_>) -> Result<(), VerbsError> {
    let opcode = wr.op.opcode();
    if opcode.is_of_iwarp() {
        Ok(())
    } else {
        Err(VerbsError::Unsupported(format!("iWARP has no {opcode:?}")))
    }
}
