//! What runs gave.

mod known;
mod outcome;
mod stored;

pub(crate) use known::Known;
pub use outcome::{
    Bottleneck, Cache, Certainty, GroupLift, Latency, Lift, Outcome, Pcie, PhaseTime, SCHEMA, SentAgain,
    UncoreUse, Utilization,
};
pub(crate) use outcome::{Of, Ran, hash_text};
pub use stored::{Size, Stored, Taken};
