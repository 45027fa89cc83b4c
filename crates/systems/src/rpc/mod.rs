//! Any RPC. Parameters choose the verbs, sizes, times and work of requests and replies.
//!
//! Messages travel by [`crate::herd`], with its guarantees: a request ends once, by its own reply. Each
//! reply's bytes follow from its request's bytes, and clients compare all of them.

mod config;
mod deployment;
mod protocol;
mod sizes;
mod text;

pub use config::{Rpc, Times};
pub use doorbell_schema::Arrivals;
pub use protocol::{Load, RpcClient, RpcServer};
pub use sizes::Sizes;
