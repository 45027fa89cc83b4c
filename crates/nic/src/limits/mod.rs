//! What a workload can reach at most on a profile, by each resource alone.
//!
//! Bounds are sums of what [`crate::cost`] says, over the packets of a message: nothing that caches miss,
//! no queueing, no imbalance. So none is below what the simulator finds, but for what was under way
//! when it began to measure. Where the rate of a simulation is well below the least of them, one of
//! these is why.

mod alike;
mod bounds;
mod classes;
mod groups;
mod latency;
mod mix;
mod of_groups;
mod operation_end;
mod terms;
mod unlike;
mod windows;

pub use crate::Pattern;
pub use alike::{limits, limits_of_all, unloaded_latency};
pub use classes::{ClassKinds, limits_of_classes};
pub use groups::{Crowd, RoleGroup};
pub use mix::{Kinds, Mix, gcd};
pub use of_groups::{limits_of_groups, unloaded_latency_of_groups, unloaded_way_of_groups};
pub use terms::{Limit, Measure, PartTime, Term};
pub use unlike::Machines;
