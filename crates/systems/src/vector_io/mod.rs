//! Vector I/O: one call writes many pieces to a remote address (CLUSTER'21, III-A, Algorithm 1).
//!
//! [`Writer`] is the component for other programs, and [`VectorIo`] is a benchmark of it. [`Strategy`] says
//! how pieces get into WRITEs: copied by the core (SP), as a list of WRITEs with one doorbell, or gathered by
//! the NIC (SGL). With every strategy, the pieces lie side by side in the target's memory once the call has
//! completed.

pub mod by_hand;
mod config;
mod deployment;
mod protocol;
mod writer;

pub use crate::strategy::{Chosen, Strategy};
pub use config::VectorIo;
pub use protocol::{SERVICE, VectorClient};
pub use writer::{VectorPiece, Writer};
