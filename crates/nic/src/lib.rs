//! What a NIC is, without time: profiles, WQE layout, PCIe accounting, analytic limits.
//!
//! A [`Profile`] describes a machine and its NIC. [`accounting`] says which PCIe transactions a
//! posted work request costs there, [`limits`] what a workload can reach at most. Nothing here
//! keeps a clock: the same functions serve the simulator, the software NIC and every explanation.
#![forbid(unsafe_code)]

pub mod accounting;
pub mod limits;
pub mod link;
mod parameter;
mod profile;
mod resource;
mod units;
pub mod wqe;

pub use accounting::{Method, PostShape, RecvShape, Transactions};
pub use parameter::{Basis, Parameter, ProfileError, Unit};
pub use profile::{Atomics, Caches, Host, Link, Nic, Pcie, PcieSpeed, Profile, Rx, Tx};
pub use resource::Resource;
