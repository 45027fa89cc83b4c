//! Results of runs.

mod bottleneck;
mod busy;
mod class_in_json;
mod class_name;
mod found;
mod json;
mod kinds;
mod known;
mod lift;
mod longer;
mod outcome;
mod quantiles;
mod rate;
mod raw;
mod reached;
mod shown;
mod uses;

pub use bottleneck::Bottleneck;
pub(crate) use busy::{BUSY, top};
pub use class_name::class_name;
pub use found::Found;
pub use json::{SCHEMA, SYSTEM_SCHEMA, SystemJson, VerbsJson};
pub use kinds::{OfClass, OfKind};
pub use lift::{Advice, Gain, GroupLift, Lift, OperationTime, Relaxed, TimePart, TogetherLift};
pub use longer::Longer;
pub use outcome::{OfSystem, OfVerbs, Outcome, OutcomeOf, Served};
pub(crate) use outcome::{rates, used_by_operations};
pub use quantiles::Quantile;
pub(crate) use raw::{RawClass, RawRun};
pub(crate) use reached::is_reached;
pub use shown::{Certainty, MeasuredTime};
pub(crate) use shown::{Shown, ShownOfClass};
pub(crate) use uses::hash_text;
pub use uses::{Cache, Latency, Pcie, PhaseTime, SentAgain, UncoreUse, Utilization};
