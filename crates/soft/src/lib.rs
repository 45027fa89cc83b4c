//! A software RDMA NIC in user space.
//!
//! There is no server: the device consists of the processes that use it. The processes of one user find each
//! other in a registry. Each process shares one segment with its regions, QPs and queues, which its peers
//! read and change. The requester does the work of both sides. When it posts a WRITE, it moves the bytes.
//! When it posts a SEND, it takes a RECV of the peer, fills the RECV's buffers and writes the peer's
//! completion. A request that cannot finish at once (no RECV, no answer) waits in the send queue. It is
//! retried when the program polls, and by one thread per process.
//!
//! A module uses only modules above it in this list, which a test of `xtask` checks:
//! - `memory`: segments and their records, regions, moving bytes;
//! - `fabric`: the processes, and how they wake each other;
//! - `rings`: the queues in a segment, as senders and owner use them;
//! - `engine`: carrying out a work request;
//! - `watch`: the counts of a QP, and the faults injected into it;
//! - `queues`: CQs, receive queues and QPs;
//! - `cm`: rdma_cm, which librdmacm asks for connections;
//! - `capi`: the functions of libibverbs.so.1 under their C names, which `doorbell-soft-so` exports.
//!
//! System calls use std and rustix. `libc` supplies types, error numbers, functions of the C library
//! (atexit(3), pthread_atfork(3)), and the system calls that std and rustix lack. A comment marks each of
//! these calls.
//!
//! `doorbell-launch` runs a program on the device. It has the definitions that launcher and library share,
//! such as those for counts and statistics. `counts` counts in this process, and reports when the process
//! exits.

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
