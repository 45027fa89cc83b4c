//! A software RDMA NIC in user space.
//!
//! The device has no server: it consists of the processes that use it. The processes of one user find each
//! other in a registry. Each process shares one memory segment with its peers. The segment holds the records
//! of the process's regions, QPs and queues, which peers read and change. The requester does the work of both
//! sides. When a process posts a WRITE, it moves the bytes itself. When it posts a SEND, it takes a RECV of
//! the peer, fills the RECV's buffers and writes the peer's completion. A request that cannot finish at once
//! (no RECV, no answer) waits in the send queue. The program retries it when it polls, and so does one thread
//! of the process.
//!
//! A module uses only modules above it in this list. A test of `xtask` checks this rule:
//! - `memory`: segments and their records, regions, moving bytes;
//! - `fabric`: the processes that use the device, and how they find and wake each other;
//! - `rings`: the queues in a segment, which their owner and senders use;
//! - `engine`: the execution of a work request;
//! - `watch`: counts, injected faults, strict mode and traces of a QP;
//! - `queues`: CQs, receive queues and QPs;
//! - `cm`: rdma_cm, the connection manager that librdmacm uses;
//! - `capi`: the functions of libibverbs.so.1 under their C names, which `doorbell-soft-so` exports.
//!
//! System calls go through std and rustix. `libc` supplies types, error numbers, functions of the C library
//! (atexit(3), pthread_atfork(3)), and the system calls that std and rustix lack. A comment marks each such
//! system call.
//!
//! `doorbell-launch` runs a program on the device. It has the definitions that the launcher and this library
//! share, for example for counts and statistics. `counts` counts in this process, and reports the counts when
//! the process exits.

pub mod capi;
mod causes;
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
mod refused;
mod rings;
pub mod shown;
mod sync;
#[cfg(test)]
mod tests;
mod thread;
mod watch;
mod wr_opcode;
