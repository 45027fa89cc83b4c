//! A server that scans a buffer before it answers, and a client that waits for the whole answer (CoNEXT'13,
//! section 2). It shows how a NIC's accesses affect the server's caches, and how much RDMA gains over kernel
//! TCP.
//!
//! Client and server are one source for both stacks (`stack`, `rdma`, `tcp`). The modes differ only in the
//! buffer that is scanned: every answer is sent from one buffer. An answer is always the buffer as the last
//! scan filled it. RC and TCP lose nothing, and the next fill begins after the next request, which the client
//! sends once it has the whole answer.

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
