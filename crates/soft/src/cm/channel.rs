//! A channel (`struct rdma_event_channel`): the events that a program has not fetched yet, and a descriptor
//! that is readable while the channel has events.

use crate::descriptors::Private;
use crate::fabric::progress::wait_for;
use doorbell_abi::cm::rdma_ucm_event_resp;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::{read, write};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

/// An event of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChannelEvent {
    /// The id or group membership whose `events_reported` counts the event. For a CONNECT_REQUEST this is the
    /// listener.
    pub(super) of: u32,
    pub(super) told: rdma_ucm_event_resp,
}

#[derive(Debug)]
pub(super) struct Channel {
    events: VecDeque<ChannelEvent>,
    /// An eventfd that counts the events.
    count: Private,
}

impl Channel {
    /// Creates a channel and its descriptor. The descriptor is an epoll(7) instance that waits for the
    /// counter. It can be polled, but no process that gets the descriptor can read or write it.
    pub(super) fn new() -> io::Result<(Channel, OwnedFd)> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK;
        let count = Private::new(eventfd(0, flags)?)?;
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        wait_for(&fd, count.get(), 0)?;
        Ok((Channel { events: VecDeque::new(), count }, fd))
    }

    pub(super) fn push(&mut self, event: ChannelEvent) {
        self.events.push_back(event);
        // The write fails only with 2^64 - 2 events in the channel.
        let _ = write(self.count.get(), &1u64.to_ne_bytes());
    }

    pub(super) fn pop(&mut self) -> Option<ChannelEvent> {
        let event = self.events.pop_front()?;
        self.uncount();
        Some(event)
    }

    /// Subtracts one event from the counter.
    fn uncount(&self) {
        // The read does not fail, because the counter equals the number of events.
        let _ = read(self.count.get(), &mut [0; 8]);
    }

    /// Removes and returns the events that the id or group membership `of` counts.
    pub(super) fn take(&mut self, of: u32) -> Vec<ChannelEvent> {
        let (taken, kept): (Vec<_>, _) = self.events.drain(..).partition(|event| event.of == of);
        self.events = kept.into();
        taken.iter().for_each(|_| self.uncount());
        taken
    }
}
