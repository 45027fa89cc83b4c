//! Why something that needs runs is not known.

use crate::run_error::SimulateError;

/// Why an experiment has no findings yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotYet {
    /// It needs runs that are not made.
    Wanted,
    /// One of its runs failed.
    Failed(SimulateError),
    /// In one of its runs nothing was done that could be compared: why.
    Nothing(String),
}
