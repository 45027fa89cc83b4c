//! The cost of MMIOs and DMAs on the PCIe link.

use crate::{Generation, Pcie, PcieSpeed, Profile, wqe};
use doorbell_verbs::Span;

/// `bytes.div_ceil(most)`, without a division in the common case that one piece holds all bytes.
#[inline]
fn pieces(bytes: u64, most: u64) -> u64 {
    if bytes <= most { u64::from(bytes > 0) } else { bytes.div_ceil(most) }
}

/// The time of TLPs with their payload, which grows linearly with the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    base: u64,
    /// Femtoseconds for each byte.
    slope: u64,
    /// Largest payload of a TLP in bytes.
    most: u64,
}

impl Linear {
    /// A `Linear` from the time in picoseconds of one TLP that carries 0 to `most` bytes.
    fn of(most: u32, time: impl Fn(u32) -> u64) -> Linear {
        let base = time(0);
        Linear { base, slope: (time(most) - base) * 1000 / u64::from(most), most: u64::from(most) }
    }

    /// Picoseconds of the TLPs that `bytes` need.
    #[inline]
    pub fn time(&self, bytes: u64) -> u64 {
        pieces(bytes, self.most) * self.base + bytes * self.slope / 1000
    }

    /// Picoseconds of the TLPs that `bytes` need if the first byte lies `offset` bytes after a TLP boundary.
    /// All TLPs but the last end at multiples of the largest payload.
    #[inline]
    fn time_from(&self, offset: u64, bytes: u64) -> u64 {
        match bytes {
            0 => 0,
            _ => pieces(offset % self.most + bytes, self.most) * self.base + bytes * self.slope / 1000,
        }
    }

    /// The least picoseconds that `bytes` take, wherever TLPs are cut.
    fn least(&self, bytes: u64) -> u64 {
        bytes * self.base / self.most.max(1) + bytes * self.slope / 1000
    }
}

/// Time on the PCIe link, in picoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcieCost {
    /// A line of a WQE by MMIO, towards the NIC.
    pub mmio_line: u64,
    /// A Doorbell, towards the NIC.
    pub doorbell: u64,
    /// From when a read request has left the NIC until it is at memory.
    pub read_latency: u64,
    /// From when a DMA write has left the NIC until it is visible.
    pub write_latency: u64,
    /// From when an MMIO has left the core until it is at the NIC.
    pub mmio_latency: u64,
    read_request: u64,
    max_read_request: u64,
    completion: Linear,
    write: Linear,
}

impl PcieCost {
    pub(super) fn new(pcie: &Pcie, speed: &PcieSpeed, generation: Generation) -> PcieCost {
        let tlps = Tlps { pcie, speed };
        PcieCost {
            mmio_line: tlps.mmio(wqe::LINE).as_ps(),
            doorbell: tlps.mmio(generation.posting().doorbell).as_ps(),
            read_latency: pcie.read_latency.as_ps(),
            write_latency: pcie.write_latency.as_ps(),
            mmio_latency: pcie.mmio_latency.as_ps(),
            read_request: tlps.read_request().as_ps(),
            max_read_request: u64::from(pcie.max_read_request),
            completion: Linear::of(pcie.read_completion, |bytes| tlps.completion(bytes).as_ps()),
            write: Linear::of(pcie.max_payload, |bytes| tlps.dma_write(bytes).as_ps()),
        }
    }

    /// The requests of a DMA read of `bytes`, at least one, towards the host.
    #[inline]
    pub fn read_requests(&self, bytes: u64) -> u64 {
        pieces(bytes, self.max_read_request).max(1) * self.read_request
    }

    /// The completions of a DMA read of `bytes`, towards the NIC.
    #[inline]
    pub fn completions(&self, bytes: u64) -> u64 {
        self.completion.time(bytes)
    }

    /// The completions of a DMA read of `bytes` that begins at `addr`, towards the NIC. Completions end at
    /// multiples of their largest payload. A read that crosses one more multiple has one more completion (PCI
    /// Express Base Specification 3.0, 2.3.1.1).
    #[inline]
    pub fn completions_from(&self, addr: u64, bytes: u64) -> u64 {
        self.completion.time_from(addr, bytes)
    }

    /// The least time of `bytes` in the completions of a DMA read that also brings other bytes.
    pub(crate) fn least_completions(&self, bytes: u64) -> u64 {
        self.completion.least(bytes)
    }

    /// A DMA write of `bytes`, towards the host.
    #[inline]
    pub fn write(&self, bytes: u64) -> u64 {
        self.write.time(bytes)
    }
}

/// Times of single TLPs.
struct Tlps<'a> {
    pcie: &'a Pcie,
    speed: &'a PcieSpeed,
}

impl Tlps<'_> {
    fn mmio(&self, bytes: u32) -> Span {
        let p = self.pcie;
        // A Doorbell is a plain store: only write-combined lines pay the further overhead.
        let overhead = if bytes >= wqe::LINE { p.mmio_overhead } else { 0 };
        self.time(bytes + p.request_header + overhead, self.speed.mmio)
    }

    fn completion(&self, bytes: u32) -> Span {
        self.time(bytes + self.pcie.completion_header, self.speed.completion)
    }

    fn read_request(&self) -> Span {
        self.time(self.pcie.request_header, self.speed.device_to_host)
    }

    fn dma_write(&self, bytes: u32) -> Span {
        self.time(bytes + self.pcie.request_header, self.speed.device_to_host)
    }

    /// The time of a TLP of `bytes` and its share of link-layer packets, rounded to the nearest ps.
    fn time(&self, bytes: u32, bytes_per_s: u64) -> Span {
        let millibytes = u64::from(bytes) * 1000 + self.pcie.dllp_millibytes;
        let numerator = u128::from(millibytes) * 1_000_000_000;
        let rate = u128::from(bytes_per_s);
        Span::from_ps(((numerator + rate / 2) / rate) as u64)
    }
}

impl Profile {
    fn tlps(&self) -> Tlps<'_> {
        Tlps { pcie: &self.device.pcie, speed: &self.device.pcie_speed }
    }

    /// Time for which one completion carrying `bytes` occupies the host-to-device direction.
    pub fn completion_time(&self, bytes: u32) -> Span {
        self.tlps().completion(bytes)
    }

    /// Time for which one write TLP carrying `bytes` occupies the device-to-host direction.
    pub fn dma_write_time(&self, bytes: u32) -> Span {
        self.tlps().dma_write(bytes)
    }
}
