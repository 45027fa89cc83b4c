//! Measurements of NICs: their files, the runs that simulate them, and the comparison with a profile.
//!
//! - A [`SeriesFile`] holds series. A series ([`Measurement`]) states the NIC, the hosts, the tool, the source
//!   and the workload ([`MeasuredWorkload`]), and has a measured value for each element of its axis.
//! - [`plan`] maps each point of a series to a run of Doorbell on a profile, or refuses it ([`Refusal`]).
//! - [`check`] simulates the series of a profile's NIC and returns a [`Checked`].
//! - [`import`] makes series from the output of other programs.
//!
//! `docs/check.md` describes each key. Modules use each other in the order `format`, `mapping`, `check`;
//! `import` uses `format` alone.
#![forbid(unsafe_code)]

mod check;
mod format;
pub mod import;
mod mapping;

pub use check::{
    CHECK_SCHEMA, CheckError, CheckOptions, Checked, CheckedPoint, CheckedSeries, OtherSeries, Summary, check,
};
pub use format::{
    Endpoint, FabricKind, KeyDescription, Locality, MeasuredAddresses, MeasuredSide, MeasuredSystem,
    MeasuredTransport, MeasuredUnit, MeasuredVerb, MeasuredWorkload, Measurement, Metric, PcieSlot,
    PostingPattern, Registers, RemoteMemory, RoleReason, SeriesFile, SeriesPoint, SeriesRole, Setup,
    described_keys,
};
pub use mapping::{Choice, Hosts, PlannedPoint, PlannedSeries, Reading, Refusal, plan};
