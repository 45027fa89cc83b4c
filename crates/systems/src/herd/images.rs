//! A client's memory for its requests in flight.

use super::config::Config;
use super::slots::Slots;
use crate::SystemError;
use crate::device::Device;
use doorbell_verbs::{AccessFlags, Mem, Mr, Provider, Sge};

/// A client's memory for its requests in flight: an image of each slot of its windows, and one word after all
/// images.
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

    /// The layout of the images. The owner of a slot is a worker.
    pub(super) fn slots(&self) -> Slots {
        self.slots
    }

    pub(super) fn sge(&self, from: u64, length: u32) -> Sge {
        self.mr.sge(from, length)
    }

    /// Offset of the word after all images.
    pub(super) fn word(&self) -> u64 {
        self.mr.mem().len() - 8
    }
}
