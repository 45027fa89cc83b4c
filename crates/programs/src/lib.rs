//! The code that runs for each verb in virtual time.
//!
//! - [`worker`] holds the threads of a workload.
//! - [`systems`] runs the systems on simulated machines.
//! - [`steady`] evaluates the observed operations and decides when a run ends.
//!
//! All this code is generic over the provider of verbs, or is called once per operation. It is in a crate of
//! its own so that only this code is compiled for speed, and only once. The crate `doorbell-lab` describes
//! runs and their results, and calls this crate.
#![forbid(unsafe_code)]

mod spawn;
pub mod steady;
pub mod systems;
pub mod worker;

pub use spawn::{WorkerTask, spawn};
