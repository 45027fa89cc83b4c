//! A counter over RC SENDs: the server answers each ping with the number of earlier pings. Numbers are unique
//! and dense, and RC loses no ping.

mod checks;
mod config;
mod deployment;
mod protocol;

pub use checks::checks;
pub use config::Ping;
pub use protocol::{Client, Server};
