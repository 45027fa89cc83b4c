//! The cost of MMIOs and DMAs on the PCIe link.

use crate::{Generation, Pcie, PcieSpeed, Profile, wqe};
use doorbell_verbs::Span;

/// Computes `bytes.div_ceil(most)`. In the common case one piece holds all bytes, and no division is needed.
#[inline]
fn pieces(bytes: u64, most: u64) -> u64 {
    if bytes <= most { u64::from(bytes > 0) } else { bytes.div_ceil(most) }
}

/// The link time of TLPs with payload: a constant time for each TLP, and a time for each byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    base: u64,
    /// Femtoseconds for each byte.
    slope: u64,
    /// Largest payload of a TLP in bytes.
    most: u64,
}

impl Linear {
    /// A `Linear` that agrees with `time` at 0 and at `most` bytes. `time` gives the picoseconds of one TLP.
    fn of(most: u32, time: impl Fn(u32) -> u64) -> Linear {
        let base = time(0);
        Linear { base, slope: (time(most) - base) * 1000 / u64::from(most), most: u64::from(most) }
    }

    /// Picoseconds of the TLPs that carry `bytes` bytes.
    #[inline]
    pub fn time(&self, bytes: u64) -> u64 {
        pieces(bytes, self.most) * self.base + bytes * self.slope / 1000
    }

    /// Picoseconds of the TLPs that carry `bytes` bytes if the first byte has address `offset`. All TLPs but
    /// the last end at addresses that are multiples of the largest payload.
    #[inline]
    fn time_from(&self, offset: u64, bytes: u64) -> u64 {
        match bytes {
            0 => 0,
            _ => pieces(offset % self.most + bytes, self.most) * self.base + bytes * self.slope / 1000,
        }
    }

    /// A lower bound on the picoseconds of `bytes` bytes, for any division into TLPs: each byte bears its
    /// share of the fixed time of a full TLP.
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
    /// From when a read request has left the NIC until its completions begin on the link. Includes the
    /// memory's latency.
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

    /// Picoseconds that the requests of a DMA read of `bytes` take on the link, towards the host. There is at
    /// least one request.
    #[inline]
    pub fn read_requests(&self, bytes: u64) -> u64 {
        pieces(bytes, self.max_read_request).max(1) * self.read_request
    }

    /// Picoseconds of the completions of a DMA read of `bytes`, towards the NIC.
    #[inline]
    pub fn completions(&self, bytes: u64) -> u64 {
        self.completion.time(bytes)
    }

    /// Picoseconds of the completions of a DMA read of `bytes` that begins at `addr`, towards the NIC. A read
    /// has one completion, and one more for each multiple of the largest payload that its addresses cross
    /// (PCI Express Base Specification 3.0, 2.3.1.1).
    #[inline]
    pub fn completions_from(&self, addr: u64, bytes: u64) -> u64 {
        self.completion.time_from(addr, bytes)
    }

    /// A lower bound on the picoseconds of `bytes` bytes that share completions with other bytes: they bear
    /// only their part of each completion's fixed time.
    pub(crate) fn least_completions(&self, bytes: u64) -> u64 {
        self.completion.least(bytes)
    }

    /// Picoseconds of a DMA write of `bytes`, towards the host.
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
        // Only write-combined lines have this overhead. A Doorbell is a plain store.
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
