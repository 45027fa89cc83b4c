//! The costs of WQEs, packets, DMAs and calls on each resource: times, and bytes on links. The simulator and
//! the limits take all costs from here. Sizes of headers and WQEs are in [`crate::generation`].
//!
//! [`Costs`] holds all costs of a profile, as integers of picoseconds and bytes. The simulator spends them
//! packet by packet. The limits sum them over the packets of a message ([`MessageShape`]), apart from
//! [`SendCost::idle_qp`] and stalls, which only the simulator spends. [`PacketShape`], [`Wqe`] and
//! [`ReceiveWork`] hold the properties that determine a cost.
//!
//! | resource | cost of | type |
//! |---|---|---|
//! | core | a WQE, a RECV, an MMIO write to the NIC, a completion | [`CpuCost`] |
//! | PCIe | an MMIO line, a Doorbell, a DMA read or write | [`PcieCost`] |
//! | sending unit | a request packet, a response packet | [`SendCost`] |
//! | receiving unit | a packet, each DMA that it asks for | [`ReceiveCost`] |
//! | link | a packet | [`WireCost`] |
//! | locks, device memory | an atomic, an access to device memory | [`LockCost`], [`DeviceMemoryCost`] |
//! | core | a call on a socket, a segment of TCP, a frame, an interrupt | [`TcpCost`] |

mod costs;
mod cpu;
mod memory;
mod message;
mod packet;
mod pcie;
mod receive;
mod send;
mod tcp;
mod wire;

pub use costs::Costs;
pub use cpu::CpuCost;
pub use memory::{DeviceMemoryCost, LockCost};
pub use message::{MessagePacket, MessageShape};
pub use packet::{PacketKind, PacketShape, dmas, parts};
pub use pcie::{Linear, PcieCost};
pub use receive::{ReceiveCost, ReceiveWork};
pub use send::{SendCost, Wqe};
pub use tcp::{FRAME_HEADERS, TcpCost, frame_on_link};
pub use wire::{OnLink, WireCost};
