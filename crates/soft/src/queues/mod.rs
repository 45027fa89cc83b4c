//! The queues of this process: QPs, receive queues and CQs.

pub(crate) mod calls;
pub(crate) mod cq;
pub(crate) mod errors;
pub(crate) mod events;
pub(crate) mod qp;
pub(crate) mod recv_queue;
pub(crate) mod send_progress;
pub(crate) mod waits;
