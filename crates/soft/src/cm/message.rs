//! What two processes say to each other of a connection: the messages of the IB specification's communication management
//! (vol. 1, chapter 12), one of a SOCK_SEQPACKET socket each. The socket is the connection: who closes it leaves it.

use doorbell_abi::cm::{Address, rdma_ucm_conn_param};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
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
pub(super) struct Message {
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

impl Message {
    pub(super) fn new(kind: u32) -> Message {
        Message { kind, ..Message::new_zeroed() }
    }
}

/// Sends a message. Never blocks.
pub(super) fn send(socket: &OwnedFd, message: &Message) -> io::Result<()> {
    let bytes = message.as_bytes();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: bytes that live.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What a socket has.
#[derive(Debug)]
pub(super) enum Received {
    Message(Box<Message>),
    Nothing,
    /// The other side has left, or says what is no message.
    End,
}

/// Takes the next message. Never blocks.
pub(super) fn receive(socket: &OwnedFd) -> Received {
    let mut message = Message::new_zeroed();
    let bytes = message.as_mut_bytes();
    // SAFETY: room for as many bytes; any are a message.
    let got =
        unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) };
    match usize::try_from(got) {
        Ok(got) if got == size_of::<Message>() => Received::Message(Box::new(message)),
        Ok(_) => Received::End,
        Err(_) => match io::Error::last_os_error().kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Received::Nothing,
            _ => Received::End,
        },
    }
}
