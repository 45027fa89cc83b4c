//! What a run shows: every resource metered, every cache counted.

/// Use of one resource of one machine within the metering window.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceUse {
    /// Class from the fixed vocabulary of bottlenecks (`cpu`, `mmio-bw`, `dma-bw`, ...).
    pub class: &'static str,
    /// Which one, as `core 3` or `port 1 out`.
    pub name: String,
    /// Machine.
    pub machine: u32,
    /// Share of the window in which it was busy, 0 to 1.
    pub utilization: f64,
}

/// Hits and misses of one cache of a NIC within the metering window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheUse {
    /// Which cache, as `wqe`, `qp-requester`, `qp-responder`, `translation`.
    pub name: &'static str,
    /// Machine.
    pub machine: u32,
    /// Look-ups that found their entry.
    pub hits: u64,
    /// Look-ups that had to fetch it over PCIe.
    pub misses: u64,
}

/// PCIe traffic of one machine within the metering window. Bytes are payload bytes of TLPs,
/// without headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PcieUse {
    /// Machine.
    pub machine: u32,
    /// MMIO writes, CPU to NIC: bytes.
    pub mmio_bytes: u64,
    /// DMA reads by the NIC: bytes.
    pub dma_read_bytes: u64,
    /// DMA writes by the NIC: bytes.
    pub dma_write_bytes: u64,
    /// Cache lines touched by DMA reads (the uncore counter PCIeRdCur; ATC'16, 2.1).
    pub rdcur: u64,
    /// Cache lines touched by DMA writes (PCIeItoM).
    pub itom: u64,
}

/// The whole of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Length of the metering window in picoseconds.
    pub window_ps: u64,
    /// Every resource of every machine.
    pub resources: Vec<ResourceUse>,
    /// Every cache of every machine.
    pub caches: Vec<CacheUse>,
    /// One entry per machine.
    pub pcie: Vec<PcieUse>,
    /// Messages that unreliable transports dropped for want of a RECV, whole run.
    pub dropped: u64,
    /// Packets of unreliable transports lost on their way (`SimConfig::loss_ppm`), whole run.
    pub lost: u64,
    /// Send work requests completed or handed to the wire for good, whole run.
    pub verbs: u64,
    /// Events processed, whole run.
    pub events: u64,
    /// Hash over every event in order: equal for equal seeds.
    pub event_hash: u64,
}
