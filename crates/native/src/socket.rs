//! A TCP socket of the kernel.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A socket, closed when it is dropped.
pub(crate) enum Socket {
    Listener(OwnedFd),
    Stream(OwnedFd),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Listener(fd) | Socket::Stream(fd) => fd.as_fd(),
        }
    }
}
