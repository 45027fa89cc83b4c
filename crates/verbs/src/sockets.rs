//! The interface of kernel TCP, which providers implement.

use crate::{Mem, Time};
use std::net::SocketAddr;
use thiserror::Error;

/// A TCP socket of one provider and thread. A provider refuses a handle it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketHandle(pub u32);

/// The reason why a call on a socket failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SocketError {
    /// No listener at this address (ECONNREFUSED).
    #[error("connection refused by {0}")]
    Refused(SocketAddr),
    /// The connection is gone (ECONNRESET, EPIPE).
    #[error("the connection was reset")]
    Reset,
    /// No such socket, or the socket does not support the call (EBADF, EINVAL, ENOTCONN).
    #[error("invalid: {0}")]
    Invalid(String),
    /// The machine has no TCP, because its profile gives no costs for it.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// Any other errno.
    #[error("{what} failed: {}", std::io::Error::from_raw_os_error(*errno))]
    Errno {
        /// The call that failed.
        what: &'static str,
        /// The errno it returned.
        errno: i32,
    },
}

/// The sockets of a thread, implemented by providers. Programs use [`crate::TcpListener`] and
/// [`crate::TcpStream`].
///
/// All calls block like calls on a blocking socket. When a run is stopped, the calls unwind, as `pause` and
/// `lookup` do.
pub trait Sockets {
    /// socket(2), bind(2) to a free port, listen(2). Returns the address that peers connect to.
    fn tcp_listen(&self) -> Result<(SocketHandle, SocketAddr), SocketError>;
    /// accept(2).
    fn tcp_accept(&self, listener: SocketHandle) -> Result<SocketHandle, SocketError>;
    /// socket(2), connect(2), with TCP_NODELAY.
    fn tcp_connect(&self, to: SocketAddr) -> Result<SocketHandle, SocketError>;
    /// send(2). Returns once all `len` bytes are in the socket's buffer.
    fn tcp_send(&self, socket: SocketHandle, mem: Mem, offset: u64, len: u64) -> Result<(), SocketError>;
    /// recv(2). Waits for data and returns the number of bytes, at most `len`, or 0 once the peer has closed.
    fn tcp_recv(&self, socket: SocketHandle, mem: Mem, offset: u64, len: u64) -> Result<u64, SocketError>;
    /// poll(2) for POLLIN. Waits until one of `sockets` has something to receive or `deadline` comes. Returns
    /// the first such socket.
    fn tcp_poll(&self, sockets: &[SocketHandle], deadline: Time) -> Result<Option<usize>, SocketError>;
    /// close(2). Bytes that were sent still arrive.
    fn tcp_close(&self, socket: SocketHandle);
}
