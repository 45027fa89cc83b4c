//! Errors of sweeps.

use crate::load::LoadError;
use crate::run_error::SimulateError;
use thiserror::Error;

/// Why a sweep has no result.
#[derive(Debug, Error)]
pub enum SweepError {
    /// The request is invalid.
    #[error("{0}")]
    Refused(String),
    /// A point has no result.
    #[error("at {at}: {cause}")]
    Point {
        /// Options of the point.
        at: String,
        /// Error of the point's run.
        cause: SimulateError,
    },
    /// A load has no rate.
    #[error("{0}")]
    Load(#[from] LoadError),
}

impl SweepError {
    /// Whether the request itself causes the error.
    pub fn is_bad_input(&self) -> bool {
        match self {
            SweepError::Refused(_) => true,
            SweepError::Point { cause, .. } => cause.is_bad_input(),
            SweepError::Load(error) => error.is_bad_input(),
        }
    }
}
