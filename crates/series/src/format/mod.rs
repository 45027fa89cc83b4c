//! The format of files: types of all keys, reading and writing.

mod described;
mod file;
mod keys;
mod measurement;
mod names;
mod workload;

pub use described::{KeyDescription, described_keys};
pub use file::SeriesFile;
pub(crate) use keys::keys_of;
pub use measurement::{MeasuredSystem, Measurement, PcieSlot, RoleReason, SeriesPoint, Setup};
pub use names::{
    Endpoint, FabricKind, Locality, MeasuredAddresses, MeasuredSide, MeasuredTransport, MeasuredUnit,
    MeasuredVerb, Metric, PostingPattern, Registers, RemoteMemory, SeriesRole,
};
pub use workload::MeasuredWorkload;
