//! The code that runs for each verb in virtual time.
//!
//! - [`worker`] holds the threads of a workload.
//! - [`systems`] runs the systems on simulated machines.
//! - [`steady`] sees each operation and decides when a run ends.
//!
//! All of it is generic over the provider of verbs, or called once per operation. It is a separate crate so
//! that only this code is compiled for speed, and only once. The crate `doorbell-lab` describes runs and
//! their results, and calls this crate.
#![forbid(unsafe_code)]

mod spawn;
pub mod steady;
pub mod systems;
pub mod worker;

pub use spawn::{WorkerTask, spawn};
