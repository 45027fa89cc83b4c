//! PCIe transactions of a work request (ATC'16, 2.1, 3.1, 3.2, 5.1 and appendix A).
//!
//! All functions are pure. Bytes of TLPs include headers and payload. [`crate::cost::PcieCost`] adds the
//! overhead of the link layer.

use crate::cost::{MessagePacket, ReceiveWork};
use crate::{Nic, Pcie, Profile, cost, wqe};
use doorbell_verbs::{Opcode, QpType};
use schemars::JsonSchema;
use serde::Serialize;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

pub use crate::generation::{DOORBELL_BYTES, Method};
pub use crate::shape::{ATOMIC_WORD_BYTES, PostShape, RecvShape};

/// Numbers of PCIe transactions, and their bytes on the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Transactions {
    /// MMIO writes: write-combined lines and Doorbells.
    pub mmio_writes: u64,
    /// Bytes of the MMIO writes, without headers.
    pub mmio_bytes: u64,
    /// DMA reads: pieces of memory that the NIC asks for.
    pub dma_reads: u64,
    /// Bytes of the DMA reads, without headers.
    pub dma_read_bytes: u64,
    /// DMA writes: pieces of memory that the NIC writes.
    pub dma_writes: u64,
    /// Bytes of the DMA writes, without headers.
    pub dma_write_bytes: u64,
    /// TLPs towards the NIC: MMIO writes and read completions.
    pub host_to_device_tlps: u64,
    /// Bytes of the TLPs towards the NIC, with headers.
    pub host_to_device_bytes: u64,
    /// TLPs towards the host: read requests and DMA writes.
    pub device_to_host_tlps: u64,
    /// Bytes of the TLPs towards the host, with headers.
    pub device_to_host_bytes: u64,
}

impl Transactions {
    /// One MMIO write of `bytes`, at most a line.
    pub fn mmio_write(pcie: &Pcie, bytes: u32) -> Transactions {
        Transactions {
            mmio_writes: 1,
            mmio_bytes: u64::from(bytes),
            host_to_device_tlps: 1,
            host_to_device_bytes: u64::from(bytes + pcie.request_header),
            ..Transactions::default()
        }
    }

    /// One DMA read of `bytes`; nothing if `bytes` is 0.
    pub fn dma_read(pcie: &Pcie, bytes: u32) -> Transactions {
        if bytes == 0 {
            return Transactions::default();
        }
        let requests = u64::from(pcie.read_requests(bytes));
        Transactions {
            dma_reads: 1,
            dma_read_bytes: u64::from(bytes),
            host_to_device_tlps: u64::from(pcie.completions(bytes)),
            host_to_device_bytes: pcie.dma_read_link_bytes(bytes),
            device_to_host_tlps: requests,
            device_to_host_bytes: requests * u64::from(pcie.request_header),
            ..Transactions::default()
        }
    }

    /// One DMA write of `bytes`; nothing if `bytes` is 0.
    pub fn dma_write(pcie: &Pcie, bytes: u32) -> Transactions {
        if bytes == 0 {
            return Transactions::default();
        }
        Transactions {
            dma_writes: 1,
            dma_write_bytes: u64::from(bytes),
            device_to_host_tlps: u64::from(pcie.write_requests(bytes)),
            device_to_host_bytes: pcie.dma_write_link_bytes(bytes),
            ..Transactions::default()
        }
    }

    /// These transactions `n` times.
    pub fn times(self, n: u64) -> Transactions {
        Transactions {
            mmio_writes: self.mmio_writes * n,
            mmio_bytes: self.mmio_bytes * n,
            dma_reads: self.dma_reads * n,
            dma_read_bytes: self.dma_read_bytes * n,
            dma_writes: self.dma_writes * n,
            dma_write_bytes: self.dma_write_bytes * n,
            host_to_device_tlps: self.host_to_device_tlps * n,
            host_to_device_bytes: self.host_to_device_bytes * n,
            device_to_host_tlps: self.device_to_host_tlps * n,
            device_to_host_bytes: self.device_to_host_bytes * n,
        }
    }
}

