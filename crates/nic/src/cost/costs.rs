//! All costs of a profile.

use super::cpu::CpuCost;
use super::pcie::PcieCost;
use super::receive::ReceiveCost;
use super::send::SendCost;
use super::wire::WireCost;
use crate::{Generation, Profile};

/// The costs of a profile's machines, in picoseconds and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// The generation, which determines the layouts of WQEs, Doorbells and packets.
    pub generation: Generation,
    /// Costs of cores.
    pub cpu: CpuCost,
    /// Costs of the PCIe link.
    pub pcie: PcieCost,
    /// Costs of sending units.
    pub send: SendCost,
    /// Costs of receiving units.
    pub receive: ReceiveCost,
    /// Costs of the link.
    pub wire: WireCost,
    /// Picoseconds for which an atomic holds its lock, in addition to the PCIe read of the word.
    pub lock_hold: u64,
    /// Picoseconds for which a unit stalls on a translation that is not in the NIC's cache, including the
    /// PCIe read.
    pub translation_stall: u64,
    /// Bytes of a CQE.
    pub cqe: u32,
}

impl Costs {
    /// The costs of `profile`.
    pub fn new(profile: &Profile) -> Costs {
        Costs {
            generation: profile.device.generation,
            cpu: CpuCost::new(&profile.host, profile.hierarchy.as_ref()),
            pcie: PcieCost::new(&profile.device.pcie, &profile.device.pcie_speed, profile.device.generation),
            send: SendCost::new(profile),
            receive: ReceiveCost::new(profile),
            wire: WireCost::new(&profile.device.link, profile.device.generation),
            lock_hold: profile.device.atomics.hold.as_ps(),
            translation_stall: (profile.device.caches.translation_stall + profile.device.pcie.read_latency)
                .as_ps(),
            cqe: profile.device.nic.cqe,
        }
    }
}
