//! A verbs provider on a libibverbs.so.1 that is opened at run time. The library may drive hardware or the
//! kernel's Soft-RoCE, or it may be a custom library.
//!
//! [`NativeCluster`] runs the threads of all its machines as OS threads of this process, on one device that
//! sends packets to itself. A program that uses `doorbell_verbs` can reach only memory that the cluster
//! allocated for the program's machine. Every access and every inline payload is checked against a table of
//! allocations. Every libibverbs object is kept until all objects that depend on it are destroyed.

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
