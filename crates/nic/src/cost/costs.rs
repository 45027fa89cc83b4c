//! All costs of a profile.

use super::cpu::CpuCost;
use super::memory::{DeviceMemoryCost, LockCost};
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
    /// Time for which an atomic on host memory holds its lock, in addition to the PCIe read of the word.
    pub atomics: LockCost,
    /// Costs of device memory, if the NIC has any.
    pub device_memory: Option<DeviceMemoryCost>,
    /// Least picoseconds between two DMA reads of one line; 0 if there is no such limit.
    pub dma_read_again: u64,
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
            atomics: LockCost::of_host_memory(&profile.device.atomics),
            device_memory: profile.device.device_memory.as_ref().map(DeviceMemoryCost::new),
            dma_read_again: profile.host.dma_read_again.as_ps(),
            translation_stall: (profile.device.caches.translation_stall + profile.device.pcie.read_latency)
                .as_ps(),
            cqe: profile.device.nic.cqe,
        }
    }
}
