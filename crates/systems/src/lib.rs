//! The papers' systems, each in its own room, written against `doorbell_verbs` alone.
//!
//! They are plain poll loops over a [`doorbell_verbs::Provider`]: one source runs in virtual time
//! and on real devices. Threads share nothing but [`doorbell_verbs::Mem`].
//!
//! - [`herd`]: RPC by UC WRITE and UD SEND, or by UD SEND both ways (ATC'16, 4.1).
//! - [`sequencer`]: a counter that clients draw numbers from (ATC'16, 4.2).
//! - [`kv`]: key-value stores (ATC'16, 4.3).
#![forbid(unsafe_code)]

mod device;
mod error;
pub mod herd;
pub mod kv;
mod measure;
mod outbox;
mod recv_ring;
pub mod sequencer;
mod work;

pub use error::SystemError;
pub use measure::{Interval, Measured};
