//! The known parameters of a machine and its NIC.

mod built_in;
mod calibrated;
mod device;
mod device_id;
mod difference;
mod file;
mod hierarchy;
mod host;
mod hosts;
mod machine;
mod measured;
mod parameter;
mod pipeline;
mod requests;
mod sections;
mod sockets;
mod tcp;

pub use calibrated::{Calibrated, Met, ModelError, NINETY_PERCENT, Spread};
pub use device::{Atomics, Caches, Device, Link, Nic, Pcie, PcieSpeed, Rx, Tx};
pub use device_id::DeviceId;
pub use difference::Difference;
pub use hierarchy::Hierarchy;
pub use host::Host;
pub use machine::{OtherHost, Profile};
pub use measured::{Bounds, Measured, MeasuredMachine, SystemMeasured, VerbsMeasured};
pub use parameter::{Basis, Parameter, ProfileError, Unit};
pub use pipeline::Pipeline;
pub use requests::Requests;
pub use sockets::Sockets;
pub use tcp::Tcp;
