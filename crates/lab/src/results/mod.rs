//! What runs gave.

mod busiest;
mod found;
mod kinds;
mod lift;
mod outcome;
mod ran;
mod raw;
mod shown;
mod system_outcome;
mod uses;

pub(crate) use busiest::{BUSY, busiest, latency, top};
pub use found::Found;
pub use kinds::{OfClass, OfKind};
pub use lift::{
    Advice, Bottleneck, Gain, GroupLift, Lift, OperationTime, Relaxed, TimePart, TogetherLift, class_name,
};
pub(crate) use outcome::rates;
pub use outcome::{Outcome, SCHEMA};
pub(crate) use ran::Of;
pub use ran::Ran;
pub(crate) use raw::{RawClass, RawRun};
pub use shown::{Certainty, MeasuredTime};
pub(crate) use shown::{Shown, ShownOfClass};
pub use system_outcome::{SYSTEM_SCHEMA, Served, SystemOutcome};
pub(crate) use uses::hash_text;
pub use uses::{Cache, Latency, Pcie, PhaseTime, SentAgain, UncoreUse, Utilization};
