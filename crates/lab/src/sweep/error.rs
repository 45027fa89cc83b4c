//! Why a sweep has no result.

use crate::run_error::SimulateError;
use thiserror::Error;

/// Why a sweep has no result.
#[derive(Debug, Error)]
pub enum SweepError {
    /// What was asked for is to blame.
    #[error("{0}")]
    Refused(String),
    /// A point has no result.
    #[error("at {at}: {cause}")]
    Point {
        /// Which.
        at: String,
        /// Why.
        cause: SimulateError,
    },
}

impl SweepError {
    /// Whether what was asked for is to blame.
    pub fn is_bad_input(&self) -> bool {
        match self {
            SweepError::Refused(_) => true,
            SweepError::Point { cause, .. } => cause.is_bad_input(),
        }
    }
}
