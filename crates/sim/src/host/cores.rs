//! The cores of a host.

use crate::core::index::ThreadId;
use crate::core::ps::Ps;
use crate::core::queue::Packed;
use std::collections::VecDeque;

/// Cores of a machine at most: as many as a set of them can tell apart.
pub(crate) const MAX_CORES: u32 = 256;

/// A write by MMIO that has not left its core.
pub(crate) struct Mmio {
    /// When it does.
    pub(crate) leaves: Ps,
    /// How much longer it is on its way, as the device is at another socket.
    pub(crate) hop: Ps,
    /// A doorbell, rather than a line of a WQE.
    pub(crate) doorbell: bool,
    /// The last of what was written together.
    pub(crate) last: bool,
    /// What happens when the last has reached the NIC.
    pub(crate) then: Packed,
}

/// A core, as far as it outlives what its thread does.
pub(crate) struct Core {
    /// The thread that it runs.
    pub(crate) thread: Option<ThreadId>,
    /// When what it wrote by MMIO has left its write-combining buffers.
    pub(crate) mmio_left: VecDeque<Ps>,
    /// When what it wrote by MMIO last has left it.
    pub(crate) drained: Ps,
    /// What it writes by MMIO before anything is known of the link then.
    pub(crate) mmio: VecDeque<Mmio>,
}

impl Core {
    pub(crate) fn new() -> Core {
        Core { thread: None, mmio_left: VecDeque::new(), mmio: VecDeque::new(), drained: Ps::ZERO }
    }

    /// Whether one of `buffers` write-combining buffers is known to be free at `now`.
    pub(crate) fn has_free_buffer(&mut self, now: Ps, buffers: usize) -> bool {
        while self.mmio_left.front().is_some_and(|left| *left <= now) {
            self.mmio_left.pop_front();
        }
        self.mmio_left.len() + self.mmio.len() < buffers
    }
}
