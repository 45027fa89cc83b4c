//! The store over HERD's RPCs (ATC'16, 4.3). Linearizable for each key; each request is executed at most
//! once, also when messages are lost and repeated.

mod config;
mod deployment;
mod protocol;
mod server;

pub use config::HerdKv;
pub use protocol::{HerdKvClient, HerdKvServer, max_reply, max_request};

pub(crate) use server::StoreServer;
