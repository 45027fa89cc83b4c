//! All costs of a profile.

use super::cpu::CpuCost;
use super::pcie::PcieCost;
use super::receive::ReceiveCost;
use super::send::SendCost;
use super::wire::WireCost;
use crate::{Generation, Profile};

/// What each thing costs on the machines of a profile, in picoseconds and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// How WQEs, Doorbells and packets look.
    pub generation: Generation,
    /// Cores.
    pub cpu: CpuCost,
    /// The PCIe link.
    pub pcie: PcieCost,
    /// Sending units.
    pub send: SendCost,
    /// Receiving units.
    pub receive: ReceiveCost,
    /// The link.
    pub wire: WireCost,
    /// How long a lock is held beyond the PCIe read of its word.
    pub lock_hold: u64,
    /// How long a unit stands still for a translation that it has to read.
    pub translation_stall: u64,
    /// Bytes of a CQE.
    pub cqe: u32,
}

impl Costs {
    /// Those of `profile`.
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
