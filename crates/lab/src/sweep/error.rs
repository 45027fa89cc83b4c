//! Errors of sweeps.

use crate::load::LoadError;
use crate::run_error::SimulateError;
use doorbell_verbs::RunError;
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
}

impl From<LoadError> for SweepError {
    fn from(error: LoadError) -> SweepError {
        match error {
            LoadError::Refused(why) => SweepError::Refused(why),
            LoadError::Run { at, cause } => SweepError::Point { at, cause },
            LoadError::Interrupted(at) => {
                SweepError::Point { at, cause: SimulateError::Run(RunError::Interrupted) }
            }
        }
    }
}

impl SweepError {
    /// Whether the request itself causes the error.
    pub fn is_bad_input(&self) -> bool {
        match self {
            SweepError::Refused(_) => true,
            SweepError::Point { cause, .. } => cause.is_bad_input(),
        }
    }
}
