//! Common parts of key-value stores (ATC'16, 4.3): 16-byte keys, values of variable length.
//!
//! [`PartitionStore`] is a partitioned index with a log, like MICA's. One thread owns a partition.

mod fill;
mod key;
pub(crate) mod load;
pub(crate) mod message;
pub(crate) mod store;

pub use fill::fill;
pub use key::{KEY_BYTES, Key, numbered, owner};
pub use load::{Distribution, Load};
pub use message::{Refusal, Reply, Request};
pub use store::{Filled, Layout, PartitionStore};
