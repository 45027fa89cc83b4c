//! The queues that processes fill for each other, as they lie in a segment. Their owner and all
//! who send to it work on them alike.

pub(crate) mod completions;
pub(crate) mod recvs;
