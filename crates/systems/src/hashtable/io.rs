//! The connections of a front-end, and the scratch memory that its requests read and write. The module
//! [`super`] defines the terms.
//!
//! # Paths to an area
//! All atomics on a word have to go through one NIC, because the atomics of two NICs are not atomic to each
//! other (IBV_ATOMIC_HCA). A front-end reaches an area by one of three paths:
//! - `direct`: the front-end has a QP to the NIC of each socket of each back-end.
//! - `home`: the front-end has a QP to one port of each back-end. This is for machines with one NIC.
//! - `proxy` (the paper's): the front-end has one QP to each back-end, to the socket with the number of the
//!   front-end's own socket. Proxies post its lists for other sockets (`neighbours.rs`).

use super::config::Hashtable;
use super::neighbours::{Channels, Neighbours};
use super::request::{AreaRequest, AskedList, OpSlot};
use super::scratch::{self, ScratchPart};
use super::table::TableLayout;
use crate::device::{Device, check};
use crate::ends::{SocketEnd, memory};
use crate::proxy::Path;
use crate::random::Random;
use crate::{SystemError, work};
use doorbell_verbs::{
    AccessFlags, Cq, Mr, Provider, Qp, QpCap, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Time, Wc, WcStatus,
};
use std::cell::Cell;

/// Largest number of work requests of a list.
const LIST: u32 = 2;

/// The name under which a back-end publishes its services.
pub(super) fn service(back_end: u32) -> String {
    format!("hashtable/{back_end}")
}

/// How requests reach an area.
#[derive(Clone, Copy, Debug)]
enum AreaWay {
    /// By the QP with this index. The area begins at this address.
    Qp(usize, RemoteAddr),
    /// By the proxy at this socket.
    Proxy(u32),
}

/// Flag in the `wr_id` of a list that was posted for another front-end. The `wr_id` also has the index of the
/// asking front-end, from bit `ASKER` on.
const FOR_OTHERS: u64 = 1 << 63;
const ASKER: u32 = 32;

/// The connections of a front-end, and its memory.
pub(super) struct Io<P: Provider> {
    pub(super) cpu: P,
    cq: Cq<P>,
    pub(super) random: Random,
    pub(super) table: TableLayout,
    /// How requests reach each area.
    ways: Vec<AreaWay>,
    qps: Vec<Qp<P>>,
    scratch: Mr<P>,
    /// Bytes of an operation's scratch.
    each: u64,
    inline: u32,
    channels: Channels<P>,
    /// `most_served`: most lists that may be posted for other front-ends at a time. `served`: how many are
    /// posted now.
    most_served: u32,
    served: Cell<u32>,
    /// The device of the front-end's socket. All memory is registered with this device.
    pub(super) device: Device<P>,
}

