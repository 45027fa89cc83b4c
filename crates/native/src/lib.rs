//! A verbs provider on any libibverbs.so.1, opened at run time: hardware, the kernel's Soft-RoCE,
//! or a library of one's own.
//!
//! [`NativeCluster`] runs the threads of all its machines as OS threads of this process, on one
//! device whose packets come back to itself. Nothing a program can do through `doorbell_verbs`
//! reaches memory that the cluster did not allocate for the program's machine: every access and
//! every inline payload is checked against a table of allocations, and every libibverbs object is
//! kept until those that need it are gone.

mod access;
mod cluster;
mod counters;
mod cpu;
mod device;
mod error;
mod exchange;
mod library;
mod memory;
mod objects;
mod post;
mod provider;
mod query;
mod shared;
mod socket;
mod sockets;
mod table;
mod threads;

pub use cluster::NativeCluster;
pub use counters::{CacheCounters, CacheCounts, NoCounters};
pub use device::{NativeDevice, OpenError};
pub use provider::NativeProvider;
