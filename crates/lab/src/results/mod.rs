//! What runs gave.

mod found;
mod known;
mod outcome;
mod shown;
mod stored;

pub use found::Found;
pub(crate) use known::Known;
pub use outcome::{
    Bottleneck, Cache, GroupLift, Latency, Lift, Outcome, Pcie, PhaseTime, SCHEMA, SentAgain, UncoreUse,
    Utilization,
};
pub(crate) use outcome::{Of, Ran, hash_text, rate, rates};
pub(crate) use shown::Shown;
pub use shown::{Certainty, MeasuredTime};
pub(crate) use stored::MODEL;
pub use stored::{Size, Stored, Taken};
