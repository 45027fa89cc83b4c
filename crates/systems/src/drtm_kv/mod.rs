//! GET by one READ; PUT by compare-and-swap, WRITE and compare-and-swap; both without the server's processor
//! (ATC'16, 4.3.2). Linearizable for each key. An option leaves out the WRITE of a PUT, as the paper's
//! emulation does.

mod config;
mod deployment;
mod protocol;

pub use config::DrtmKv;
pub use protocol::{ACCESS, Done, DrtmClient, ITEM, Items, SERVICE, VALUE, fill};
