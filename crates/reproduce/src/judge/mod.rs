//! Comparison of the papers' claims with the findings.

pub(crate) mod accuracy;
pub(crate) mod checked;
pub(crate) mod claim_report;
pub(crate) mod intervals;
pub(crate) mod measured;
pub(crate) mod report;
pub(crate) mod selector;
pub(crate) mod sensitivity;
