//! Workloads, experiments, claims and reports.
//!
//! [`simulate()`] and [`explain()`] run a workload in virtual time.
#![forbid(unsafe_code)]

mod asked;
mod audit;
pub mod compare;
mod explain;
mod extrapolation;
mod judge;
mod limits;
pub mod papers;
mod plan;
mod programs;
mod results;
mod simulate;
mod steady;
mod support;
pub mod sweep;
mod systems;
pub mod uncertainty;
pub mod vector_io;

pub use asked::{
    Asked, both, designed, fields, say, system_fields, system_of, systems_with, usual_of_systems,
};
pub use doorbell_schema::{Arrivals, Duration, Given, Schema, Share};
pub use doorbell_sim::{Traced, Tracing};
pub use doorbell_systems::config::Timing;
pub use doorbell_workload::{
    Addresses, AtomicCounters, BufferOffset, Item, LoadLoop, MachineGroup, Mix, Operation, Pattern, Pieces,
    Profiles, Resolved, ResolvedClass, ThreadClass, Verb, Window, Workload, WorkloadError, with_set,
};
pub use explain::{
    Typed, advise, advise_system, change, explain, explain_system, percent, simulate, simulate_system, words,
};
pub use extrapolation::{extrapolates, extrapolates_system};
pub use judge::checked::{CheckedClaims, Headline};
pub use judge::intervals::{Coverage, Intervals, intervals};
pub use judge::measurements::{MeasuredReport, MeasurementReport, Role};
pub use judge::report::{
    Basis, BottleneckPair, ClaimReport, Explained, MissingExperiment, NotChecked, ParameterCounts,
    REPORT_SCHEMA, Report, judge, reproduce,
};
pub use judge::selector::{BadSelector, Selection};
pub use judge::sensitivity::Sensitivity;
pub use judge::{accuracy::Accuracy, accuracy::median, calibration, claims};
pub use limits::{ClassLimits, least_latency, limits, limits_of_classes};
pub use plan::{Control, NotYet, Watch, cores};
pub use programs::{ProgramError, Tally, ThreadResult, Worker};
pub use results::{
    Advice, Bottleneck, Cache, Certainty, Found, Gain, GroupLift, Latency, Lift, MeasuredTime, OfClass,
    OfKind, OperationTime, Outcome, Pcie, PhaseTime, Relaxed, SCHEMA, SentAgain, Size, Stored, Taken,
    TimePart, TogetherLift, UncoreUse, Utilization,
};
pub use simulate::SimulateError;
pub use steady::{Ended, Warmed};
pub use support::{Support, name_of, page, supports, supports_system};
pub use systems::{Entry, SYSTEM_SCHEMA, SYSTEMS, Served, SystemOutcome, SystemWorkload};
