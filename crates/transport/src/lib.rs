//! RC, UC and UD as state machines without I/O or clock.
//!
//! Inputs are work requests, packets and time-outs. Outputs are packets, memory accesses and completions.
//! Packets are typed headers. Only a codec converts them to bytes.
//!
//! Terms:
//! - The *driver* is the program that uses this crate, such as the simulator. It moves payload bytes, keeps
//!   time, and transmits the packets of a QP in the order in which the QP emits them.
//! - The *requester* is the sending side of a QP, and the *responder* is the receiving side.
//! - A *request* is a packet from requester to responder. An *answer* is a packet from responder to
//!   requester.
//! - A *PSN* is the number of a packet.
//! - A *position* counts the work requests of a queue, from the first one that was ever posted. A *slot* is a
//!   place in the queue's ring. It holds one work request after the other.
//! - A work request is *visible* when the NIC may read it from its queue.
#![forbid(unsafe_code)]

mod action;
pub mod causes;
pub mod codec;
mod fault;
mod keys;
mod names;
mod packet;
mod psn;
mod qp;
mod receive_state;
mod recv_queue;
mod refusal;
mod requester;
mod responder;
mod retry;
mod scatter;
mod send_queue;
mod send_state;
mod settings;
mod transitions;
mod validate;
mod wr;

pub use action::{Action, Queue, ReadStream, Source, TxPacket};
pub use fault::{Fault, check_enabled};
pub use keys::{KeyError, Keys, Region};
pub use names::state_name;
pub use packet::{AtomicOp, Body, Deth, NakCode, Packet, PacketPart, Reth, Syndrome};
pub use qp::Qp;
pub use recv_queue::RecvQueue;
pub use refusal::{Cause, Refused, errno};
pub use retry::{Repeats, Retries, ack_timeout, rnr_wait};
pub use send_queue::SendWqe;
pub use transitions::{
    check_modify, check_modify_shown, flushes_sends, state_after_failed_send, takes_requests,
};
pub use validate::{MAX_MESSAGE_BYTES, SendShape, check_post_recv};
pub use wr::{check_initiator, is_signaled, local_rights, sent_qkey};
