//! State of a device that a trace shows.

use super::nic::SimDevice;
use super::pcie::PcieLink;
use super::reads::DmaRead;
use crate::core::index::{ReadId, UnitId};
use crate::core::ps::Ps;
use crate::host::Mmio;

/// Names of the counts of a device: lengths of queues, and cache misses in the metering window.
pub(crate) const COUNTS: [&str; 8] = [
    "QPs waiting for a sending unit",
    "flows waiting for a receiving unit",
    "DMA reads outstanding",
    "DMA reads waiting for a tag",
    "WQE cache misses",
    "requester context misses",
    "responder context misses",
    "translation misses",
];

impl SimDevice {
    /// The counts named in [`COUNTS`].
    pub(crate) fn counts(&self) -> [u64; COUNTS.len()] {
        [
            self.sending.waiting.len() as u64,
            self.receiving.waiting.len() as u64,
            self.dma.outstanding.into(),
            self.dma.waiting.len() as u64,
            self.caches.wqes.all_misses(),
            self.caches.requester.misses,
            self.caches.responder.misses,
            self.caches.translations.misses,
        ]
    }

    /// A DMA read in flight.
    pub(crate) fn read(&self, read: ReadId) -> DmaRead {
        self.dma.reads[read]
    }

    /// When a sending unit began its packet.
    pub(crate) fn sends_since(&self, unit: UnitId) -> Ps {
        self.sending.units[unit].since
    }

    /// When a receiving unit began its packet.
    pub(crate) fn receives_since(&self, unit: UnitId) -> Ps {
        self.receiving.units[unit].since
    }

    /// When a receiving unit has issued the DMAs of its last packet and is free for the next.
    pub(crate) fn issues_until(&self, unit: UnitId) -> Ps {
        self.receiving.units[unit].free_at
    }

    /// When the last DMA write becomes visible.
    pub(crate) fn last_visible(&self) -> Ps {
        self.pcie.last_visible
    }

    /// When the completion that becomes visible at `visible` began to cross the PCIe link.
    pub(crate) fn cqe_began(&self, visible: Ps) -> Ps {
        let costs = &self.pcie.costs;
        visible - Ps(costs.write_latency) - Ps(costs.write(self.costs.cqe.into()))
    }

    /// Time that the completions of a DMA read take to cross the PCIe link.
    pub(crate) fn completions(&self, read: &DmaRead) -> Ps {
        Ps(self.pcie.costs.completions_from(read.addr(), read.bytes.into()))
    }

    /// When a doorbell or a line of a WQE begins and ends to cross the PCIe link, if it is the next to cross.
    pub(crate) fn mmio_leaves(&self, mmio: &Mmio) -> (Ps, Ps) {
        let PcieLink { costs, to_device, .. } = &self.pcie;
        let from = mmio.leaves.max(to_device.free_at());
        (from, from + Ps(if mmio.doorbell { costs.doorbell } else { costs.mmio_line }))
    }
}
