//! Proxies: front-ends of one machine that post lists for each other. A front-end posts the lists of its
//! machine's other front-ends for areas at its own socket.
//!
//! - A proxy is a front-end of the same machine at another socket. The asking front-end hands a list to the
//!   proxy by a queue in shared memory ([`Neighbours`]). The proxy posts the list, and the proxy's NIC reads
//!   and writes the scratch memory of the asking front-end.
//! - If the machine has no front-end at a socket, the asking front-end has a QP of its own to that socket.
//! - With path `proxy`, every front-end serves as proxy besides its own work. It goes on after its own work,
//!   in `FrontEnd::serve`. It stops when `FrontEnd::run` has returned in all front-ends of its machine. It
//!   stops in any case one second after the end of its interval (the time in which it may begin operations).
//! - A proxy that fails reports its error to the front-ends that ask it, and they end with this error. A
//!   proxy that hangs answers nothing.

use super::config::Hashtable;
use super::request::{AskedList, OpSlot};
use super::scratch;
use crate::device::Device;
use crate::proxy::Path;
use crate::proxy::channel::Channel;
use crate::site::{Dress, Site, SiteError};
use crate::{Record, SystemError};
use doorbell_verbs::{AccessFlags, Cluster, Mem, Mr, PageSize, Provider, WcStatus};
use std::cell::Cell;

/// The memory that a front-end shares with other front-ends of its machine. All fields are empty if
/// front-ends use no proxies.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    /// The scratch memory of the front-end's operations. The NICs of its proxies read and write this memory.
    pub(super) scratch: Option<Mem>,
    /// For each socket: the channel to the front-end's proxy at this socket. `None` for the front-end's own
    /// socket, and for a socket without a proxy.
    to: Vec<Option<Channel>>,
    /// For each front-end that this one serves as proxy: the channel from it, and its scratch memory.
    from: Vec<(Channel, Mem)>,
    /// A counter of the front-ends of the machine that are done, and the number of all front-ends of the
    /// machine.
    done: Option<(Mem, u32)>,
}

/// Slots of a channel. Each operation has one slot, because it has at most one list posted. The last slot is
/// for the report that the proxy has failed.
fn slots(operations: u32) -> u64 {
    u64::from(operations) + 1
}

/// Allocates the memory that each front-end shares.
///
/// # Errors
/// If a machine has no more memory.
pub(super) fn put_up<C: Cluster, R: Record, D: Dress>(
    site: &mut Site<'_, C, R, D>,
    config: &Hashtable,
) -> Result<Vec<Neighbours>, SiteError> {
    let clients = config.clients.clients;
    let mut all = vec![Neighbours::default(); clients as usize];
    if config.path != Path::Proxy {
        return Ok(all);
    }
    let slots = slots(config.operations());
    let (requests, results) = Channel::bytes(slots, 0);
    for client in 0..clients {
        let at = config.place(client);
        all[client as usize].scratch = Some(site.alloc_near(at, scratch::all_bytes(config))?);
        all[client as usize].to = vec![None; config.sockets as usize];
        let (first, mates) = config.mates(client);
        if client == first {
            let done = site.cluster().alloc(at.0, 64, PageSize::Small)?;
            (0..mates).for_each(|mate| all[(client + mate) as usize].done = Some((done, mates)));
        }
    }
    for client in 0..clients {
        let Some(scratch) = all[client as usize].scratch else { continue };
        for socket in (0..config.sockets).filter(|socket| *socket != config.socket(client)) {
            let Some(proxy) = config.proxy(client, socket) else { continue };
            // The memory is near the proxy, because the proxy polls it all the time.
            let at = config.place(proxy);
            let memory = (site.alloc_near(at, requests)?, site.alloc_near(at, results)?);
            let channel = Channel::new(memory, slots, 0);
            all[client as usize].to[socket as usize] = Some(channel);
            all[proxy as usize].from.push((channel, scratch));
        }
    }
    Ok(all)
}

/// The word by which a proxy reports that a list has completed with this status.
fn told(status: WcStatus) -> u64 {
    1 + status as u64
}

fn status(told: u64) -> WcStatus {
    const ALL: [WcStatus; 5] = [
        WcStatus::Success,
        WcStatus::WrFlushErr,
        WcStatus::RemAccessErr,
        WcStatus::RemOpErr,
        WcStatus::RetryExcErr,
    ];
    ALL.into_iter().find(|status| self::told(*status) == told).unwrap_or(WcStatus::GeneralErr)
}

/// A front-end that this front-end serves as proxy.
pub(super) struct ListAsker<P: Provider> {
    channel: Channel,
    pub(super) scratch: Mr<P>,
    /// Number of lists that were taken from the channel.
    taken: Cell<u64>,
    /// For each operation of that front-end, whether it has a list that is not answered yet.
    waits: Vec<Cell<bool>>,
}

