//! What a NIC is, without time: profiles, its generation's layouts, what things cost, analytic limits.
//!
//! A [`Profile`] describes a machine and its NIC. [`cost`] says what packets, WQEs and completions cost
//! each resource there, [`accounting`] which PCIe transactions a posted work request causes, [`limits`]
//! what a workload can reach at most. Nothing here keeps a clock: the same functions serve the
//! simulator, the software NIC and every explanation.
#![forbid(unsafe_code)]

pub mod accounting;
pub mod cost;
mod digits;
pub mod generation;
pub mod limits;
mod parts;
mod pattern;
mod profile;
mod relax;
mod resource;
mod shape;
pub mod wqe;

pub use accounting::Transactions;
pub use digits::{Digits, counted};
pub use generation::{Generation, Method};
pub use parts::{LatencyPart, NicCache, Part};
pub use pattern::Pattern;
pub use profile::{
    Atomics, Basis, Bounds, Caches, Calibrated, Device, DeviceId, Hierarchy, Host, Link, Measured, Met,
    ModelError, NINETY_PERCENT, Nic, Parameter, Pcie, PcieSpeed, Profile, ProfileError, Rx, Sockets, Spread,
    SystemMeasured, Tcp, Tx, Unit, VerbsMeasured,
};
pub use relax::More;
pub use resource::Resource;
pub use shape::{PostShape, RecvShape};
