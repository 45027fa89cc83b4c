//! A machine's kernel: TCP of Linux over its first device, used as a plain Ethernet NIC.
//!
//! `state` is all that a kernel has, `socket` has the rules of TCP, `output` the way of a segment to the NIC, `interrupts` what the NIC's interrupts have a
//! core do, `input` the way of a segment to its socket. What a program calls is `provider/sockets`. All of it costs
//! a core time, as the profile says: that of the thread that calls, or that of the core that is interrupted.

mod input;
mod interrupts;
mod output;
mod socket;
mod state;

pub(crate) use socket::{SocketState, SocketWant, TcpSocket};
pub(crate) use state::{Kernel, KernelContext};