impl<P: Provider> Io<P> {
    /// Connects front-end `number` with the back-ends.
    pub(super) fn open(
        cpu: &P,
        config: &Hashtable,
        number: u32,
        neighbours: Neighbours,
    ) -> Result<Io<P>, SystemError> {
        let (table, operations) = (config.table(), config.operations());
        let socket = config.socket(number);
        if config.path == Path::Home && cpu.num_devices() > 1 {
            return SystemError::config(
                "path is home, but a machine has several devices, and their atomics are not atomic to each \
                 other: use direct",
            );
        }
        let end = SocketEnd::open(cpu, socket)?;
        let (own, channels) = (neighbours.scratch, Channels::new(&end.device, neighbours, operations)?);
        // The QPs also carry the lists of other front-ends: all that these can ask for at a time, or as many
        // as fit.
        let asked = operations.saturating_mul(channels.askers.len() as u32);
        let lists = operations.saturating_add(asked).min(end.device.attr.max_qp_wr / LIST).max(operations);
        // If a back-end is gone, each work request completes. A CQ that overruns would hide the reason.
        let cq = end.device.context.create_cq(LIST * lists)?;
        let inline = end.device.inline(table.entry() as u32);
        let cap =
            QpCap { max_send_wr: LIST * lists, max_recv_wr: 1, max_inline_data: inline, ..QpCap::default() };
        let (mut qps, mut ways) = (Vec::new(), Vec::new());
        for back_end in 0..config.back_ends {
            let service = service(back_end);
            let first = qps.len();
            let ends = config.ends(number);
            for to in &ends {
                qps.push(end.reach(&cq, (&service, number, *to), cap)?);
            }
            for to in 0..config.sockets {
                ways.push(match ends.iter().position(|end| *end == to) {
                    None if config.path == Path::Proxy => AreaWay::Proxy(to),
                    // The QP to that socket, or else the only QP to the back-end.
                    nth => {
                        let nth = nth.unwrap_or(0);
                        AreaWay::Qp(first + nth, memory(cpu, &service, ends[nth], to)?)
                    }
                });
            }
        }
        let (each, device) = (scratch::bytes(&table), end.device);
        let scratch = match own {
            Some(memory) => device.register(memory, AccessFlags::LOCAL_WRITE)?,
            None => device.registered(scratch::all_bytes(config), AccessFlags::LOCAL_WRITE)?,
        };
        Ok(Io {
            cpu: cpu.clone(),
            cq,
            random: Random::new(config.timing.seed, u64::from(number)),
            table,
            ways,
            qps,
            scratch,
            each,
            inline,
            channels,
            most_served: lists - operations,
            served: Cell::new(0),
            device,
        })
    }

    /// The offset of a part of an operation's scratch.
    fn at(&self, slot: OpSlot, part: ScratchPart) -> u64 {
        u64::from(slot.0) * self.each + part.at(&self.table)
    }

    /// Posts a list of requests to an area. Only the last request is signalled. Returns the time of the post.
    pub(super) fn post<const N: usize>(
        &self,
        slot: OpSlot,
        area: u32,
        requests: [AreaRequest; N],
    ) -> Result<Time, SystemError> {
        self.cpu.work(work::REQUEST);
        let now = self.cpu.now();
        match self.ways[area as usize] {
            AreaWay::Qp(qp, remote) => {
                self.post_list((qp, remote), (&self.scratch, slot), slot.0.into(), requests)?
            }
            AreaWay::Proxy(socket) => {
                let (first, second) = (requests[0], requests.get(1).copied());
                self.channels.ask(socket, AskedList { slot, area, first, second })?;
            }
        }
        Ok(now)
    }

