//! The queues that processes fill for each other, as they are stored in a segment. The owner and all senders
//! use these functions.

pub(crate) mod completions;
pub(crate) mod recvs;
