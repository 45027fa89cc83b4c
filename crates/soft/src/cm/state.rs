//! The channels and ids of this process, under one lock.

use super::address::Host;
use super::causes::{CM_FD, CM_ID, CM_ID_CHANNEL, CM_LEAVE};
use super::channel::{Channel, ChannelEvent};
use super::claims::Claims;
use super::id::{Id, Space};
use super::multicast::JoinedGroup;
use crate::descriptors::Private;
use crate::errno::{EINVAL, Errno};
use crate::fabric::process::Process;
use crate::fabric::progress::wait_for;
use crate::sync::Anew;
use doorbell_abi::cm::rdma_ucm_event_resp;
use doorbell_transport::Refused;
use rustix::event::{EventfdFlags, epoll, eventfd};
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::RawFd;

/// The epoll(7) data of the event that wakes the thread. The data of a socket's event is the number of the
/// socket's id.
pub(super) const WAKE: u64 = u64::MAX;
/// Number of PSNs, which have 24 bits.
const PSNS: u64 = 1 << 24;

pub(super) static STATE: Anew<CmState> = Anew::new(CmState::new());

#[derive(Debug)]
pub(super) struct CmState {
    /// The channel of each descriptor. Copies of a descriptor have one channel.
    channel_of: BTreeMap<RawFd, u32>,
    channels: BTreeMap<u32, Channel>,
    ids: BTreeMap<u32, Id>,
    groups: BTreeMap<u32, JoinedGroup>,
    pub(super) claims: Claims,
    /// Last number that was given to a channel, an id or a group membership. Numbers are never reused.
    last: u32,
    /// The descriptors of the thread, if it runs.
    pub(super) waits: Option<Waits>,
    /// The file that announces this process's host.
    host: Option<File>,
}

/// The epoll(7) instance on which the thread waits, and the eventfd that wakes the thread.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) all: Private,
    pub(super) wake: Private,
}

impl Waits {
    pub(super) fn new() -> io::Result<Waits> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let waits = Waits { all: Private::new(all)?, wake: Private::new(wake)? };
        waits.add(&waits.wake, WAKE)?;
        Ok(waits)
    }

    fn add(&self, socket: &Private, name: u64) -> io::Result<()> {
        wait_for(self.all.get(), socket.get(), name)
    }

    /// Wakes the thread.
    fn wake(&self) {
        // The write fails if the counter is full, but then the thread wakes anyway.
        let _ = rustix::io::write(self.wake.get(), &1u64.to_ne_bytes());
    }
}

impl Default for CmState {
    fn default() -> CmState {
        CmState::new()
    }
}

impl CmState {
    const fn new() -> CmState {
        CmState {
            channel_of: BTreeMap::new(),
            channels: BTreeMap::new(),
            ids: BTreeMap::new(),
            groups: BTreeMap::new(),
            claims: Claims::new(),
            last: 0,
            waits: None,
            host: None,
        }
    }

    fn next(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// The fabric's folder. The first call announces this process's host.
    pub(super) fn folder(&mut self) -> Result<&'static File, Errno> {
        let folder = Process::current()?.folder();
        if self.host.is_none() {
            self.host = Host::own().announce(folder)?;
        }
        Ok(folder)
    }

    pub(super) fn add_channel(&mut self, fd: RawFd, channel: Channel) {
        let number = self.next();
        self.channels.insert(number, channel);
        self.channel_of.insert(fd, number);
    }

    /// The channel of a descriptor.
    ///
    /// # Errors
    /// `ENODEV` if the descriptor is none of this process's channels, for example because it was inherited by
    /// fork(2).
    pub(super) fn channel_of(&self, fd: RawFd) -> Result<u32, Refused> {
        self.channel_of.get(&fd).copied().ok_or_else(|| CM_FD.bare())
    }

    pub(super) fn channel(&mut self, number: u32) -> Option<&mut Channel> {
        self.channels.get_mut(&number)
    }

    /// Registers another descriptor of a channel.
    pub(super) fn copy(&mut self, from: RawFd, to: RawFd) {
        if let Some(number) = self.channel_of.get(&from).copied() {
            self.channel_of.insert(to, number);
        }
    }

    /// Forgets a descriptor of a channel. With the last descriptor, the channel and all its ids are removed.
    pub(super) fn close(&mut self, fd: RawFd) {
        let Some(number) = self.channel_of.remove(&fd) else { return };
        if self.channel_of.values().any(|other| *other == number) {
            return;
        }
        let of_it = |(name, id): (&u32, &Id)| (id.channel == number).then_some(*name);
        let gone: Vec<u32> = self.ids.iter().filter_map(of_it).collect();
        for id in gone {
            self.remove(id);
        }
        self.channels.remove(&number);
    }

    /// Adds an id to a channel; returns the id's number.
    pub(super) fn add(&mut self, uid: u64, channel: u32, (space, qp_type): (Space, u8)) -> u32 {
        let name = self.next();
        let psn = RandomState::new().hash_one(name) % PSNS;
        self.ids.insert(name, Id::new(uid, channel, space, qp_type, psn as u32));
        name
    }

