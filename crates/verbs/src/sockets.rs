//! Kernel TCP, beside verbs: what providers implement.

use crate::{Mem, Time};
use std::net::SocketAddr;
use thiserror::Error;

/// A TCP socket. It names one of a provider and thread; a provider refuses one it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketHandle(pub u32);

/// Why a call on a socket failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SocketError {
    /// Nobody listens there (ECONNREFUSED).
    #[error("connection refused by {0}")]
    Refused(SocketAddr),
    /// The connection is gone (ECONNRESET, EPIPE).
    #[error("the connection was reset")]
    Reset,
    /// No such socket, or not one that can do this (EBADF, EINVAL, ENOTCONN).
    #[error("invalid: {0}")]
    Invalid(String),
    /// The machine has no TCP: its profile does not say what it costs.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// Any other errno.
    #[error("{what} failed: {}", std::io::Error::from_raw_os_error(*errno))]
    Errno {
        /// The call that failed.
        what: &'static str,
        /// Its errno.
        errno: i32,
    },
}

/// A thread's sockets: what providers implement. Programs use [`crate::TcpListener`] and
/// [`crate::TcpStream`].
///
/// All calls block as those of a blocking socket do; when a run is stopped they unwind, as `pause` and `lookup`
/// do.
pub trait Sockets {
    /// socket(2), bind(2) to a free port, listen(2): returns where peers connect to.
    fn tcp_listen(&self) -> Result<(SocketHandle, SocketAddr), SocketError>;
    /// accept(2).
    fn tcp_accept(&self, listener: SocketHandle) -> Result<SocketHandle, SocketError>;
    /// socket(2), connect(2), with TCP_NODELAY.
    fn tcp_connect(&self, to: SocketAddr) -> Result<SocketHandle, SocketError>;
    /// send(2): returns once all `len` bytes are in the socket's buffer.
    fn tcp_send(&self, socket: SocketHandle, mem: Mem, offset: u64, len: u64) -> Result<(), SocketError>;
    /// recv(2): waits for something; returns how many bytes, at most `len`, and 0 once the peer has closed.
    fn tcp_recv(&self, socket: SocketHandle, mem: Mem, offset: u64, len: u64) -> Result<u64, SocketError>;
    /// poll(2) for POLLIN: waits until one of `sockets` has something to take, or `deadline` comes; returns the
    /// first that has.
    fn tcp_poll(&self, sockets: &[SocketHandle], deadline: Time) -> Result<Option<usize>, SocketError>;
    /// close(2). What was sent still arrives.
    fn tcp_close(&self, socket: SocketHandle);
}
