//! Kernel TCP for programs.

use crate::{Mem, Provider, SocketError, SocketHandle, Time};
use std::net::SocketAddr;

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

    /// The address that peers connect to. Programs publish it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// Errors of accept(2).
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
    /// Errors of connect(2).
    pub fn connect(provider: &P, to: SocketAddr) -> Result<TcpStream<P>, SocketError> {
        let handle = provider.tcp_connect(to)?;
        Ok(TcpStream(Owned { provider: provider.clone(), handle }))
    }

    /// Sends `len` bytes of `mem` from `offset`. Returns once all bytes are in the socket's buffer. Then
    /// `mem` may be reused.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn send(&self, mem: Mem, offset: u64, len: u64) -> Result<(), SocketError> {
        self.0.provider.tcp_send(self.0.handle, mem, offset, len)
    }

    /// Receives at most `len` bytes, and waits if none have arrived. Returns 0 once the peer has closed.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn recv(&self, mem: Mem, offset: u64, len: u64) -> Result<u64, SocketError> {
        self.0.provider.tcp_recv(self.0.handle, mem, offset, len)
    }

    /// Receives exactly `len` bytes.
    ///
    /// # Errors
    /// If the connection is gone or ends early.
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

    /// Waits until there is something to receive or `deadline` comes. Returns whether there is something.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn poll(&self, deadline: Time) -> Result<bool, SocketError> {
        Ok(self.0.provider.tcp_poll(&[self.0.handle], deadline)?.is_some())
    }
}
