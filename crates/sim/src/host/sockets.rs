//! The sockets of a host: where its cores are, and what it takes to get from one to another.

use crate::core::index::CoreId;
use crate::core::ps::Ps;
use doorbell_nic::Profile;

/// The number of a socket, which is one of four at most.
pub(crate) type CpuSocket = u8;

/// How many there are, and what is between them.
#[derive(Clone, Copy)]
pub(crate) struct Sockets {
    count: u8,
    /// Cores of each.
    cores: u16,
    /// What a core takes longer for a line that another socket has.
    pub(super) hop: Ps,
    /// What an MMIO or a DMA takes longer to another socket.
    pub(super) pcie_hop: Ps,
    /// Bytes of the last-level cache of each.
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

    /// The socket of a core; those beyond what the profile has begin at the first again.
    #[inline]
    pub(super) fn of_core(self, core: CoreId) -> CpuSocket {
        if self.count == 1 { 0 } else { (u16::from(core.0) / self.cores % u16::from(self.count)) as u8 }
    }

    /// What a DMA takes longer that finds a line elsewhere: where its home is elsewhere too, that is asked first.
    pub(super) fn dma(self, home_is_elsewhere: bool) -> Ps {
        self.pcie_hop + if home_is_elsewhere { self.hop } else { Ps::ZERO }
    }

    /// Whether there are several.
    #[inline]
    pub(super) fn are_several(self) -> bool {
        self.count > 1
    }
}
