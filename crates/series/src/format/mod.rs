//! The format of files: types of all keys, reading and writing.

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
