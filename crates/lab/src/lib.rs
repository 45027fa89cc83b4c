//! Runs of workloads and systems in virtual time: what is asked for, what is run, what came of it, and what limits it.
//!
//! [`simulate()`] and [`explain()`] run a workload. What is below uses nothing that is above, from the bottom: `asked`
//! and `limits`, `results`, `simulate`, `plan`, `explain`, and then [`sweep`], [`compare`] and [`uncertainty`].
#![forbid(unsafe_code)]

mod asked;
pub mod compare;
mod explain;
mod extrapolation;
mod limits;
mod median;
mod plan;
mod results;
mod run_error;
mod simulate;
mod support;
pub mod sweep;
pub mod uncertainty;
pub mod vector_io;
mod watch;

pub use asked::{
    Asked, SystemWorkload, both, designed, fields, say, system_fields, system_of, systems_with,
    usual_of_systems,
};
pub use doorbell_programs::steady::{Ended, Warmed};
pub use doorbell_programs::systems::{SYSTEMS, SystemEntry};
pub use doorbell_programs::worker::{ProgramError, Tally, ThreadResult, Worker};
pub use doorbell_schema::{Arrivals, Duration, Given, Schema, Share};
pub use doorbell_sim::{Traced, Tracing};
pub use doorbell_systems::config::Timing;
pub use doorbell_workload::{
    Addresses, AtomicCounters, BufferOffset, Item, LoadLoop, MachineGroup, Mix, Operation, Pattern, Pieces,
    Profiles, Resolved, ResolvedClass, ThreadClass, Verb, Window, Workload, WorkloadError, with_set,
};
pub use explain::{
    Depth, Typed, advise, advise_system, change, explain, explain_system, explained, percent, words,
};
pub use extrapolation::{extrapolates, extrapolates_system};
pub use limits::{ClassLimits, least_latency, limits, limits_of_classes};
pub use median::median;
pub use plan::{Control, Known, NotYet, Run, Size, Stored, Taken, Work, cores, simulate, simulate_system};
pub use results::{
    Advice, Bottleneck, Cache, Certainty, Found, Gain, GroupLift, Latency, Lift, MeasuredTime, OfClass,
    OfKind, OperationTime, Outcome, Pcie, PhaseTime, Ran, Relaxed, SCHEMA, SYSTEM_SCHEMA, SentAgain, Served,
    SystemOutcome, TimePart, TogetherLift, UncoreUse, Utilization, class_name,
};
pub use run_error::SimulateError;
pub use support::{Support, name_of, page, supports, supports_system};
pub use watch::Watch;
