//! Parameters of a host with several sockets.

use super::host::Host;
use super::parameter::{ProfileError, ProfileReader, Section, Unit, section};
use doorbell_verbs::Span;
use toml::Spanned;

section! {
    /// CPU sockets, and the costs of access to another socket. Each socket has [`Host::cores`] cores, a
    /// last-level cache and memory. A profile without this section has one socket, and its NIC is there.
    Sockets in "sockets" {
        /// Number of sockets. Numbering starts at the socket of the first NIC; cores are numbered socket by
        /// socket.
        count: u32 = "count" Count 1..=4;
        /// NICs of a machine; the n-th is at socket n.
        adapters: u32 = "adapters" Count 1..=4;
        /// Bytes of each socket's last-level cache. A smaller allocation starts in the cache of the
        /// allocating core, because the kernel zeroes it there. A larger one starts in no cache.
        llc: u64 = "llc_bytes" Bytes 0..=1073741824;
        /// Additional time of a core's load or store if the line is in the memory or the cache of another
        /// socket.
        hop: Span = "hop_ns" Nanoseconds 0..=10000;
        /// Additional time of an MMIO, a DMA read or a DMA write to another socket.
        pcie_hop: Span = "pcie_hop_ns" Nanoseconds 0..=100000;
        /// Additional time of a receiving unit for a request with a DMA write to another socket.
        unit_write: Span = "unit_write_ns" Nanoseconds 0..=100000;
        /// Additional time of a receiving unit for a DMA read from another socket.
        unit_read: Span = "unit_read_ns" Nanoseconds 0..=100000;
    }
}

/// The most cores of a machine.
const MOST_CORES: u32 = 256;

impl Sockets {
    /// Checks that the section fits the rest of the host. The error says what does not fit.
    pub(super) fn check(&self, host: &Host, sized: bool) -> Result<(), String> {
        let Sockets { count, adapters, .. } = *self;
        if sized && count > 1 {
            return Err(
                "sockets.count is above 1, but a host with cache sizes ([hierarchy]) has one socket".into()
            );
        }
        if adapters > count {
            return Err(format!("sockets.adapters is {adapters}, but there are only {count} sockets"));
        }
        let cores = host.cores * count;
        if cores > MOST_CORES {
            return Err(format!("{count} sockets of {} cores are more than {MOST_CORES} cores", host.cores));
        }
        Ok(())
    }
}
