//! How long processing units and cores are busy with an operation.
//!
//! These are service times without waiting: no queueing, no cache misses, no PCIe latency.

use crate::{Method, PostShape, Profile, RecvShape, wqe};
use doorbell_verbs::{Opcode, QpType, Span};

impl Profile {
    /// Time of a sending unit for one request.
    pub fn tx_request(&self, shape: &PostShape) -> Span {
        let tx = &self.tx;
        let base = match shape.opcode {
            Opcode::Read => tx.read_request,
            Opcode::CompareSwap | Opcode::FetchAdd => tx.atomic_request,
            Opcode::Send | Opcode::SendWithImm | Opcode::Write | Opcode::WriteWithImm => tx.send,
        };
        let fetched = match shape.method {
            Method::WqeByMmio => Span::ZERO,
            Method::Doorbell { .. } => tx.fetched_wqe,
        };
        let lines = tx.extra_line * u64::from(shape.wqe_lines() - 1);
        let reads = crate::accounting::payload_dmas(shape.payload_read(), shape.sges, self.link.mtu);
        let packets = self.link.request(shape.opcode, shape.qp_type, shape.payload).packets;
        base + fetched + lines + tx.payload_dma * reads + tx.extra_packet * u64::from(packets - 1)
    }

    /// Time of the responder's sending unit for the answer to one message: data of a READ or an
    /// atomic, or an ACK on RC.
    pub fn tx_response(&self, opcode: Opcode, transport: QpType, payload: u32) -> Span {
        let packets = self.link.response(opcode, transport, payload).packets;
        match (opcode.returns_data(), packets) {
            (_, 0) => Span::ZERO,
            (false, _) => self.tx.ack,
            (true, _) => self.tx.response + self.tx.extra_packet * u64::from(packets - 1),
        }
    }

    /// Time of the responder's receiving unit for one message: its packets, and each DMA it
    /// issues for them.
    pub fn rx_request(&self, opcode: Opcode, transport: QpType, payload: u32, recv: RecvShape) -> Span {
        if opcode.is_atomic() {
            return self.rx.atomic;
        }
        let rx = &self.rx;
        let dmas = crate::accounting::responder(self, opcode, transport, payload, recv);
        let packets = self.link.request(opcode, transport, payload).packets;
        let ud = transport == QpType::Ud;
        let inline = opcode.consumes_recv() && recv.inline && self.nic.receives_inline(payload, ud);
        rx.packet * u64::from(packets)
            + rx.dma_write * dmas.dma_writes
            + rx.dma_read * dmas.dma_reads
            + if inline { rx.inline_recv } else { Span::ZERO }
    }

    /// Time of the requester's receiving unit for the answer to one message. The CQE of a
    /// signalled request is not counted.
    pub fn rx_response(&self, opcode: Opcode, transport: QpType, payload: u32) -> Span {
        let packets = u64::from(self.link.response(opcode, transport, payload).packets);
        match (opcode.returns_data(), packets) {
            (_, 0) => Span::ZERO,
            (false, _) => self.rx.ack,
            (true, _) => (self.rx.packet + self.rx.dma_write) * packets,
        }
    }

    /// CPU time to post the work requests of `shape` with one call.
    pub fn cpu_post_send(&self, shape: &PostShape) -> Span {
        let h = &self.host;
        let lines = u64::from(shape.wqe_lines());
        let copied = match shape.wqe_payload() {
            wqe::Payload::Inline(bytes) => u64::from(wqe::lines(bytes)),
            wqe::Payload::None | wqe::Payload::Sges(_) => 0,
        };
        let build = h.build_wqe + h.build_line * lines + h.inline_copy_line * copied;
        match shape.method {
            Method::WqeByMmio => h.post_call + build + h.mmio_line * lines,
            Method::Doorbell { batch } => h.post_call + build * u64::from(batch) + h.doorbell,
        }
    }

    /// CPU time to post `recvs` RECVs with one call.
    pub fn cpu_post_recv(&self, recvs: u32) -> Span {
        let h = &self.host;
        h.post_call + h.post_recv_wqe * u64::from(recvs) + h.doorbell
    }

    /// CPU time to poll one completion that the NIC has written.
    pub fn cpu_poll(&self) -> Span {
        self.host.poll_cqe + self.host.dma_line
    }

    /// CPU time to receive one message: polling its completion, and moving its payload out of the
    /// CQE where it came inline.
    pub fn cpu_receive(&self, transport: QpType, payload: u32, recv: RecvShape) -> Span {
        let inline = recv.inline && self.nic.receives_inline(payload, transport == QpType::Ud);
        self.cpu_poll() + if inline { self.host.copy_line } else { Span::ZERO }
    }
}
