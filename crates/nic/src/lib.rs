//! The timeless model of a NIC: profiles, layouts of its generation, costs and analytic limits.
//!
//! A [`Profile`] describes a machine and its NIC. [`cost`] gives the cost of packets, WQEs and completions on
//! each resource. [`accounting`] gives the PCIe transactions that a posted work request causes. [`limits`]
//! gives the most that a workload can reach. Nothing here keeps a clock, so the simulator, the software NIC
//! and every explanation use these functions.
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
    Atomics, Basis, Bounds, Caches, Calibrated, Device, DeviceId, Difference, Hierarchy, Host, Link,
    Measured, MeasuredMachine, Met, ModelError, NINETY_PERCENT, Nic, OtherHost, Parameter, Pcie, PcieSpeed,
    Pipeline, Profile, ProfileError, Requests, Rx, Sockets, Spread, SystemMeasured, Tcp, Tx, Unit,
    VerbsMeasured,
};
pub use relax::More;
pub use resource::Resource;
pub use shape::{PostShape, RecvShape};
