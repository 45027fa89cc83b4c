//! What two processes say to each other of a connection: the messages of the IB specification's communication management
//! (vol. 1, chapter 12), one of a SOCK_SEQPACKET socket each. The socket is the connection: who closes it leaves it.

use doorbell_abi::cm::{Address, rdma_ucm_conn_param};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};
use std::io;
use std::os::fd::OwnedFd;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// What a message is.
pub(super) mod kind {
    pub(in super::super) const REQ: u32 = 1;
    pub(in super::super) const REP: u32 = 2;
    pub(in super::super) const RTU: u32 = 3;
    pub(in super::super) const REJ: u32 = 4;
    pub(in super::super) const DREQ: u32 = 5;
    pub(in super::super) const DREP: u32 = 6;
}

/// A message. What it does not need is zero. Of UD, REQ and REP are the specification's SIDR_REQ and SIDR_REP.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
pub(super) struct CmMessage {
    pub(super) kind: u32,
    /// Of a REJ its reason, of a SIDR_REP its status.
    pub(super) reason: u32,
    /// The first PSN of who sends it.
    pub(super) psn: u32,
    /// Where it comes from and goes to.
    pub(super) from: Address,
    pub(super) to: Address,
    /// As who sends it has it.
    pub(super) param: rdma_ucm_conn_param,
}

impl CmMessage {
    pub(super) fn new(kind: u32) -> CmMessage {
        CmMessage { kind, ..CmMessage::new_zeroed() }
    }
}

/// Sends a message. Never blocks.
pub(super) fn send(socket: &OwnedFd, message: &CmMessage) -> io::Result<()> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(net::send(socket, message.as_bytes(), flags).map(drop)?)
}

/// What a socket has.
#[derive(Debug)]
pub(super) enum CmReceived {
    Message(Box<CmMessage>),
    Nothing,
    /// The other side has left, or says what is no message.
    End,
}

/// Takes the next message. Never blocks.
pub(super) fn receive(socket: &OwnedFd) -> CmReceived {
    let mut message = CmMessage::new_zeroed();
    match net::recv(socket, message.as_mut_bytes(), RecvFlags::DONTWAIT) {
        Ok((_, got)) if got == size_of::<CmMessage>() => CmReceived::Message(Box::new(message)),
        Err(Errno::AGAIN | Errno::INTR) => CmReceived::Nothing,
        Ok(_) | Err(_) => CmReceived::End,
    }
}
