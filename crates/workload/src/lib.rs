//! Workloads of verbs.
//!
//! A [`Workload`] is what people say; [`Workload::resolve`] fills it in and checks it against the profiles
//! of its machines. [`topology`] says which queue pair leads where.
#![forbid(unsafe_code)]

mod buffers;
mod check;
mod classes;
mod kinds;
mod mix;
mod older;
mod placement;
mod profiles;
mod queues;
mod resolve;
mod taking;
pub mod topology;
mod window;
mod workload;

pub use buffers::{Buffers, Piece};
pub use classes::{Class, ThreadClass};
pub use kinds::{Addresses, Pattern, Pieces, Verb};
pub use mix::{Item, Mix, Operation};
pub use profiles::Profiles;
pub use queues::{QueueLimits, Queues, RECV_BATCH};
pub use window::Window;
pub use workload::{MachineGroup, Resolved, Workload, WorkloadError, with_set};
