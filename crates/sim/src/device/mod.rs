//! A device: a NIC with its parts, each metered.
//!
//! Its parts are data, a file each: `qp`, `sending` and `receiving` (units), `hold`, `reads`, `pcie`, `caches`, `locks` and
//! `ethernet`; `nic` is all of them. What happens to them is in the other files: `doorbell` is how the NIC learns of WQEs,
//! `tx` what its sending units do until a packet is at its port, `rx` what its receiving units do with one, `dma` how it
//! reaches memory over `pcie`, `contexts` what it looks up in its caches, `atomics` what it does under its locks,
//! `completion` how work requests end, `timer` how they time out, `frames` what it does as a plain NIC for kernel TCP,
//! `view` what a trace looks at.
//! Handlers borrow their device, its host where memory matters, and what all rooms share; they never see
//! another device.

mod atomics;
mod caches;
mod completion;
mod contexts;
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
