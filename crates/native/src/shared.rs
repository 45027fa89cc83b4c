//! State that the threads of a cluster share.

use crate::device::NativeDevice;
use crate::exchange::Exchange;
use crate::memory::ClusterMemory;
use std::sync::Arc;
use std::time::Instant;

pub(crate) struct Shared {
    pub(crate) device: NativeDevice,
    pub(crate) memory: Arc<ClusterMemory>,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) start: Instant,
}
