//! The records of `doorbell-soft`, and a stand-in for the shared memory that holds them.

#[path = "../../../soft/src/memory/copies.rs"]
pub(crate) mod copies;
pub(crate) mod copy;
#[path = "../../../soft/src/memory/records.rs"]
pub(crate) mod records;
pub(crate) mod segment;
pub(crate) mod transfer;
