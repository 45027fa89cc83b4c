//! The mapping of a series to runs of Doorbell: one function for each key, and a reason for each refusal.
//!
//! Modules use each other in the order `refusal`, `choices`, `reading`, `axis`, `machine`, `work`, `plan`.

mod axis;
mod choices;
mod machine;
mod plan;
mod reading;
mod refusal;
mod work;

pub use choices::Choice;
pub use machine::Hosts;
pub use plan::{PlannedPoint, PlannedSeries, plan};
pub use reading::Reading;
pub use refusal::Refusal;
