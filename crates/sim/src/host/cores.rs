//! The cores of a host.

use crate::core::index::ThreadId;
use std::collections::VecDeque;

/// Cores of a machine at most: as many as a set of them can tell apart.
pub(crate) const MAX_CORES: u32 = 256;

/// A core, as far as it outlives what its thread does.
pub(crate) struct Core {
    /// The thread that it runs.
    pub(crate) thread: Option<ThreadId>,
    /// Its next load of a line that is not in its own cache waits for all before it: an atomic, a store
    /// by MMIO or the end of a pass came last.
    pub(crate) serialized: bool,
    /// When lines it wrote by MMIO leave its write-combining buffers.
    pub(crate) mmio_leaves: VecDeque<u64>,
}

impl Core {
    pub(crate) fn new() -> Core {
        Core { thread: None, serialized: true, mmio_leaves: VecDeque::new() }
    }
}