    /// Posts a list to a QP. Its requests move bytes between an operation's scratch and an area.
    fn post_list<const N: usize>(
        &self,
        (qp, remote): (usize, RemoteAddr),
        (scratch, slot): (&Mr<P>, OpSlot),
        wr_id: u64,
        requests: [AreaRequest; N],
    ) -> Result<(), SystemError> {
        let sges: [[Sge; 1]; N] = requests.map(|request| {
            let (part, bytes) = match request {
                AreaRequest::Read(_, part, bytes) | AreaRequest::Write(_, part, bytes) => (part, bytes),
                AreaRequest::Add(..) | AreaRequest::Swap { .. } => (ScratchPart::Answer, 8),
            };
            [scratch.sge(self.at(slot, part), bytes as u32)]
        });
        let list: [SendWr<'_>; N] = std::array::from_fn(|n| {
            let op = match requests[n] {
                AreaRequest::Read(at, ..) => SendOp::Read(remote.at(at)),
                AreaRequest::Write(at, ..) => SendOp::Write(remote.at(at)),
                AreaRequest::Add(at, add) => SendOp::FetchAdd { remote: remote.at(at), add },
                AreaRequest::Swap { at, compare, swap } => {
                    SendOp::CompareSwap { remote: remote.at(at), compare, swap }
                }
            };
            let wr = SendWr::new(wr_id, op, &sges[n]);
            let inline = matches!(op, SendOp::Write(_)) && sges[n][0].length <= self.inline;
            let flags = if inline { SendFlags::INLINE } else { SendFlags::empty() };
            wr.flags(if n + 1 == N { flags | SendFlags::SIGNALED } else { flags })
        });
        Ok(self.qps[qp].post_send(&list)?)
    }

    /// Adds the operations whose list has completed to `into`. Tells other front-ends that their lists have
    /// completed. Returns whether anything had completed.
    ///
    /// # Errors
    /// If a list of this front-end has failed, or the proxy that has the list has failed.
    pub(super) fn completed(&self, into: &mut Vec<OpSlot>) -> Result<bool, SystemError> {
        let mut wc = [Wc::default(); 16];
        let found = self.cq.poll(&mut wc)?.len();
        for wc in &wc[..found] {
            if wc.wr_id & FOR_OTHERS == 0 {
                check(wc)?;
                into.push(OpSlot(wc.wr_id as u32));
            } else {
                let asker = (wc.wr_id & !FOR_OTHERS) >> ASKER;
                // If a list fails, each of its requests completes, but only the first of these completions
                // counts.
                if self.channels.answer(asker as usize, OpSlot(wc.wr_id as u32), wc.status) {
                    self.served.set(self.served.get() - 1);
                }
            }
        }
        self.channels.completed(into)?;
        Ok(found > 0 || !into.is_empty())
    }

    /// Posts the lists that other front-ends ask for. Returns whether there were any.
    pub(super) fn serve(&self) -> Result<bool, SystemError> {
        let mut any = false;
        for (n, asker) in (0..).zip(&self.channels.askers) {
            while self.served.get() < self.most_served {
                let Some(AskedList { slot, area, first, second }) = self.channels.next(asker)? else { break };
                self.cpu.work(work::REQUEST);
                let Some(AreaWay::Qp(qp, remote)) = self.ways.get(area as usize).copied() else {
                    return Err(SystemError::Protocol(format!("a proxy has no QP to area {area}")));
                };
                let (to, of, wr_id) =
                    ((qp, remote), (&asker.scratch, slot), FOR_OTHERS | n << ASKER | u64::from(slot.0));
                match second {
                    Some(second) => self.post_list(to, of, wr_id, [first, second])?,
                    None => self.post_list(to, of, wr_id, [first])?,
                }
                self.served.set(self.served.get() + 1);
                any = true;
            }
        }
        Ok(any)
    }

    /// Tells the other front-ends that this front-end will ask for no more lists. If this front-end has
    /// failed, also tells the front-ends that it serves.
    pub(super) fn leave(&self, ended: &Result<(), SystemError>) {
        let failed = match ended {
            Ok(()) => None,
            Err(SystemError::Completion(status)) => Some(*status),
            Err(_) => Some(WcStatus::GeneralErr),
        };
        self.channels.leave(failed);
    }

    /// Whether all front-ends of the machine have called [`Io::leave`].
    pub(super) fn all_are_done(&self) -> bool {
        self.channels.all_are_done()
    }

    /// Loads a word of a scratch part.
    pub(super) fn word(&self, slot: OpSlot, part: ScratchPart, at: u64) -> u64 {
        self.cpu.load_u64(self.scratch.mem(), self.at(slot, part) + at)
    }

    /// Reads bytes of a scratch part.
    pub(super) fn read(&self, slot: OpSlot, part: ScratchPart, at: u64, into: &mut [u8]) {
        self.cpu.read(self.scratch.mem(), self.at(slot, part) + at, into);
    }

    /// Writes bytes into a scratch part.
    pub(super) fn write(&self, slot: OpSlot, part: ScratchPart, at: u64, bytes: &[u8]) {
        self.cpu.write(self.scratch.mem(), self.at(slot, part) + at, bytes);
    }
}
