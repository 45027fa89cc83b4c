//! The queues of this process: those that it posts to, and those that it polls.

pub(crate) mod cq;
pub(crate) mod errors;
pub(crate) mod events;
pub(crate) mod qp;
pub(crate) mod recv_queue;
