//! Runs of workloads and systems in virtual time: requests, runs, results and bottlenecks.
//!
//! A [`Run`] is data; [`simulate()`] and [`explain()`] execute it. Each module uses only modules before it in
//! this order: `asked`, `breakdown`, `extrapolation`, `support`, `results`, `nearest`, `simulate`, `plan`,
//! `explain`, `load`, and then [`sweep`], [`compare`] and [`uncertainty`].
#![forbid(unsafe_code)]

mod asked;
mod breakdown;
pub mod compare;
mod explain;
mod extrapolation;
mod load;
mod median;
mod nearest;
mod plan;
mod progress;
mod results;
mod run_error;
mod simulate;
mod support;
pub mod sweep;
pub mod uncertainty;
pub mod vector_io;
mod watch;

pub use asked::{
    Asked, SYSTEM_SELECTORS, SystemWorkload, both, designed, fields, say, system_fields, system_of,
    systems_with, usual_of, usual_of_systems,
};
pub use breakdown::{Breakdown, MeanStage, StageSide, TimedStage, TypicalOperation};
pub use doorbell_programs::steady::{Ended, Pace, Warmed};
pub use doorbell_programs::systems::{SYSTEMS, SystemEntry};
pub use doorbell_programs::worker::{ProgramError, Tally, ThreadResult, Worker};
pub use doorbell_schema::{Arrivals, Duration, Given, Schema, Share, Until};
pub use doorbell_sim::{OperationStage, PathsOf, StageKind, Traced, Tracing};
pub use doorbell_systems::config::Timing;
pub use doorbell_workload::limits::{ClassLimits, least_latency, limits, limits_of_classes};
pub use doorbell_workload::{
    Addresses, AtomicCounters, BufferOffset, DmaGain, Item, LoadLoop, MachineGroup, Mix, Operation, Pattern,
    Pieces, Profiles, RemoteAddresses, RemoteMemory, Resolved, ResolvedClass, ThreadClass, Verb, Window,
    Workload, WorkloadError, keys, with_set,
};
pub use explain::{Depth, Typed, advise, change, explain, explained, percent, words};
pub use extrapolation::unsupported;
pub use load::{Capacity, LoadError, Loaded, Loads, at_some_rate};
pub use median::median;
pub use plan::{Control, Known, Making, NotYet, Run, Size, Stored, Taken, cores, simulate};
pub use progress::Forecast;
pub use results::{
    Advice, Bottleneck, Cache, Certainty, Found, Gain, GroupLift, Latency, Lift, Longer, MeasuredTime,
    OfClass, OfKind, OfSystem, OfVerbs, OperationTime, Outcome, OutcomeOf, Pcie, PhaseTime, Quantile,
    Relaxed, SCHEMA, SYSTEM_SCHEMA, SentAgain, Served, SystemJson, TimePart, TogetherLift, UncoreUse,
    Utilization, VerbsJson, class_name,
};
pub use run_error::SimulateError;
pub use support::{Support, name_of, page};
pub use watch::Watch;
