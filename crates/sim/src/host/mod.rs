//! A host: its cores, its memory, and the time to reach a line of memory.
//!
//! `machine` puts the host together. All accesses to memory go through `access` to a `model`, which is `flat`
//! or `hierarchy`. `reach` describes accesses. `incoming` makes DMA writes visible.

mod access;
mod again;
mod block;
mod bytes;
mod cores;
mod fills;
mod flat;
mod hierarchy;
mod incoming;
mod lanes;
mod lines;
mod machine;
mod memory;
mod model;
mod reach;
mod rings;
mod sockets;
mod streams;
mod touched;

pub(crate) use cores::{Core, MAX_CORES, Mmio};
pub use hierarchy::Uncore;
pub(crate) use lanes::{DmaWrite, WriteData};
pub(crate) use lines::CoreSet;
pub(crate) use machine::{ALLOCATED, Host};
pub use memory::memory_bytes;
pub(crate) use memory::{LINE, MemPlace, lines_touched};
pub(crate) use reach::{Access, AccessKind, Agent, Lines, ScanSteps};
pub(crate) use rings::{Ring, RingQueue};
