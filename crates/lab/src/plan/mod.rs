//! What experiments need run, and the running of it.

pub(crate) mod parallel;
pub(crate) mod runs;
pub(crate) mod systems;
