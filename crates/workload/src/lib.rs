//! Workloads of verbs.
//!
//! A [`Workload`] holds what a user gives. [`Workload::resolve`] fills it in and checks it against the
//! profiles of its machines. [`topology`] connects the queue pairs.
#![forbid(unsafe_code)]

mod buffers;
mod check;
mod classes;
mod error;
mod file;
mod inline;
pub mod keys;
mod kinds;
pub mod limits;
mod mix;
mod older;
mod placement;
mod profiles;
mod queues;
mod remote_memory;
mod resolve;
mod resolved;
mod taking;
pub mod topology;
mod window;
mod workload;
mod written;

pub use buffers::{Buffers, Piece};
pub use error::WorkloadError;
pub use file::FileError;
pub use inline::DmaGain;
pub use kinds::{Addresses, Pattern, Pieces, RemoteAddresses, RemoteMemory, Verb};
pub use mix::{Item, Mix};
pub use profiles::{Profiles, with_set};
pub use queues::{QueueLimits, Queues, RECV_BATCH};
pub use resolved::{
    AtomicCounters, BufferOffset, ClassWork, LoadLoop, Operation, Posts, Resolved, ResolvedClass, ThreadWork,
    UniformWork,
};
pub use window::Window;
pub use workload::{MachineGroup, ThreadClass, Workload};
