//! The papers' claims beside what was found.

pub(crate) mod accuracy;
pub mod calibration;
pub(crate) mod checked;
pub mod claims;
mod holdout;
pub(crate) mod intervals;
pub(crate) mod measurements;
pub(crate) mod report;
pub(crate) mod selector;
pub(crate) mod sensitivity;
