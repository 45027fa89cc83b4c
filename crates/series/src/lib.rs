//! Measurements of NICs as files.
//!
//! A [`SeriesFile`] holds series. A series ([`Measurement`]) states the NIC, the hosts, the tool, the source
//! and the workload ([`MeasuredWorkload`]), and has a measured value for each element of its axis.
//! `docs/check.md` describes each key.
#![forbid(unsafe_code)]

mod file;
mod keys;
mod measurement;
mod names;
mod workload;

pub use file::SeriesFile;
pub use measurement::{Measurement, PcieSlot, SeriesPoint, Setup};
pub use names::{
    Endpoint, FabricKind, Locality, MeasuredAddresses, MeasuredSide, MeasuredTransport, MeasuredUnit,
    MeasuredVerb, Metric, Registers, RemoteMemory, SeriesRole,
};
pub use workload::MeasuredWorkload;
