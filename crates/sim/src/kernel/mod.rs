//! A machine's kernel: Linux's TCP over the machine's first device, used as a plain Ethernet NIC.
//!
//! - `state`: the state of a kernel.
//! - `socket`: the rules of TCP.
//! - `output`: a segment from its socket to the NIC.
//! - `interrupts`: the NIC's interrupts, and the driver's poll on the interrupted core.
//! - `input`: a segment from the driver to its socket.
//!
//! Programs call `provider/sockets`. The kernel's work occupies the core that makes the call or is
//! interrupted. The profile gives the times.

mod input;
mod interrupts;
mod output;
mod socket;
mod state;

pub(crate) use socket::{SocketState, SocketWant, TcpSocket};
pub(crate) use state::{Kernel, KernelContext};
