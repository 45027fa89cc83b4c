//! The PCIe link between a host and its NIC.

use crate::core::server::{Server, Window};
use crate::host::lines_touched;
use doorbell_nic::{Profile, wqe};

/// Times of TLPs in picoseconds, from the profile's accounting.
struct TlpTimes {
    mmio_line: u64,
    doorbell: u64,
    read_request: u64,
    completion: Linear,
    write: Linear,
}

/// `bytes.div_ceil(most)`, without a division where one piece holds them, as it mostly does.
#[inline]
fn pieces(bytes: u64, most: u64) -> u64 {
    if bytes <= most { u64::from(bytes > 0) } else { bytes.div_ceil(most) }
}

/// A time that grows with bytes: of a TLP with its payload.
struct Linear {
    base: u64,
    /// Femtoseconds for each byte.
    slope: u64,
    /// Most payload bytes of a TLP.
    most: u64,
}

impl Linear {
    fn of(most: u32, time: impl Fn(u32) -> u64) -> Linear {
        let base = time(0);
        Linear { base, slope: (time(most) - base) * 1000 / u64::from(most), most: u64::from(most) }
    }

    /// Of as many TLPs as `bytes` need.
    #[inline]
    fn time(&self, bytes: u64) -> u64 {
        pieces(bytes, self.most) * self.base + bytes * self.slope / 1000
    }
}

/// What crossed the link in the metering window.
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
    pub(crate) mmio_busy: u64,
    /// And with read completions.
    pub(crate) completion_busy: u64,
}

/// The link: two directions, each serving one TLP after another.
pub(crate) struct PcieLink {
    times: TlpTimes,
    to_device: Server,
    pub(crate) to_host: Server,
    pub(crate) read_latency: u64,
    write_latency: u64,
    mmio_latency: u64,
    max_read_request: u64,
    /// When the last DMA write under way will be visible: reads do not pass it.
    last_visible: u64,
    pub(crate) traffic: Traffic,
}

impl PcieLink {
    pub(crate) fn new(profile: &Profile) -> PcieLink {
        let p = &profile.pcie;
        PcieLink {
            times: TlpTimes {
                mmio_line: profile.mmio_time(wqe::LINE).as_ps(),
                doorbell: profile.mmio_time(doorbell_nic::accounting::DOORBELL_BYTES).as_ps(),
                read_request: profile.read_request_time().as_ps(),
                completion: Linear::of(p.read_completion, |b| profile.completion_time(b).as_ps()),
                write: Linear::of(p.max_payload, |b| profile.dma_write_time(b).as_ps()),
            },
            to_device: Server::default(),
            to_host: Server::default(),
            read_latency: p.read_latency.as_ps(),
            write_latency: p.write_latency.as_ps(),
            mmio_latency: p.mmio_latency.as_ps(),
            max_read_request: u64::from(p.max_read_request),
            last_visible: 0,
            traffic: Traffic::default(),
        }
    }

    fn mmio(&mut self, now: u64, time: u64, bytes: u64, window: Window) -> u64 {
        let end = self.to_device.serve(now, time, window);
        self.traffic.mmio_busy += window.overlap(end - time, end);
        if window.contains(now) {
            self.traffic.mmio_bytes += bytes;
        }
        end
    }

    /// A CPU writes one line of a WQE; returns when it has left the host.
    pub(crate) fn mmio_line(&mut self, now: u64, window: Window) -> u64 {
        self.mmio(now, self.times.mmio_line, u64::from(wqe::LINE), window)
    }

    /// A CPU writes a doorbell; returns when it has left the host.
    pub(crate) fn doorbell(&mut self, now: u64, window: Window) -> u64 {
        self.mmio(now, self.times.doorbell, u64::from(doorbell_nic::accounting::DOORBELL_BYTES), window)
    }

    /// When an MMIO that left the host at `left` is at the NIC.
    pub(crate) fn mmio_arrives(&self, left: u64) -> u64 {
        left + self.mmio_latency
    }

    /// The NIC asks for `bytes`; returns when the request has reached memory.
    pub(crate) fn request_read(&mut self, now: u64, bytes: u64, window: Window) -> u64 {
        let requests = pieces(bytes, self.max_read_request).max(1);
        let sent = self.to_host.serve(now, requests * self.times.read_request, window);
        (sent + self.read_latency).max(self.last_visible)
    }

    /// Memory answers a read of `bytes` at `offset`; returns when the last completion is at the NIC.
    pub(crate) fn complete_read(&mut self, now: u64, offset: u64, bytes: u64, window: Window) -> u64 {
        let time = self.times.completion.time(bytes);
        let end = self.to_device.serve(now, time, window);
        self.traffic.completion_busy += window.overlap(end - time, end);
        if window.contains(now) {
            self.traffic.dma_read_bytes += bytes;
            self.traffic.lines_read += lines_touched(offset, bytes);
        }
        end
    }

    /// The NIC writes `bytes` to `offset`; returns when the first and the last byte become visible.
    pub(crate) fn write(&mut self, now: u64, offset: u64, bytes: u64, window: Window) -> (u64, u64) {
        let time = self.times.write.time(bytes);
        let end = self.to_host.serve(now, time, window);
        if window.contains(now) {
            self.traffic.dma_write_bytes += bytes;
            self.traffic.lines_written += lines_touched(offset, bytes);
        }
        let lines = lines_touched(offset, bytes).max(1);
        self.last_visible = end + self.write_latency;
        let rest = if lines == 1 { 0 } else { time * (lines - 1) / lines };
        (self.last_visible - rest, self.last_visible)
    }
}
