//! Actions that a QP requests from its driver.

use crate::{AtomicOp, Body, Packet, PacketPart};
use doorbell_verbs::{QpType, Wc};

/// The source of a packet's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// No payload.
    None,
    /// Bytes of the message of a send work request. Every request packet has this source. `len` is 0 if the
    /// packet carries no payload.
    Wqe {
        /// Slot in the send queue, see [`crate::Qp::send_wqe`].
        slot: u32,
        /// First byte within the message.
        offset: u32,
        /// Number of bytes.
        len: u32,
    },
    /// Checked memory of the responder.
    Memory {
        /// Virtual address.
        addr: u64,
        /// Number of bytes.
        len: u32,
    },
    /// An atomic on the checked, aligned word at `addr`. The driver executes the atomic, calls
    /// [`crate::Qp::atomic_done`], and writes the word's previous value to the packet.
    Atomic {
        /// Virtual address.
        addr: u64,
        /// The operation.
        op: AtomicOp,
        /// Argument of [`crate::Qp::atomic_done`].
        resource: u8,
    },
}

/// A packet to transmit once its payload is available. The requests of a QP must leave in the order in which
/// the QP emitted them. The answers of a QP must leave in their order, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxPacket {
    /// The packet.
    pub packet: Packet,
    /// The source of its payload.
    pub source: Source,
}

/// The answer to a READ: an iterator over its packets in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadStream {
    /// QP of the requester.
    pub dest_qp: u32,
    /// PSN of the next packet.
    pub psn: u32,
    /// Message sequence number of the answer.
    pub msn: u32,
    /// Address of the next byte.
    pub addr: u64,
    /// Bytes left.
    pub left: u32,
    /// Payload bytes per packet.
    pub mtu: u32,
    /// Whether no packet has been emitted yet.
    pub at_start: bool,
    /// Whether the last packet was emitted.
    pub done: bool,
}

impl Iterator for ReadStream {
    type Item = TxPacket;

    fn next(&mut self) -> Option<TxPacket> {
        if self.done {
            return None;
        }
        let len = self.left.min(self.mtu);
        let last = len == self.left;
        let part = match (self.at_start, last) {
            (true, true) => PacketPart::Only,
            (true, false) => PacketPart::First,
            (false, true) => PacketPart::Last,
            (false, false) => PacketPart::Middle,
        };
        let packet = Packet {
            transport: QpType::Rc,
            dest_qp: self.dest_qp,
            psn: self.psn,
            ack_req: false,
            solicited: false,
            msn: self.msn,
            deth: None,
            body: Body::ReadResponse { part },
            payload_len: len,
        };
        let source = if len == 0 { Source::None } else { Source::Memory { addr: self.addr, len } };
        self.psn = (self.psn + 1) & 0xff_ffff;
        self.addr = self.addr.wrapping_add(u64::from(len));
        self.left -= len;
        self.at_start = false;
        self.done = last;
        Some(TxPacket { packet, source })
    }
}

/// The queue of a QP to which a completion belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The send queue.
    Send,
    /// The receive queue or the SRQ.
    Recv,
}

/// An action that a QP requests of its driver. The driver executes actions in order. It makes a memory write
/// visible before any later completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write `len` bytes from `payload_offset` of the received packet's payload to the checked address
    /// `addr`.
    Place {
        /// Virtual address.
        addr: u64,
        /// First byte within the packet's payload.
        payload_offset: u32,
        /// Number of bytes.
        len: u32,
    },
    /// Write the 8-byte result of an atomic (host byte order) to the checked address `addr`.
    PlaceAtomic {
        /// Virtual address.
        addr: u64,
        /// The previous value of the word.
        original: u64,
    },
    /// A work request is done. If `signaled` is false, the driver writes no CQE. The slot of the send queue
    /// counts as done in any case.
    Complete {
        /// The queue of the completion.
        queue: Queue,
        /// The completion.
        wc: Wc,
        /// Slot of the send queue (meaningless for RECVs).
        slot: u32,
        /// Whether a CQE is written.
        signaled: bool,
        /// Whether the sender solicited an event.
        solicited: bool,
    },
    /// Transmit this answer.
    Respond(TxPacket),
    /// Transmit the packets of this answer.
    RespondRead(ReadStream),
    /// There may be packets to transmit again: call [`crate::Qp::next_request`].
    Transmit,
    /// An error has put the QP into Err, or into Sqe if a send of UC or UD failed. The QP has completed its
    /// send work requests, and will flush later send work requests. The driver must call
    /// [`crate::Qp::recv_posted`], which flushes the RECVs.
    Failed,
}
