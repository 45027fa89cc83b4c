//! Any RPC. Parameters choose the verbs, sizes, times and work of requests and replies.
//!
//! [`crate::herd`] carries the messages, with its guarantees: a request ends once, by its own reply. A
//! request's bytes determine the reply's bytes, and clients check all bytes of a reply.

mod config;
mod deployment;
mod protocol;
mod sizes;
mod text;

pub use config::{Rpc, Times};
pub use doorbell_schema::Arrivals;
pub use protocol::{Load, RpcClient, RpcServer};
pub use sizes::Sizes;
