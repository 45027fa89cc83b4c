//! Everything that is simulated, wired together: hosts, devices, threads, and what they share.
//!
//! `state` is the whole of it, `dispatch` gives events to their handlers, `turns` decides which thread goes on when,
//! `thread` knows what a thread's passes look at, `ahead` fetches what the next events need.

mod ahead;
mod dispatch;
mod state;
mod thread;
mod turns;

pub(crate) use dispatch::Next;
pub(crate) use state::World;
pub(crate) use thread::{PassLook, Thread, Waiting};
