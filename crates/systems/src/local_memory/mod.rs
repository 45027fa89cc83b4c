//! Loads and stores of a machine's own memory (CLUSTER'21, Table II and Figure 6c). Pieces are accessed in
//! order or at random, in memory of the core's own socket or of another one. On a real machine the thread
//! touches its memory first, so that the memory is at the thread's socket.

mod config;
mod deployment;
mod pieces;
mod protocol;

pub use config::{Addresses, LocalMemory, Op};
pub use deployment::MACHINE;
pub use pieces::Pieces;
pub use protocol::{LocalMemoryClient, written};
