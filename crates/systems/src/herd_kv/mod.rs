//! The store over HERD's RPCs (ATC'16, 4.3). It is linearizable for each key. Each request is executed at
//! most once, even if messages are lost and repeated.

mod config;
mod deployment;
mod protocol;
mod server;

pub use config::HerdKv;
pub use protocol::{HerdKvClient, HerdKvServer, max_reply, max_request};

pub(crate) use server::StoreServer;
