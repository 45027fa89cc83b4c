//! The simulated world: hosts, devices, threads, and the state that they share.
//!
//! - `state` holds the world.
//! - `dispatch` gives events to their handlers.
//! - `turns` decides which thread runs, and when.
//! - `thread` records a thread's passes.
//! - `ahead` prefetches data for the next events.

mod ahead;
mod dispatch;
mod locks;
mod state;
mod thread;
mod turns;

pub(crate) use dispatch::Next;
pub(crate) use state::World;
pub(crate) use thread::{PassLook, Thread, Waiting};
