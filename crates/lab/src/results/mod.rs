//! What runs gave.

mod known;
mod outcome;

pub(crate) use known::Known;
pub use outcome::{Bottleneck, Cache, GroupLift, Latency, Lift, Outcome, Pcie, SCHEMA, Utilization};
pub(crate) use outcome::{Of, Ran, hash_text};
