//! A server that scans a buffer before it answers, and a client that waits for the whole answer (CoNEXT'13,
//! section 2): what a NIC's accesses do to the server's caches, and what RDMA gains over kernel TCP.
//!
//! Client and server are one source for both stacks (`stack`, `rdma`, `tcp`). The modes differ in which
//! buffer is scanned, and in nothing else; what is sent is always the same one. Every answer is the buffer as the
//! request found it filled: RC and TCP lose nothing, and the next fill begins after the next request, which the
//! client sends when it has the whole answer.

mod config;
mod deployment;
mod protocol;
mod rdma;
mod stack;
mod tcp;
mod tenant;
mod walk;

pub use config::{Mode, Order, Reading, Response, Scanned, Stack, Tenancy, Touch};
pub use protocol::{TouchClient, TouchServer, Verdict};
pub use tenant::Tenant;
pub use walk::LineWalk;