impl Add for Transactions {
    type Output = Transactions;
    fn add(self, other: Transactions) -> Transactions {
        Transactions {
            mmio_writes: self.mmio_writes + other.mmio_writes,
            mmio_bytes: self.mmio_bytes + other.mmio_bytes,
            dma_reads: self.dma_reads + other.dma_reads,
            dma_read_bytes: self.dma_read_bytes + other.dma_read_bytes,
            dma_writes: self.dma_writes + other.dma_writes,
            dma_write_bytes: self.dma_write_bytes + other.dma_write_bytes,
            host_to_device_tlps: self.host_to_device_tlps + other.host_to_device_tlps,
            host_to_device_bytes: self.host_to_device_bytes + other.host_to_device_bytes,
            device_to_host_tlps: self.device_to_host_tlps + other.device_to_host_tlps,
            device_to_host_bytes: self.device_to_host_bytes + other.device_to_host_bytes,
        }
    }
}

impl AddAssign for Transactions {
    fn add_assign(&mut self, other: Transactions) {
        *self = *self + other;
    }
}

impl Sum for Transactions {
    fn sum<I: Iterator<Item = Transactions>>(all: I) -> Transactions {
        all.fold(Transactions::default(), Add::add)
    }
}

impl Pcie {
    /// Host-to-device bytes if a core writes `bytes` by write-combined MMIO: B_mmio(x) = ceil(x/64)(64+P_r)
    /// (Figure 2b).
    pub const fn mmio_link_bytes(&self, bytes: u32) -> u64 {
        bytes.div_ceil(wqe::LINE) as u64 * (wqe::LINE + self.request_header) as u64
    }

    /// Host-to-device bytes of a DMA read of `bytes`: B_dma(x) = x + P_c ceil(x/C_rc) (Figure 2b). The
    /// requests of the read use the other direction.
    pub const fn dma_read_link_bytes(&self, bytes: u32) -> u64 {
        bytes as u64 + self.completions(bytes) as u64 * self.completion_header as u64
    }

    /// Device-to-host bytes of a DMA write of `bytes`.
    pub const fn dma_write_link_bytes(&self, bytes: u32) -> u64 {
        bytes as u64 + self.write_requests(bytes) as u64 * self.request_header as u64
    }

    /// Completions that answer a DMA read of `bytes`.
    pub const fn completions(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.read_completion)
    }

    /// Requests of a DMA read of `bytes`.
    pub const fn read_requests(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.max_read_request)
    }

    /// TLPs of a DMA write of `bytes`.
    pub const fn write_requests(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.max_payload)
    }

    /// Maximum number of bytes of useful data per second that DMA reads can bring: every completion is full,
    /// and only TLP headers are overhead (ATC'16, 5.2.1).
    pub fn dma_read_bytes_per_s(&self) -> f64 {
        let full = f64::from(self.read_completion);
        self.bytes_per_s() as f64 * full / (full + f64::from(self.completion_header))
    }

    /// The most WQEs of `wqe_bytes` per second that DMA reads can bring (5.2.1).
    pub fn dma_wqes_per_s(&self, wqe_bytes: u32) -> f64 {
        self.dma_read_bytes_per_s() / f64::from(wqe::pad(wqe_bytes))
    }

    /// The most write-combined lines per second (5.2.1).
    pub fn mmio_lines_per_s(&self) -> f64 {
        self.bytes_per_s() as f64 / f64::from(wqe::LINE + self.request_header)
    }

    /// The most WQEs of `wqe_bytes` per second by MMIO (5.2.1).
    pub fn mmio_wqes_per_s(&self, wqe_bytes: u32) -> f64 {
        self.mmio_lines_per_s() / f64::from(wqe::lines(wqe_bytes))
    }
}

/// PCIe transactions of one post at the requester, from the post to the last completion. The post has
/// `shape.method.wqes()` work requests.
pub fn requester(profile: &Profile, shape: &PostShape) -> Transactions {
    transfer(profile, shape) + execute(profile, shape).times(u64::from(shape.method.wqes()))
}

/// PCIe transactions that bring the WQEs of a post to the NIC.
pub fn transfer(profile: &Profile, shape: &PostShape) -> Transactions {
    let pcie = &profile.device.pcie;
    match shape.method {
        Method::WqeByMmio => {
            let lines = shape.wqe_lines(profile.device.generation);
            Transactions::mmio_write(pcie, wqe::LINE).times(u64::from(lines))
        }
        Method::Doorbell { batch } => {
            let slot = wqe::pad(shape.wqe_bytes(profile.device.generation));
            let fetches = doorbell_fetches(&profile.device.nic, batch);
            doorbell(profile) + fetches.map(|wqes| Transactions::dma_read(pcie, wqes * slot)).sum()
        }
    }
}

