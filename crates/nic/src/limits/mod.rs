//! Upper bounds of a workload on a profile, one for each resource.
//!
//! A bound sums the costs of [`crate::cost`] over the packets of a message. It ignores cache misses, queueing
//! and imbalance. So the simulator finds no higher rate, apart from operations that are in flight when it
//! begins to measure. If a simulated rate is well below the lowest bound, one of these effects is the reason.

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
pub use terms::{InFlight, Limit, Measure, PartTime, Term};
pub use unlike::Machines;
