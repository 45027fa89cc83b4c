//! Any RPC: requests and replies by the verbs, of the sizes, at the times and with the work that somebody asks for.
//!
//! It travels as [`crate::herd`] has it, with that room's guarantees: a request ends once, by its own reply. Each
//! reply's bytes follow from those of its request, and clients compare all of them.

mod config;
mod deployment;
mod protocol;
mod sizes;
mod text;

pub use config::{Rpc, Times};
pub use doorbell_schema::Arrivals;
pub use protocol::{Load, RpcClient, RpcServer};
pub use sizes::Sizes;
