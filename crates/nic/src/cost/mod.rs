//! What each thing costs each resource: the one place that says so.
//!
//! [`Costs`] are a profile's numbers, ready for use: picoseconds and bytes in integers, built once.
//! Whoever keeps a clock spends them packet by packet; whoever sums goes over the packets of a message
//! ([`Message`]). What a cost depends on is said by small types ([`Packet`], [`Wqe`], [`Work`]) that both
//! fill in.
//!
//! | resource | of | cost |
//! |---|---|---|
//! | core | a WQE, a RECV, what is written to the NIC, a completion | [`CpuCost`] |
//! | PCIe | an MMIO line, a Doorbell, a DMA read or write | [`PcieCost`] |
//! | sending unit | a request packet, an answer | [`SendCost`] |
//! | receiving unit | a packet, each DMA that it asks for | [`ReceiveCost`] |
//! | link | a packet | [`WireCost`] |
//! | core | a call on a socket, a segment of TCP, a frame, an interrupt | [`TcpCost`] |

mod cpu;
mod message;
mod packet;
mod pcie;
mod receive;
mod send;
mod tcp;
mod wire;

pub use cpu::CpuCost;
pub use message::{Message, Piece};
pub use packet::{Kind, Packet, dmas, parts};
pub use pcie::{Linear, PcieCost};
pub use receive::{ReceiveCost, Work};
pub use send::{SendCost, Wqe};
pub use tcp::{FRAME_HEADERS, TcpCost, frame_on_link};
pub use wire::{OnLink, WireCost};

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
