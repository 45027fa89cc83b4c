//! What every simulation by events needs: a queue in the order of time, servers that are metered,
//! numbers that name things, slots that are used again, and what the next run uses again.

pub(crate) mod fetch;
pub(crate) mod index;
pub(crate) mod payload;
pub(crate) mod ps;
pub(crate) mod queue;
pub(crate) mod server;
pub(crate) mod slab;
pub(crate) mod spare;
