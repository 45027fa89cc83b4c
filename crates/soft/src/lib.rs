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
//! Terms of all modules:
//!
//! | term | meaning |
//! |---|---|
//! | fabric | the processes that find each other in one registry |
//! | peer | another process of the fabric |
//! | segment | the memory that a process shares with its peers |
//! | record | the part of a segment that describes one object of its process, such as a region, a QP or a queue |
//! | owner | the process to which a segment, a queue or a region belongs |
//! | arena | the part of a segment with buffers of the program |
//! | private memory | memory of a program that no other process maps |
//! | requester, responder | the QP that sends a request, and the QP that receives it |
//! | generation | a counter that distinguishes the successive uses of a number, such as a QP number |
//! | claimer number | the number by which records name a process |
//! | copy record | a record by which a process waits for copies from and to its memory (`memory/copies.rs`) |
//! | service thread | a thread that accesses its process's memory for peers that cannot access it themselves |
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
