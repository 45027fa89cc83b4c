//! Memory of a client for the requests that are under way.

use super::config::Config;
use super::slots::Slots;
use crate::SystemError;
use crate::device::Device;
use doorbell_verbs::{AccessFlags, Mem, Mr, Provider, Sge};

/// Where a client keeps the requests that are under way: an image of each slot of its windows, and at
/// the end of all a word.
pub(super) struct Images<P: Provider> {
    mr: Mr<P>,
    slots: Slots,
}

impl<P: Provider> Images<P> {
    pub(super) fn new(device: &Device<P>, config: &Config) -> Result<Images<P>, SystemError> {
        let slots = config.request_slots();
        let mr = device.registered(slots.bytes(config.workers) + 8, AccessFlags::LOCAL_WRITE)?;
        Ok(Images { mr, slots })
    }

    pub(super) fn mem(&self) -> Mem {
        self.mr.mem()
    }

    /// Where they lie, by worker.
    pub(super) fn slots(&self) -> Slots {
        self.slots
    }

    pub(super) fn sge(&self, from: u64, length: u32) -> Sge {
        self.mr.sge(from, length)
    }

    /// Offset of the word behind all slots.
    pub(super) fn word(&self) -> u64 {
        self.mr.mem().len() - 8
    }
}
