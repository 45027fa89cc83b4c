//! The papers' claims and other measurements, as the files of `papers/` have them.

pub(crate) mod bottlenecks;
pub mod claims;
pub(crate) mod holdout;
pub(crate) mod measurements;
