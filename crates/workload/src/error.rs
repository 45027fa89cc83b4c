//! What may be wrong with a workload.

use crate::file::FileError;
use doorbell_nic::{ProfileError, counted};
use doorbell_schema::SchemaError;
use thiserror::Error;

/// What is wrong with a workload: one sentence.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WorkloadError {
    /// What was said of it.
    #[error("{0}")]
    Schema(#[from] SchemaError),
    /// The file that says it.
    #[error("{0}")]
    File(#[from] FileError),
    /// The profile.
    #[error("{0}")]
    Profile(#[from] ProfileError),
    /// A value is out of its range, or two do not go together.
    #[error("{0}")]
    Invalid(String),
}

pub(crate) fn invalid<T>(message: String) -> Result<T, WorkloadError> {
    Err(WorkloadError::Invalid(message))
}

/// Refuses more than `most`.
pub(crate) fn at_most(name: &str, value: u32, most: u32, why: &str) -> Result<(), WorkloadError> {
    if value > most { invalid(format!("{name} is {value}, but {why} {most}")) } else { Ok(()) }
}

/// Refuses more things than `whose` has.
pub(crate) fn at_most_of(
    name: &str,
    value: u32,
    most: u32,
    (whose, thing): (&str, &str),
) -> Result<(), WorkloadError> {
    let has = counted(most.into(), thing);
    if value > most { invalid(format!("{name} is {value}, but {whose} has {has}")) } else { Ok(()) }
}