/// The channels of a front-end: to its proxies, and from the front-ends that it serves.
pub(super) struct Channels<P: Provider> {
    cpu: P,
    to: Vec<Option<Channel>>,
    /// Number of lists that were handed to each proxy.
    asked: Vec<Cell<u64>>,
    /// For each operation, the socket of the proxy that has its list.
    waits: Vec<Cell<Option<u32>>>,
    pub(super) askers: Vec<ListAsker<P>>,
    done: Option<(Mem, u32)>,
}

impl<P: Provider> Channels<P> {
    pub(super) fn new(
        device: &Device<P>,
        neighbours: Neighbours,
        operations: u32,
    ) -> Result<Channels<P>, SystemError> {
        let Neighbours { to, from, done, .. } = neighbours;
        let asker = |(channel, scratch)| {
            let scratch = device.register(scratch, AccessFlags::LOCAL_WRITE)?;
            let waits = (0..operations).map(|_| Cell::new(false)).collect();
            Ok(ListAsker { channel, scratch, taken: Cell::new(0), waits })
        };
        Ok(Channels {
            cpu: device.cpu.clone(),
            asked: to.iter().map(|_| Cell::new(0)).collect(),
            to,
            waits: (0..operations).map(|_| Cell::new(None)).collect(),
            askers: from.into_iter().map(asker).collect::<Result<_, SystemError>>()?,
            done,
        })
    }

    /// Asks the proxy at a socket to post a list.
    pub(super) fn ask(&self, socket: u32, asked: AskedList) -> Result<(), SystemError> {
        let Some(channel) = self.to[socket as usize] else {
            return SystemError::config(format!("a front-end has no proxy for socket {socket}"));
        };
        let number = &self.asked[socket as usize];
        channel.ask(&self.cpu, number.get(), &asked.to_words());
        number.set(number.get() + 1);
        self.waits[asked.slot.0 as usize].set(Some(socket));
        Ok(())
    }

    /// Adds to `into` the operations whose lists the proxies have reported as completed.
    ///
    /// # Errors
    /// If a list or its proxy has failed.
    pub(super) fn completed(&self, into: &mut Vec<OpSlot>) -> Result<(), SystemError> {
        for (slot, waits) in (0..).zip(&self.waits) {
            let Some(channel) = waits.get().and_then(|socket| self.to[socket as usize]) else { continue };
            let mut told = channel.told(&self.cpu, slot);
            if told == 0 {
                told = channel.told(&self.cpu, self.waits.len() as u64);
                if told == 0 {
                    continue;
                }
            }
            match status(told) {
                WcStatus::Success => {}
                status => return Err(SystemError::Completion(status)),
            }
            channel.tell(&self.cpu, slot, 0);
            waits.set(None);
            into.push(OpSlot(slot as u32));
        }
        Ok(())
    }

    /// Takes the next list from the channel of a front-end; `None` if there is none.
    pub(super) fn next(&self, asker: &ListAsker<P>) -> Result<Option<AskedList>, SystemError> {
        let number = asker.taken.get();
        let Some(words) = asker.channel.asked(&self.cpu, number) else { return Ok(None) };
        asker.taken.set(number + 1);
        // The words come from another thread of this machine and may be wrong.
        let asked = AskedList::of_words(words);
        let waits = asked.and_then(|asked| asker.waits.get(asked.slot.0 as usize));
        waits.inspect(|waits| waits.set(true));
        asked.filter(|_| waits.is_some()).map(Some).ok_or_else(|| {
            SystemError::Protocol(format!("a front-end's request to its proxy is not valid: {words:?}"))
        })
    }

    /// Reports the status of a completed list to the front-end that asked for it, unless the list was
    /// answered before. Returns whether it reported.
    pub(super) fn answer(&self, asker: usize, slot: OpSlot, status: WcStatus) -> bool {
        let Some(asker) = self.askers.get(asker) else { return false };
        let waits = asker.waits.get(slot.0 as usize).is_some_and(|waits| waits.replace(false));
        if waits {
            asker.channel.tell(&self.cpu, slot.0.into(), told(status));
        }
        waits
    }

    /// Counts this front-end as done: it asks for no more lists. If it has failed, reports the status to the
    /// front-ends that it serves, because they would wait for ever.
    pub(super) fn leave(&self, failed: Option<WcStatus>) {
        if let Some(status) = failed {
            let gone = self.waits.len() as u64;
            self.askers.iter().for_each(|asker| asker.channel.tell(&self.cpu, gone, told(status)));
        }
        if let Some((done, _)) = self.done {
            self.cpu.fetch_add_u64(done, 0, 1);
        }
    }

    /// Whether all front-ends of the machine are done.
    pub(super) fn all_are_done(&self) -> bool {
        self.done.is_none_or(|(done, mates)| self.cpu.load_u64(done, 0) >= u64::from(mates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_ended_comes_back() {
        for ended in [WcStatus::Success, WcStatus::RetryExcErr, WcStatus::WrFlushErr] {
            assert_eq!(status(told(ended)), ended);
        }
        assert_eq!(status(told(WcStatus::LocLenErr)), WcStatus::GeneralErr);
    }
}
