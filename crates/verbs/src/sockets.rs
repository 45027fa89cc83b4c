//! Kernel TCP, beside verbs.

use crate::{Mem, Provider, Time};
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

/// A thread's sockets: what providers implement. Programs use [`TcpListener`] and [`TcpStream`].
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

/// A socket that is closed when it is dropped.
struct Owned<P: Provider> {
    provider: P,
    handle: SocketHandle,
}

impl<P: Provider> Drop for Owned<P> {
    fn drop(&mut self) {
        self.provider.tcp_close(self.handle);
    }
}

/// A socket that peers connect to.
pub struct TcpListener<P: Provider> {
    socket: Owned<P>,
    address: SocketAddr,
}

impl<P: Provider> TcpListener<P> {
    /// Listens on a free port of the thread's machine.
    ///
    /// # Errors
    /// If the machine has no TCP or no port.
    pub fn bind(provider: &P) -> Result<TcpListener<P>, SocketError> {
        let (handle, address) = provider.tcp_listen()?;
        Ok(TcpListener { socket: Owned { provider: provider.clone(), handle }, address })
    }

    /// Where peers connect to: to be published.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// As of accept(2).
    pub fn accept(&self) -> Result<TcpStream<P>, SocketError> {
        let provider = self.socket.provider.clone();
        let handle = provider.tcp_accept(self.socket.handle)?;
        Ok(TcpStream(Owned { provider, handle }))
    }
}

/// A connection.
pub struct TcpStream<P: Provider>(Owned<P>);

impl<P: Provider> TcpStream<P> {
    /// Connects to a listener.
    ///
    /// # Errors
    /// As of connect(2).
    pub fn connect(provider: &P, to: SocketAddr) -> Result<TcpStream<P>, SocketError> {
        let handle = provider.tcp_connect(to)?;
        Ok(TcpStream(Owned { provider: provider.clone(), handle }))
    }

    /// Sends `len` bytes from `offset` of `mem` on; returns once all are in the socket's buffer, and `mem` may be
    /// used again.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn send(&self, mem: Mem, offset: u64, len: u64) -> Result<(), SocketError> {
        self.0.provider.tcp_send(self.0.handle, mem, offset, len)
    }

    /// Takes what has come, at most `len` bytes, and waits where nothing has; 0 once the peer has closed.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn recv(&self, mem: Mem, offset: u64, len: u64) -> Result<u64, SocketError> {
        self.0.provider.tcp_recv(self.0.handle, mem, offset, len)
    }

    /// Takes exactly `len` bytes.
    ///
    /// # Errors
    /// If the connection is gone or ends before.
    pub fn recv_exact(&self, mem: Mem, offset: u64, len: u64) -> Result<(), SocketError> {
        let mut taken = 0;
        while taken < len {
            match self.recv(mem, offset + taken, len - taken)? {
                0 => return Err(SocketError::Reset),
                more => taken += more,
            }
        }
        Ok(())
    }

    /// Waits until there is something to take, or `deadline` comes; whether there is.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn poll(&self, deadline: Time) -> Result<bool, SocketError> {
        Ok(self.0.provider.tcp_poll(&[self.0.handle], deadline)?.is_some())
    }
}
