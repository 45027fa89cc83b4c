//! Errors in workloads.

use crate::file::FileError;
use doorbell_nic::{ProfileError, counted};
use doorbell_schema::SchemaError;
use thiserror::Error;

/// An error in a workload: one sentence.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WorkloadError {
    /// A given value is not valid for its field.
    #[error("{0}")]
    Schema(#[from] SchemaError),
    /// The file of the workload cannot be read or has no workload.
    #[error("{0}")]
    File(#[from] FileError),
    /// A profile cannot be loaded.
    #[error("{0}")]
    Profile(#[from] ProfileError),
    /// A value is out of range, or two values do not fit together.
    #[error("{0}")]
    Invalid(String),
    /// Operations are too long for a result.
    #[error("{0}")]
    TooLong(String),
}

pub(crate) fn invalid<T>(message: String) -> Result<T, WorkloadError> {
    Err(WorkloadError::Invalid(message))
}

/// Refuses a value above `most`.
pub(crate) fn at_most(name: &str, value: u32, most: u32, why: &str) -> Result<(), WorkloadError> {
    if value > most { invalid(format!("{name} is {value}, but {why} {most}")) } else { Ok(()) }
}

/// Refuses a number of things above `most`, the number that `whose` has.
pub(crate) fn at_most_of(
    name: &str,
    value: u32,
    most: u32,
    (whose, thing): (&str, &str),
) -> Result<(), WorkloadError> {
    let has = counted(most.into(), thing);
    if value > most { invalid(format!("{name} is {value}, but {whose} has {has}")) } else { Ok(()) }
}
