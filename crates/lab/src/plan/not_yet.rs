//! Why a result that depends on runs is not known.

use crate::run_error::SimulateError;

/// Why an experiment has no findings yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotYet {
    /// The experiment needs runs that have not been made.
    Wanted,
    /// One of the experiment's runs failed.
    Failed(SimulateError),
    /// One of the experiment's runs has no comparable result. Holds the reason.
    Nothing(String),
}
