//! A server that scans a buffer before it answers, and a client that waits for the whole answer (CoNEXT'13,
//! section 2). It shows how a NIC's accesses affect the server's caches, and how much RDMA gains over kernel
//! TCP.
//!
//! Client and server have one source for both stacks (`stack`, `rdma`, `tcp`). The modes differ only in the
//! buffer that the server scans. All answers are sent from one buffer. An answer never changes while it is
//! sent: the next fill begins after the next request, and the client sends this request only after it has
//! received the whole answer. RC and TCP lose nothing.

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
