//! Loads and stores of a machine's own memory (CLUSTER'21, Table II and Figure 6c). Pieces are taken in turn
//! or at random, at the core's own socket or another. On a real machine the thread touches its memory first,
//! which places it at the thread's socket.

mod config;
mod deployment;
mod pieces;
mod protocol;

pub use config::{Addresses, LocalMemory, Op};
pub use deployment::MACHINE;
pub use pieces::Pieces;
pub use protocol::{LocalMemoryClient, written};