    /// Removes an id and ends its connection. Returns how many of its events the program has fetched.
    pub(super) fn remove(&mut self, name: u32) -> u32 {
        let Some(id) = self.ids.remove(&name) else { return 0 };
        self.claims.give_up(name);
        for group in self.groups_of(name) {
            self.groups.remove(&group);
            self.channels.get_mut(&id.channel).map(|channel| channel.take(group));
        }
        let events = self.channels.get_mut(&id.channel).map(|channel| channel.take(name));
        // For a listener, some events are connection requests that the program has not fetched. Their ids are
        // removed too.
        for event in events.into_iter().flatten().filter(|event| event.told.id != name) {
            self.ids.remove(&event.told.id);
        }
        let of_it = |step| step == super::id::IdStep::Arriving { listener: name };
        self.ids.retain(|_, id| !of_it(id.step));
        id.events_reported
    }

    fn groups_of(&self, name: u32) -> Vec<u32> {
        self.groups.iter().filter(|(_, group)| group.of == name).map(|(name, _)| *name).collect()
    }

    /// Records that an id has joined a group; returns the number of the membership.
    pub(super) fn join(&mut self, group: JoinedGroup) -> u32 {
        let name = self.next();
        self.groups.insert(name, group);
        name
    }

    /// Ends a group membership. Returns how many of its events the program has fetched.
    ///
    /// # Errors
    /// As [`CmState::id`].
    pub(super) fn leave(&mut self, channel: u32, name: u32) -> Result<u32, Refused> {
        let group = self.groups.get(&name).copied().ok_or_else(|| CM_LEAVE.bare())?;
        self.id(channel, group.of)?;
        self.groups.remove(&name);
        self.channels.get_mut(&channel).map(|channel| channel.take(name));
        Ok(group.events_reported)
    }

    /// Counts an event that the program has fetched. `of` is an id or a group membership.
    pub(super) fn count(&mut self, of: u32) {
        let id = self.ids.get_mut(&of).map(|id| &mut id.events_reported);
        let counted = id.or_else(|| self.groups.get_mut(&of).map(|group| &mut group.events_reported));
        if let Some(reported) = counted {
            *reported += 1;
        }
    }

    /// The id with number `name`, which must belong to this channel.
    ///
    /// # Errors
    /// `ENOENT` if the id does not exist, `EINVAL` if it belongs to another channel.
    pub(super) fn id(&mut self, channel: u32, name: u32) -> Result<&mut Id, Refused> {
        match self.ids.get_mut(&name) {
            None => Err(CM_ID.bare()),
            Some(id) if id.channel != channel => Err(CM_ID_CHANNEL.bare()),
            Some(id) => Ok(id),
        }
    }

    /// The id with number `name`, of any channel.
    pub(super) fn any(&mut self, name: u32) -> Option<&mut Id> {
        self.ids.get_mut(&name)
    }

    pub(super) fn all(&mut self) -> impl Iterator<Item = (u32, &mut Id)> {
        self.ids.iter_mut().map(|(name, id)| (*name, id))
    }

    /// Sets an id's socket, which the thread then waits for.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub(super) fn watch(&mut self, name: u32, socket: Private) -> Result<(), Errno> {
        let waits = self.waits.as_ref().ok_or(EINVAL)?;
        waits.add(&socket, name.into())?;
        if let Some(id) = self.ids.get_mut(&name) {
            id.socket = Some(socket);
        }
        Ok(())
    }

    /// Wakes the thread, so that the thread computes its next deadline again.
    pub(super) fn wake(&self) {
        if let Some(waits) = &self.waits {
            waits.wake();
        }
    }

    /// Appends an event of an id, with its parameters, to the id's channel.
    pub(super) fn tell(&mut self, name: u32, event: u32, status: i32, param: &[u8]) {
        let Some(id) = self.ids.get(&name) else { return };
        // As in the kernel, an id has no events before the program has given it a `uid`.
        if id.uid != 0 {
            let (uid, channel) = (id.uid, id.channel);
            self.push(channel, name, (uid, name), (event, status, param));
        }
    }

    /// Appends an event to a channel. `of` is the id or group membership that counts the event. The event
    /// reports `(uid, id)` to the program.
    pub(super) fn push(
        &mut self,
        channel: u32,
        of: u32,
        (uid, id): (u64, u32),
        (event, status, param): (u32, i32, &[u8]),
    ) {
        let mut told = rdma_ucm_event_resp { uid, id, event, status: status as u32, ..Default::default() };
        told.param[..param.len()].copy_from_slice(param);
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.push(ChannelEvent { of, told });
        }
    }

    /// Moves an id with its events to another channel. Returns how many of its events the program has
    /// fetched.
    ///
    /// # Errors
    /// As [`CmState::id`].
    pub(super) fn migrate(&mut self, from: u32, to: u32, name: u32) -> Result<u32, Refused> {
        let id = self.id(from, name)?;
        id.channel = to;
        let reported = id.events_reported;
        let (groups, mut events) = (self.groups_of(name), Vec::new());
        if let Some(channel) = self.channels.get_mut(&from) {
            events.extend(channel.take(name));
            events.extend(groups.into_iter().flat_map(|group| channel.take(group)));
        }
        for event in events {
            if let Some(asks) = self.ids.get_mut(&event.told.id) {
                asks.channel = to;
            }
            if let Some(channel) = self.channels.get_mut(&to) {
                channel.push(event);
            }
        }
        Ok(reported)
    }

    /// Removes the paths of all listening sockets, because the process is about to exit.
    pub(super) fn forget_names(&mut self) {
        self.ids.values_mut().for_each(|id| id.named = None);
    }
}
