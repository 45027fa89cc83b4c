//! The papers' claims and other measurements, read from the files of `papers/`.

pub(crate) mod bottlenecks;
pub mod claims;
pub(crate) mod holdout;
pub(crate) mod measurements;
