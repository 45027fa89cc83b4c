//! The papers' claims, the experiments that check them, and the report.
//!
//! The modules, from the bottom up:
//!
//! - `data`: the claims and other measurements, read from the files of `papers/`.
//! - `experiment`: the definition of an experiment, the runs that it asks for and its findings.
//! - [`papers`]: an experiment for each table or figure.
//! - `judge`: compares findings with the claims. Its callers pass it the register of experiments.
//! - [`calibration`]: the data that profiles are set from.
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
pub use judge::report::{
    EachExperiment, MissingExperiment, ParameterCounts, REPORT_SCHEMA, Report, judge, reproduce,
};
pub use judge::selector::{BadSelector, Selection};
pub use judge::sensitivity::Sensitivity;
