//! RC, UC and UD as state machines without I/O or clock.
//!
//! Work requests, packets and time-outs go in; packets, memory accesses and completions come out.
//! A driver (the simulator, a socket) moves payload bytes, keeps time, and preserves the order in
//! which a QP gives its packets. Packets are typed headers; bytes exist only in a codec.
#![forbid(unsafe_code)]

mod action;
mod keys;
mod packet;

pub use action::{Action, Queue, ReadStream, Source, TxPacket};
pub use keys::{Keys, Region};
pub use packet::{AtomicOp, Body, Deth, NakCode, Packet, Part, Reth, Syndrome};
