//! A channel (`struct rdma_event_channel`): the events that a program has not got yet, and the descriptor that is readable as
//! long as there are any.

use crate::descriptors::Private;
use crate::fabric::wire::opened;
use doorbell_abi::cm::rdma_ucm_event_resp;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// An event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// The id that it is of, on which it is counted. Of a CONNECT_REQUEST that is the listener.
    pub(super) of: u32,
    pub(super) told: rdma_ucm_event_resp,
}

#[derive(Debug)]
pub(super) struct Channel {
    events: VecDeque<Event>,
    /// Counts the events. A copy of the program's descriptor, which may close its own at any time.
    count: Private,
}

impl Channel {
    /// A channel, and its descriptor.
    pub(super) fn new() -> io::Result<(Channel, OwnedFd)> {
        // SAFETY: a new file descriptor or -1.
        let fd = opened(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) })?;
        let count = Private::new(fd.try_clone()?)?;
        Ok((Channel { events: VecDeque::new(), count }, fd))
    }

    pub(super) fn push(&mut self, event: Event) {
        self.events.push_back(event);
        let one = 1u64.to_ne_bytes();
        // SAFETY: bytes that live. It never blocks: there are not 2^64 events.
        unsafe { libc::write(self.count.get().as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.uncount();
        Some(event)
    }

    /// One event less.
    fn uncount(&self) {
        let fd = self.count.get().as_raw_fd();
        let mut ready = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut one = [0u8; 8];
        // SAFETY: one entry; room for what is read. It is not read where it would block: a program may have read it by a system
        // call of its own.
        unsafe {
            if libc::poll(&mut ready, 1, 0) == 1 {
                libc::read(fd, one.as_mut_ptr().cast(), one.len());
            }
        }
    }

    /// Takes out the events of an id.
    pub(super) fn take(&mut self, of: u32) -> Vec<Event> {
        let (taken, kept): (Vec<_>, _) = self.events.drain(..).partition(|event| event.of == of);
        self.events = kept.into();
        taken.iter().for_each(|_| self.uncount());
        taken
    }
}
