//! The queues of `doorbell-soft` that processes fill for each other.

#[path = "../../../soft/src/rings/completions.rs"]
pub(crate) mod completions;
#[path = "../../../soft/src/rings/recvs.rs"]
pub(crate) mod recvs;
