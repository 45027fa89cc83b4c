//! A device: a NIC with its metered parts.
//!
//! Some files hold the parts: `qp`, `sending` and `receiving` (units), `hold`, `reads`, `pcie`, `caches`,
//! `locks`, `device_memory` and `ethernet`. `nic` puts them together. The other files hold the actions:
//!
//! - `doorbell`: how WQEs come to the NIC.
//! - `tx`: sending units, until a packet is at its port.
//! - `rx`: receiving units.
//! - `dma`: access to memory over `pcie`.
//! - `contexts`: look-ups in the caches.
//! - `atomics`: atomics under their locks.
//! - `completion` and `timer`: how work requests end and time out.
//! - `frames`: a plain NIC for kernel TCP.
//! - `view`: state that a trace shows.
//!
//! A handler borrows its own device, that device's host if it accesses memory, and the shared `Env`. It never
//! sees another device.

mod atomics;
mod caches;
mod completion;
mod contexts;
mod device_memory;
mod dma;
mod doorbell;
mod ethernet;
mod frames;
mod hold;
mod locks;
mod nic;
mod pcie;
mod qp;
mod reads;
mod receiving;
mod rx;
mod sending;
mod timer;
mod tx;
mod view;

pub(crate) use ethernet::{PostedSegment, ReceivedFrame, SocketBuffer};
pub(crate) use nic::{Attached, SimDevice};
pub(crate) use qp::{CqSlot, Cqe, FIRST_QPN, QpSlot, RecvSlot, WqeSlot};
pub(crate) use reads::ReadPurpose;
pub(crate) use view::COUNTS;
