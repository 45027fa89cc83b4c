//! Sweeps: a workload at each combination of the values of one or two options.

mod error;
mod knee;
mod merge;
mod over;
mod plan;
mod point;
mod result;
mod shards;

pub use error::SweepError;
pub use knee::Bound;
pub use merge::merge;
pub use over::Over;
pub use plan::{Draft, Plan};
pub use point::{Missing, Point};
pub use result::{Axis, Knee, SWEEP_SCHEMA, Sweep};
pub use shards::Shard;
