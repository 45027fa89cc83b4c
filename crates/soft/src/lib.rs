//! A software RDMA NIC in user space.
//!
//! The device lives in the processes that use it. Those of one user meet in a registry
//! (`registry`); each shares one segment (`segment`) that holds its memory regions, QPs and
//! queues for the others to act on. The requester does the work: posting a WRITE moves the bytes,
//! posting a SEND takes a RECV of the peer, fills its buffers and writes its completion
//! (`engine`). What cannot be done at once (no RECV, no answer) waits in the send queue and is
//! tried again when the program polls, and by one thread per process (`progress`).
//!
//! `capi` holds the functions of libibverbs.so.1 under their C names; `doorbell-soft-so`
//! exports them. `launch` runs a program on it.

pub mod arena;
mod batch;
pub mod capi;
mod channel;
mod counts;
mod cq;
mod device;
mod engine;
mod errno;
mod events;
pub mod launch;
mod lock;
mod mapping;
mod peer;
mod process;
mod progress;
mod qp;
mod records;
mod recv_queue;
mod regions;
mod registry;
mod rings;
mod segment;
pub mod stats;
mod sync;
#[cfg(test)]
mod tests;
mod transfer;
