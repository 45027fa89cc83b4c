//! The cores of a host.

use crate::core::index::ThreadId;
use crate::core::ps::Ps;
use crate::core::queue::Packed;
use std::collections::VecDeque;

/// Maximum number of cores of a machine: as many as a [`super::CoreSet`] can tell apart.
pub(crate) const MAX_CORES: u32 = 256;

/// An MMIO write that has not left its core.
pub(crate) struct Mmio {
    /// When the write leaves its core.
    pub(crate) leaves: Ps,
    /// Extra time on the way if the device is at another CPU socket.
    pub(crate) hop: Ps,
    /// Whether the write is a doorbell, rather than a line of a WQE.
    pub(crate) doorbell: bool,
    /// Whether this is the last of several lines written together.
    pub(crate) last: bool,
    /// The event that is due when the last line has reached the NIC.
    pub(crate) then: Packed,
}

/// State of a core that outlives its thread's single actions.
pub(crate) struct Core {
    /// The thread that the core runs.
    pub(crate) thread: Option<ThreadId>,
    /// When each MMIO write has left the core's write-combining buffers.
    pub(crate) mmio_left: VecDeque<Ps>,
    /// When the core's last MMIO write has left the core.
    pub(crate) drained: Ps,
    /// MMIO writes whose turn on the PCIe link has not been simulated yet.
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
