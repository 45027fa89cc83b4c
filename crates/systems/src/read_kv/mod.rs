//! GET by two READs, of the bucket and of the entry, as Pilaf and FaRM-KV do (ATC'16, 4.3). A checksum
//! detects torn and stale entries. PUTs go by [`crate::herd_kv`]. Linearizable for each key.

mod config;
mod deployment;
mod protocol;

pub use config::ReadKv;
pub use protocol::{Gotten, KvReader, ReadKvClient};
