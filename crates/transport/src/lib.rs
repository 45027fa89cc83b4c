//! RC, UC and UD as state machines without I/O or clock.
//!
//! Inputs are work requests, packets and time-outs. Outputs are packets, memory accesses and completions. A
//! driver (the simulator, a socket) moves payload bytes, keeps time, and preserves the order in which a QP
//! emits its packets. Packets are typed headers; bytes exist only in a codec.
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