/// WQEs in each DMA read that a Doorbell for `batch` WQEs causes.
pub fn doorbell_fetches(nic: &Nic, batch: u32) -> impl Iterator<Item = u32> + use<> {
    pieces(batch, if nic.doorbell_reads_all { batch } else { nic.wqe_prefetch })
}

/// RECVs in each DMA read that a Doorbell for `recvs` RECVs causes.
pub fn recv_fetches(nic: &Nic, recvs: u32) -> impl Iterator<Item = u32> + use<> {
    pieces(recvs, nic.recv_prefetch)
}

/// PCIe transactions of one work request at its requester, after the NIC has the WQE. These are reads of the
/// payload or writes of the returned data, and the write of the CQE.
pub fn execute(profile: &Profile, shape: &PostShape) -> Transactions {
    let pcie = &profile.device.pcie;
    let mut sum = Transactions::default();
    let parts = || cost::parts(shape.buffers(), profile.device.link.mtu);
    if shape.payload_read() > 0 {
        sum += parts().map(|bytes| Transactions::dma_read(pcie, bytes)).sum();
    }
    if shape.opcode.returns_data() {
        sum += parts().map(|bytes| Transactions::dma_write(pcie, bytes)).sum();
    }
    if shape.signaled {
        sum += Transactions::dma_write(pcie, profile.device.nic.cqe);
    }
    sum
}

/// PCIe transactions of one message at its responder (ATC'16, 5.1). A READ causes one DMA read per packet, a
/// WRITE one DMA write per packet, and an atomic one of each. A SEND causes DMA writes to the buffers and the
/// CQE of its RECV. `payload` excludes the 40 bytes that precede it in a UD RECV.
pub fn responder(
    profile: &Profile,
    opcode: Opcode,
    qp_type: QpType,
    payload: u32,
    recv: RecvShape,
) -> Transactions {
    let pcie = &profile.device.pcie;
    let message = profile.message(opcode, qp_type, payload);
    let mut sum = Transactions::default();
    for MessagePacket { packet, .. } in message.requests() {
        let work = ReceiveWork::of(&packet, &profile.device.nic, recv);
        // Most InfiniBand datagrams have no global route header, so nothing is written before their payload.
        sum += Transactions::dma_write(pcie, work.place);
        if work.recv_cqe {
            // The CQE of a RECV cannot be suppressed (3.2).
            sum += Transactions::dma_write(pcie, profile.device.nic.cqe);
        }
    }
    for MessagePacket { packet, .. } in message.answers() {
        sum += Transactions::dma_read(pcie, packet.payload);
    }
    if opcode.is_atomic() {
        sum += Transactions::dma_read(pcie, ATOMIC_WORD_BYTES);
        sum += Transactions::dma_write(pcie, ATOMIC_WORD_BYTES);
    }
    sum
}

fn doorbell(profile: &Profile) -> Transactions {
    Transactions::mmio_write(&profile.device.pcie, profile.device.generation.posting().doorbell)
}

/// PCIe transactions of posting `recvs` RECVs with one call: a Doorbell, and the NIC's reads of the WQEs
/// (Figure 6).
pub fn post_recv(profile: &Profile, recvs: u32, sges: u32) -> Transactions {
    if recvs == 0 {
        return Transactions::default();
    }
    let slot = profile.device.generation.wqe().recv_bytes(sges);
    let fetches = recv_fetches(&profile.device.nic, recvs);
    doorbell(profile) + fetches.map(|wqes| Transactions::dma_read(&profile.device.pcie, wqes * slot)).sum()
}

/// Cache lines that an access touches, as the counters PCIeRdCur and PCIeItoM count them (2.1).
pub const fn lines_touched(address: u64, bytes: u64) -> u64 {
    if bytes == 0 {
        return 0;
    }
    let line = wqe::LINE as u64;
    address.saturating_add(bytes - 1) / line - address / line + 1
}

/// `n` in pieces of at most `size`.
fn pieces(n: u32, size: u32) -> impl Iterator<Item = u32> + use<> {
    let size = size.max(1);
    (0..n.div_ceil(size)).map(move |i| size.min(n - i * size))
}
