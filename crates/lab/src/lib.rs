//! Workloads, experiments, claims and reports.
//!
//! A [`Workload`] is what people write; [`Workload::resolve`] fills it in and checks it. [`simulate`]
//! and [`explain`] run it in virtual time.
#![forbid(unsafe_code)]

mod duration;
mod explain;
mod outcome;
mod parallel;
mod programs;
mod simulate;
mod stub;
mod topology;
mod workload;

pub use duration::{BadDuration, Duration};
pub use explain::{Control, EXPLAIN_RUNS, explain, simulate, words};
pub use outcome::{Bottleneck, Cache, Latency, Lift, Outcome, Pcie, SCHEMA, Utilization};
pub use programs::{ProgramError, ThreadResult, Worker};
pub use simulate::SimulateError;
pub use workload::{Pattern, Resolved, Verb, Workload, WorkloadError};
