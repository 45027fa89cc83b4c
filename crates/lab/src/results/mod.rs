//! What runs gave.

mod found;
mod kinds;
mod known;
mod lift;
mod outcome;
mod shown;
mod stored;

pub use found::Found;
pub use kinds::{OfClass, OfKind};
pub(crate) use known::Known;
pub use lift::{Advice, Bottleneck, Gain, GroupLift, Lift, OperationTime, Relaxed, TimePart, TogetherLift};
pub use outcome::{Cache, Latency, Outcome, Pcie, PhaseTime, SCHEMA, SentAgain, UncoreUse, Utilization};
pub(crate) use outcome::{Of, Ran, hash_text, rate, rates};
pub use shown::{Certainty, MeasuredTime};
pub(crate) use shown::{Shown, ShownOfClass};
pub(crate) use stored::MODEL;
pub use stored::{Size, Stored, Taken};
