//! Kernel TCP: the machine's own.

use crate::provider::NativeProvider;
use doorbell_verbs::{Mem, SocketError, SocketHandle, Sockets, Time};
use std::net::SocketAddr;

fn no_tcp<T>() -> Result<T, SocketError> {
    Err(SocketError::Unsupported("sockets are not opened yet".into()))
}

impl Sockets for NativeProvider {
    fn tcp_listen(&self) -> Result<(SocketHandle, SocketAddr), SocketError> {
        no_tcp()
    }

    fn tcp_accept(&self, _listener: SocketHandle) -> Result<SocketHandle, SocketError> {
        no_tcp()
    }

    fn tcp_connect(&self, _to: SocketAddr) -> Result<SocketHandle, SocketError> {
        no_tcp()
    }

    fn tcp_send(&self, _socket: SocketHandle, _mem: Mem, _offset: u64, _len: u64) -> Result<(), SocketError> {
        no_tcp()
    }

    fn tcp_recv(
        &self,
        _socket: SocketHandle,
        _mem: Mem,
        _offset: u64,
        _len: u64,
    ) -> Result<u64, SocketError> {
        no_tcp()
    }

    fn tcp_poll(&self, _sockets: &[SocketHandle], _deadline: Time) -> Result<Option<usize>, SocketError> {
        no_tcp()
    }

    fn tcp_close(&self, _socket: SocketHandle) {}
}
