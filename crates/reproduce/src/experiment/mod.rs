//! The definition of an experiment: a function of results that asks for the runs it needs.

mod compared;
mod context;
mod findings;
mod register;
mod setting;
mod systems;
mod verbs;

pub(crate) use compared::{percent_more, worst};
pub use context::{Ctx, Experiment, Runs};
pub(crate) use findings::curve;
pub use findings::{Check, Curve, Findings, Found};
pub use register::Register;
pub(crate) use setting::setting;
pub(crate) use verbs::briefly;
