//! Workloads, experiments, claims and reports.
//!
//! [`simulate()`] and [`explain()`] run a workload in virtual time.
#![forbid(unsafe_code)]

mod accuracy;
mod asked;
pub mod claims;
pub mod experiments;
mod explain;
mod holdout;
mod limits;
mod outcome;
mod parallel;
mod programs;
mod report;
mod selector;
mod sensitivity;
mod simulate;
mod systems;

pub use accuracy::Accuracy;
pub use asked::{Asked, fields, system_fields, systems_with, usual_of_systems};
pub use doorbell_schema::{Duration, Given, Schema};
pub use doorbell_workload::{MachineGroup, Pattern, Profiles, Resolved, Verb, Workload, WorkloadError};
pub use explain::{Control, EXPLAIN_RUNS, explain, explain_runs, simulate, words};
pub use limits::{least_latency, limits};
pub use outcome::{Bottleneck, Cache, GroupLift, Latency, Lift, Outcome, Pcie, SCHEMA, Utilization};
pub use programs::{ProgramError, ThreadResult, Worker};
pub use report::{
    Basis, BottleneckPair, ClaimReport, Explained, NotChecked, ParameterCounts, REPORT_SCHEMA, Report,
    reproduce,
};
pub use selector::{BadSelector, Selection};
pub use sensitivity::Sensitivity;
pub use simulate::SimulateError;
pub use systems::{
    Entry, SYSTEM_SCHEMA, SYSTEMS, SystemOutcome, SystemWorkload, explain_system, simulate_system,
};
