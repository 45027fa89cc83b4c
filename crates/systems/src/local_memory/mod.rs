//! Loads and stores of a machine's own memory (CLUSTER'21, Table II and Figure 6c): pieces in turn or at random, of the core's own socket
//! or another. On a real machine memory is at the socket of the thread, which touches it first.

mod config;
mod deployment;
mod pieces;
mod protocol;

pub use config::{Addresses, LocalMemory, Op};
pub use deployment::MACHINE;
pub use pieces::Pieces;
pub use protocol::{LocalMemoryClient, written};
