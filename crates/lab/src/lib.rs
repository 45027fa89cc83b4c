//! Workloads, experiments, claims and reports.
//!
//! A [`Workload`] is what people write; [`Workload::resolve`] fills it in and checks it. [`simulate()`]
//! and [`explain()`] run it in virtual time.
#![forbid(unsafe_code)]

mod accuracy;
pub mod claims;
mod duration;
pub mod experiments;
mod explain;
mod holdout;
mod limits;
mod outcome;
mod parallel;
mod profiles;
mod programs;
mod report;
mod selector;
mod sensitivity;
mod simulate;
mod systems;
mod topology;
mod workload;

pub use accuracy::Accuracy;
pub use duration::{BadDuration, Duration};
pub use explain::{Control, EXPLAIN_RUNS, explain, explain_runs, simulate, words};
pub use limits::{least_latency, limits};
pub use outcome::{Bottleneck, Cache, GroupLift, Latency, Lift, Outcome, Pcie, SCHEMA, Utilization};
pub use profiles::Profiles;
pub use programs::{ProgramError, ThreadResult, Worker};
pub use report::{
    Basis, BottleneckPair, ClaimReport, Explained, NotChecked, ParameterCounts, REPORT_SCHEMA, Report,
    reproduce,
};
pub use selector::{BadSelector, Selection};
pub use sensitivity::Sensitivity;
pub use simulate::SimulateError;
pub use systems::{SYSTEM_SCHEMA, System, SystemOutcome, SystemWorkload, explain_system, simulate_system};
pub use workload::{MachineGroup, Pattern, Resolved, Verb, Workload, WorkloadError};
