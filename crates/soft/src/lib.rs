//! A software RDMA NIC in user space.
//!
//! The device lives in the processes that use it. Those of one user meet in a registry; each shares
//! one segment that holds its memory regions, QPs and queues for the others to act on. The requester
//! does the work: posting a WRITE moves the bytes, posting a SEND takes a RECV of the peer, fills its
//! buffers and writes its completion. What cannot be done at once (no RECV, no answer) waits in the
//! send queue and is tried again when the program polls, and by one thread per process.
//!
//! Its rooms, each of which uses those above it only, as a test of `xtask` sees to:
//! - `memory`: segments and what lies in them, regions, moving bytes;
//! - `fabric`: the processes, and what wakes them;
//! - `rings`: the queues in a segment, as senders and owner work on them;
//! - `engine`: carrying out a work request;
//! - `watch`: what is counted of a QP, and the faults that come to it;
//! - `queues`: CQs, receive queues and QPs;
//! - `cm`: rdma_cm, which librdmacm asks for connections;
//! - `capi`: the functions of libibverbs.so.1 under their C names, which `doorbell-soft-so` exports.
//!
//! `doorbell-launch` runs a program on the device. It has what launcher and library must understand alike, the counts and the
//! statistics among it; `counts` here counts for this process, and tells at its end.

pub mod capi;
mod cm;
mod counts;
mod descriptors;
mod device;
mod engine;
mod errno;
mod fabric;
mod identity;
mod limits;
pub mod memory;
mod path;
mod point;
mod queues;
mod rings;
pub mod shown;
mod sync;
#[cfg(test)]
mod tests;
mod thread;
mod watch;
