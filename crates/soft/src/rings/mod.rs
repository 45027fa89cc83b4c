//! The queues in a segment that one process fills for another. The segment's owner and all senders use these
//! functions.

pub(crate) mod completions;
pub(crate) mod recvs;
