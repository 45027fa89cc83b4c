//! The records of `doorbell-soft`, and a stand-in for the memory that they lie in.

#[path = "../../../soft/src/memory/records.rs"]
pub(crate) mod records;
pub(crate) mod segment;
pub(crate) mod transfer;
