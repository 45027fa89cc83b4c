//! What experiments need run, and the running of it.
//!
//! An experiment is a function of results. What it asks for and is not known becomes part of one list, over
//! all experiments; the list goes to the cores, and the experiments are asked again, until they have all they
//! need. So every distinct run is made once, and nothing is listed twice.

mod asked;
mod execute;
mod memory;
mod run;
pub(crate) mod runs;
pub(crate) mod systems;

pub(crate) use asked::results;
pub(crate) use execute::execute;
pub use execute::{Control, Watch, cores};
pub(crate) use run::{Key, Run, Work};

use crate::simulate::SimulateError;

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
