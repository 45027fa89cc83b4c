//! Executes one run in virtual time and audits its counts.

mod audit;
mod steered;
pub(crate) mod system;
pub(crate) mod verbs;
