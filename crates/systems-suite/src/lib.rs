//! What the papers' systems must do, as checks that run on any
//! [`Cluster`](doorbell_verbs::Cluster): in virtual time, on a real device with threads, and with a process for each machine.
//!
//! The cases ([`rpc::Case`], [`sequencer::Case`], [`kv::Case`]) take their parameters; tests in virtual time draw
//! them at random. [`names`] and [`run`] are a fixed list of them for devices where time is real. No check
//! depends on how long something takes; what does not end gives up after [`Scale::patience`].
#![forbid(unsafe_code)]

mod deployed;
mod faults;
pub mod forgetting;
mod history;
pub mod kv;
mod layer;
pub mod refusals;
pub mod rpc;
mod scenarios;
pub mod sequencer;
mod stage;

pub use faults::Faults;
pub use layer::{Layer, Layered};
pub use scenarios::{MACHINES, Scale, names, run, run_all};
