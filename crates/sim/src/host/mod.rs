//! A host: its memory, and the caches of its cores.

pub(crate) mod memory;
