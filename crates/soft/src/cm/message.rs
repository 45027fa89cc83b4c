//! Messages between two processes about a connection, as in the IB specification's communication management
//! (vol. 1, chapter 12). Each message is one packet of a SOCK_SEQPACKET socket. Closing the socket ends the
//! connection.

use doorbell_abi::cm::{Address, rdma_ucm_conn_param};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};
use std::io;
use std::os::fd::OwnedFd;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// Kinds of messages.
pub(super) mod kind {
    pub(in super::super) const REQ: u32 = 1;
    pub(in super::super) const REP: u32 = 2;
    pub(in super::super) const RTU: u32 = 3;
    pub(in super::super) const REJ: u32 = 4;
    pub(in super::super) const DREQ: u32 = 5;
    pub(in super::super) const DREP: u32 = 6;
}

/// A message. Unused fields are zero. For UD, REQ stands for the specification's SIDR_REQ, and REP and REJ
/// stand for SIDR_REP.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
pub(super) struct CmMessage {
    pub(super) kind: u32,
    /// Reason of a REJ, status of a SIDR_REP.
    pub(super) reason: u32,
    /// The sender's first PSN.
    pub(super) psn: u32,
    /// Addresses of the sender and the receiver.
    pub(super) from: Address,
    pub(super) to: Address,
    /// The connection parameters, from the sender's point of view.
    pub(super) param: rdma_ucm_conn_param,
}

impl CmMessage {
    pub(super) fn new(kind: u32) -> CmMessage {
        CmMessage { kind, ..CmMessage::new_zeroed() }
    }
}

/// Sends a message, and never blocks.
pub(super) fn send(socket: &OwnedFd, message: &CmMessage) -> io::Result<()> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(net::send(socket, message.as_bytes(), flags).map(drop)?)
}

/// The result of receiving from a socket.
#[derive(Debug)]
pub(super) enum CmReceived {
    Message(Box<CmMessage>),
    Nothing,
    /// The other side has closed the socket, or sent bytes that are not a message.
    End,
}

/// Receives the next message, and never blocks.
pub(super) fn receive(socket: &OwnedFd) -> CmReceived {
    let mut message = CmMessage::new_zeroed();
    match net::recv(socket, message.as_mut_bytes(), RecvFlags::DONTWAIT) {
        Ok((_, got)) if got == size_of::<CmMessage>() => CmReceived::Message(Box::new(message)),
        Err(Errno::AGAIN | Errno::INTR) => CmReceived::Nothing,
        Ok(_) | Err(_) => CmReceived::End,
    }
}
