//! The queues of this process: QPs, receive queues and CQs.
//!
//! Terms:
//! - A *position* is the number of a RECV in its receive queue, or of a notice in its ring. It only grows.
//! - A *slot* holds one RECV in the segment. Several RECVs use a slot, one after the other.
//! - A *sender* is a QP whose messages take RECVs of a receive queue. It may be in another process.
//! - A sender *claims* a RECV before it writes a message into the RECV's slot. When the message is whole, the
//!   RECV is *complete*.
//! - A completion is *taken* when a poll returns it to the program.
//! - A *notice* is a sender's announcement of a complete RECV to a CQ.
//! - A completion of a send is *entered* into the CQ early, and becomes *due* when its request is done.
//! - A *receipt* names the RECV that a message has taken. It shows whether that RECV's completion is taken.

pub(crate) mod calls;
pub(crate) mod cq;
pub(crate) mod errors;
pub(crate) mod events;
pub(crate) mod qp;
pub(crate) mod recv_queue;
pub(crate) mod send_progress;
pub(crate) mod waits;
