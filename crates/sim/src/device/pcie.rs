//! The PCIe link between a host and its NIC.

use crate::core::ps::Ps;
use crate::core::server::{MeterWindow, MeteredServer};
use crate::host::lines_touched;
use doorbell_nic::cost::PcieCost;
use doorbell_nic::wqe;

/// Traffic on the link in the metering window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) mmio_bytes: u64,
    pub(crate) dma_read_bytes: u64,
    pub(crate) dma_write_bytes: u64,
    /// Cache lines that DMA reads touched.
    pub(crate) lines_read: u64,
    /// Cache lines that DMA writes touched.
    pub(crate) lines_written: u64,
    /// Busy time of the host-to-device direction with MMIO.
    pub(crate) mmio_busy: Ps,
    /// Busy time of the host-to-device direction with read completions.
    pub(crate) completion_busy: Ps,
}

/// The link: two directions, each serving one TLP at a time.
pub(crate) struct PcieLink {
    pub(super) costs: PcieCost,
    pub(super) to_device: MeteredServer,
    pub(crate) to_host: MeteredServer,
    /// Link time of the DMA writes that can be queued. Their bytes fill the receive buffer of a port.
    most_ahead: Ps,
    /// When the last issued DMA write will be visible. Reads do not pass it.
    pub(super) last_visible: Ps,
    pub(crate) traffic: Traffic,
}

impl PcieLink {
    /// A link on which DMA writes of up to `waiting` bytes may be queued.
    pub(super) fn new(costs: PcieCost, waiting: u32) -> PcieLink {
        PcieLink {
            most_ahead: Ps(costs.write(waiting.into())),
            costs,
            to_device: MeteredServer::default(),
            to_host: MeteredServer::default(),
            last_visible: Ps::ZERO,
            traffic: Traffic::default(),
        }
    }

    fn mmio(&mut self, now: Ps, time: Ps, bytes: u64, window: MeterWindow) -> Ps {
        let end = self.to_device.serve(now, time, window);
        self.traffic.mmio_busy += window.overlap(end - time, end);
        if window.contains(now) {
            self.traffic.mmio_bytes += bytes;
        }
        end
    }

    /// Sends one line of a WQE that a CPU writes. Returns when the line has left the host.
    pub(crate) fn mmio_line(&mut self, now: Ps, window: MeterWindow) -> Ps {
        self.mmio(now, Ps(self.costs.mmio_line), u64::from(wqe::LINE), window)
    }

    /// Sends a doorbell that a CPU writes. Returns when it has left the host.
    pub(crate) fn doorbell(&mut self, now: Ps, window: MeterWindow) -> Ps {
        self.mmio(now, Ps(self.costs.doorbell), u64::from(doorbell_nic::accounting::DOORBELL_BYTES), window)
    }

    /// When an MMIO write that left the host at `left` reaches the NIC.
    pub(crate) fn mmio_arrives(&self, left: Ps) -> Ps {
        left + Ps(self.costs.mmio_latency)
    }

    /// Requests `bytes` from memory. Returns when the request has reached memory.
    pub(crate) fn request_read(&mut self, now: Ps, bytes: u64, window: MeterWindow) -> Ps {
        let sent = self.to_host.serve(now, Ps(self.costs.read_requests(bytes)), window);
        (sent + Ps(self.costs.read_latency)).max(self.last_visible)
    }

    /// Answers a read of `bytes` at `addr`. Returns when the last completion is at the NIC.
    pub(crate) fn complete_read(&mut self, now: Ps, addr: u64, bytes: u64, window: MeterWindow) -> Ps {
        let time = Ps(self.costs.completions_from(addr, bytes));
        let end = self.to_device.serve(now, time, window);
        self.traffic.completion_busy += window.overlap(end - time, end);
        if window.contains(now) {
            self.traffic.dma_read_bytes += bytes;
            self.traffic.lines_read += lines_touched(addr, bytes);
        }
        end
    }

    /// A unit issues DMA writes at `now`. Returns how long it then stalls: until the queued writes fit into
    /// the NIC's buffer. The host gives PCIe credits for each write, and queued writes occupy the buffer of
    /// inbound packets.
    #[inline]
    pub(super) fn writes_hold_up(&self, now: Ps) -> Ps {
        self.to_host.free_at().saturating_sub(now + self.most_ahead)
    }

    /// Returns when an update becomes visible that occupies no link time. It does not overtake writes in
    /// flight.
    pub(super) fn beside_writes(&self, now: Ps) -> Ps {
        self.last_visible.max(now + Ps(self.costs.write_latency))
    }

    /// Shortest time from the issue of a DMA write until it is visible.
    #[inline]
    pub(crate) fn least_write(&self) -> Ps {
        Ps(self.costs.write_latency)
    }

    /// Writes `bytes` bytes at `offset`. `hop` is extra latency on the way to this memory. Returns when the
    /// first and the last byte become visible.
    pub(crate) fn write(
        &mut self,
        now: Ps,
        (offset, bytes): (u64, u64),
        hop: Ps,
        window: MeterWindow,
    ) -> (Ps, Ps) {
        let time = Ps(self.costs.write(bytes));
        let end = self.to_host.serve(now, time, window);
        let lines = lines_touched(offset, bytes);
        if window.contains(now) {
            self.traffic.dma_write_bytes += bytes;
            self.traffic.lines_written += lines;
        }
        // No write overtakes another.
        let before = self.last_visible;
        self.last_visible = before.max(end + Ps(self.costs.write_latency) + hop);
        let rest = if lines <= 1 { Ps::ZERO } else { time * (lines - 1) / lines };
        (before.max(self.last_visible - rest), self.last_visible)
    }
}
