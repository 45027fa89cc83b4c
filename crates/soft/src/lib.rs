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
//! - `counts`: what is posted, counted;
//! - `watch`: what is counted of a QP, and the faults that come to it;
//! - `queues`: CQs, receive queues and QPs;
//! - `stats`: what the counts would cost a NIC, told when a process ends;
//! - `cm`: rdma_cm, which librdmacm asks for connections;
//! - `capi`: the functions of libibverbs.so.1 under their C names, which `doorbell-soft-so` exports.
//!
//! `launch` runs a program on the device, and tells what it has counted however it ends.

pub mod capi;
mod cm;
mod counts;
mod descriptors;
mod device;
mod engine;
mod errno;
mod fabric;
mod identity;
pub mod launch;
mod limits;
pub mod memory;
mod path;
mod point;
mod queues;
mod rings;
mod say;
pub mod shown;
pub mod stats;
mod sync;
#[cfg(test)]
mod tests;
mod thread;
mod tree;
mod trust;
mod watch;
