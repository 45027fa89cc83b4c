//! Key-value stores (ATC'16, 4.3): 16-byte keys, values of variable length.
//!
//! - [`Store`]: a partitioned index with a log, as MICA has; one thread owns a partition.
//! - [`herd`]: the store served over HERD's RPCs. Linearizable for each key; each request is
//!   executed at most once, also when messages are lost and repeated.
//! - [`read`]: GET by two READs, of the bucket and of the entry, as Pilaf and FaRM-KV do; a checksum tells
//!   torn and stale entries. PUTs go through [`herd`]. Linearizable for each key.
//! - [`drtm`]: GET by one READ, PUT by compare-and-swap, WRITE and compare-and-swap, without the server's
//!   processor. Linearizable for each key; and, as the paper emulates it, without the update.

pub mod drtm;
mod fill;
pub mod herd;
mod key;
mod load;
mod message;
pub mod read;
mod store;

pub use fill::{Filled, fill};
pub use key::{KEY_BYTES, Key, numbered, owner};
pub use load::{Distribution, Load};
pub use message::{Refusal, Reply, Request};
pub use store::{Layout, Store};
