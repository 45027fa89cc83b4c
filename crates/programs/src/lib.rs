//! The code that runs for each verb in virtual time.
//!
//! - [`worker`], the threads of a workload.
//! - [`systems`], the systems, on simulated machines.
//! - [`steady`], what decides when a run ends, which sees each operation.
//!
//! All of it is generic over the provider of verbs, or called once per operation. It is a crate of its own so that
//! it alone is compiled for speed, and once. The crate `doorbell-lab` describes runs and their results, and calls this
//! one.
#![forbid(unsafe_code)]

mod spawn;
pub mod steady;
pub mod systems;
pub mod worker;

pub use spawn::{WorkerTask, spawn};
