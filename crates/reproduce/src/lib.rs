//! The papers' claims, the experiments that check them, and what a report says.
//!
//! From the bottom: `data`, the claims and other measurements as the files of `papers/` have them; `experiment`, what an
//! experiment is, asks for and finds; [`papers`], an experiment for each table or figure, and `judge`, which compares what
//! they find with the claims and is given their register; [`calibration`], the data that profiles are set from.
#![forbid(unsafe_code)]

pub mod calibration;
mod data;
mod experiment;
mod judge;
pub mod papers;

pub use data::bottlenecks::{BottleneckPair, ObservedLimit, PaperClass, PaperLimit};
pub use data::claims;
pub use data::measurements::{MeasurementReport, Role};
pub use experiment::{Check, Ctx, Curve, Experiment, Findings, Found, Register, Runs};
pub use judge::accuracy::Accuracy;
pub use judge::checked::{CheckedClaims, Headline};
pub use judge::claim_report::{Basis, ClaimReport, Explained, NotChecked};
pub use judge::intervals::{Coverage, Intervals, intervals};
pub use judge::measured::MeasuredReport;
pub use judge::report::{MissingExperiment, ParameterCounts, REPORT_SCHEMA, Report, judge, reproduce};
pub use judge::selector::{BadSelector, Selection};
pub use judge::sensitivity::Sensitivity;
