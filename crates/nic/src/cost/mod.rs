//! The cost of each thing on each resource. No other module computes these costs.
//!
//! [`Costs`] holds a profile's numbers ready for use: integers of picoseconds and bytes, built once. Code
//! that keeps a clock spends the costs packet by packet. Code that sums them goes over the packets of a
//! message ([`MessageShape`]). Small types ([`PacketShape`], [`Wqe`], [`ReceiveWork`]) hold the properties
//! that determine a cost.
//!
//! | resource | cost of | type |
//! |---|---|---|
//! | core | a WQE, a RECV, what is written to the NIC, a completion | [`CpuCost`] |
//! | PCIe | an MMIO line, a Doorbell, a DMA read or write | [`PcieCost`] |
//! | sending unit | a request packet, an answer | [`SendCost`] |
//! | receiving unit | a packet, each DMA that it asks for | [`ReceiveCost`] |
//! | link | a packet | [`WireCost`] |
//! | core | a call on a socket, a segment of TCP, a frame, an interrupt | [`TcpCost`] |

mod costs;
mod cpu;
mod message;
mod packet;
mod pcie;
mod receive;
mod send;
mod tcp;
mod wire;

pub use costs::Costs;
pub use cpu::CpuCost;
pub use message::{MessagePacket, MessageShape};
pub use packet::{PacketKind, PacketShape, dmas, parts};
pub use pcie::{Linear, PcieCost};
pub use receive::{ReceiveCost, ReceiveWork};
pub use send::{SendCost, Wqe};
pub use tcp::{FRAME_HEADERS, TcpCost, frame_on_link};
pub use wire::{OnLink, WireCost};
