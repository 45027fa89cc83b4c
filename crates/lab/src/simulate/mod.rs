//! One run in virtual time: what machines do, and whether what it counted agrees.

mod audit;
mod steered;
pub(crate) mod system;
pub(crate) mod verbs;
