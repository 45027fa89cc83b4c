//! What is known about a host of several sockets.

use super::host::Host;
use super::parameter::{ProfileError, ProfileReader, Section, Unit, section};
use doorbell_verbs::Span;
use toml::Spanned;

section! {
    /// Sockets, each with [`Host::cores`] cores, a last-level cache and memory, and what it takes to get from one to another. A
    /// profile without this section has one socket, at which its NIC is.
    Sockets in "sockets" {
        /// How many. They are numbered from that of the first NIC on, and cores socket by socket.
        count: u32 = "count" Count 1..=4;
        /// NICs of a machine, the n-th at socket n.
        adapters: u32 = "adapters" Count 1..=4;
        /// Bytes of the last-level cache of each: memory that takes no more is in that of the core which allocated it, as its
        /// kernel has zeroed it there; of more nothing is in a cache before somebody reaches it.
        llc: u64 = "llc_bytes" Bytes 0..=1073741824;
        /// What a core's load or store takes longer where another socket's memory, or a cache there, has the line.
        hop: Span = "hop_ns" Nanoseconds 0..=10000;
        /// What an MMIO, a DMA read or a DMA write takes longer to get to the other end where that is at another socket.
        pcie_hop: Span = "pcie_hop_ns" Nanoseconds 0..=100000;
        /// How much longer a receiving unit takes for a request that makes a DMA write to another socket.
        unit_write: Span = "unit_write_ns" Nanoseconds 0..=100000;
        /// How much longer it takes for a DMA read from another socket.
        unit_read: Span = "unit_read_ns" Nanoseconds 0..=100000;
    }
}

/// Cores of a machine at most.
const MOST_CORES: u32 = 256;

impl Sockets {
    /// Whether they go together with the rest of a host; an error says what does not.
    pub(super) fn check(&self, host: &Host, sized: bool) -> Result<(), String> {
        let Sockets { count, adapters, .. } = *self;
        if sized && count > 1 {
            return Err(
                "sockets.count is above 1, but caches that have sizes ([hierarchy]) are of one socket".into(),
            );
        }
        if adapters > count {
            return Err(format!("sockets.adapters is {adapters}, but there are {count} sockets for them"));
        }
        let cores = host.cores * count;
        if cores > MOST_CORES {
            return Err(format!("{count} sockets of {} cores are more than {MOST_CORES} cores", host.cores));
        }
        Ok(())
    }
}
