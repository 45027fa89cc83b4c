//! Building blocks of an event-driven simulation: a queue ordered by time, metered servers, typed ids,
//! reusable slots, and memory that the next run reuses.

pub(crate) mod fetch;
pub(crate) mod index;
pub(crate) mod payload;
pub(crate) mod ps;
pub(crate) mod queue;
pub(crate) mod server;
pub(crate) mod slab;
pub(crate) mod spare;
