//! The CPU sockets of a host: their cores, and the extra times between them.

use crate::core::index::CoreId;
use crate::core::ps::Ps;
use doorbell_nic::Profile;

/// The number of a CPU socket. A host has at most four sockets.
pub(crate) type CpuSocket = u8;

/// The number of sockets, and the distances between them.
#[derive(Clone, Copy)]
pub(crate) struct Sockets {
    count: u8,
    /// Cores of each socket.
    cores: u16,
    /// Extra time of a core for a line that another socket has.
    pub(super) hop: Ps,
    /// Extra time of an MMIO write or a DMA to another socket.
    pub(super) pcie_hop: Ps,
    /// Bytes of each socket's last-level cache.
    pub(super) llc: u64,
}

impl Sockets {
    pub(super) fn of(profile: &Profile) -> Sockets {
        let cores = profile.host.cores as u16;
        match &profile.sockets {
            None => Sockets { count: 1, cores, hop: Ps::ZERO, pcie_hop: Ps::ZERO, llc: 0 },
            Some(s) => Sockets {
                count: s.count as u8,
                cores,
                hop: s.hop.into(),
                pcie_hop: s.pcie_hop.into(),
                llc: s.llc,
            },
        }
    }

    /// The socket of a core. Cores beyond the profile's number begin again at the first socket.
    #[inline]
    pub(super) fn of_core(self, core: CoreId) -> CpuSocket {
        if self.count == 1 { 0 } else { (u16::from(core.0) / self.cores % u16::from(self.count)) as u8 }
    }

    /// Extra time of a DMA that finds a line at another socket. If the line's home is not the device's
    /// socket, the home is asked first.
    pub(super) fn dma(self, home_is_elsewhere: bool) -> Ps {
        self.pcie_hop + if home_is_elsewhere { self.hop } else { Ps::ZERO }
    }

    /// Whether there are several sockets.
    #[inline]
    pub(super) fn are_several(self) -> bool {
        self.count > 1
    }
}
