//! What a front-end posts, and where its bytes are.

use super::config::Hashtable;
use super::neighbours::{Asked, Channels, Neighbours};
use super::table::Table;
use crate::device::{Device, check};
use crate::ends::{End, memory};
use crate::proxy::Path;
use crate::random::Random;
use crate::{SystemError, work};
use doorbell_verbs::{
    AccessFlags, Cq, Mr, Provider, Qp, QpCap, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Time, Wc, WcStatus,
};
use std::cell::Cell;

/// Work requests of a list at most.
const LIST: u32 = 2;

/// Where in its scratch an operation has the answer of an atomic.
const ANSWER: u64 = 0;
/// A word that it WRITEs.
const WORD: u64 = 8;
/// The head of a record; what follows is behind it.
const HEAD: u64 = 64;

/// What is published of a back-end is below this.
pub(super) fn service(back_end: u32) -> String {
    format!("hashtable/{back_end}")
}

/// What an operation has of its own: a number, which completions name, and scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u32);

/// A part of an operation's scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Answer,
    Word,
    Head,
    /// Slots of a record, or a block.
    Body,
    /// An entry that it WRITEs.
    Entry,
}

impl Part {
    /// The part of a number.
    pub(super) fn of(number: u64) -> Option<Part> {
        let all = [Part::Answer, Part::Word, Part::Head, Part::Body, Part::Entry];
        all.into_iter().find(|part| *part as u64 == number)
    }
}

/// One work request of an operation: what goes between its scratch and an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Read(u64, Part, u64),
    Write(u64, Part, u64),
    Add(u64, u64),
    Swap { at: u64, compare: u64, swap: u64 },
}

/// A way to an area.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// By this QP, to where the area begins.
    Qp(usize, RemoteAddr),
    /// By the proxy for this socket.
    Proxy(u32),
}

/// Bytes of an operation's scratch.
fn scratch(table: &Table) -> u64 {
    let body = table.block().max(table.slots_bytes());
    (HEAD + table.slots() + body + table.entry()).next_multiple_of(64)
}

/// Bytes of the scratch of all operations of a front-end.
pub(super) fn scratch_bytes(config: &Hashtable) -> u64 {
    u64::from(config.operations()) * scratch(&config.table())
}

/// Of a `wr_id`: whether it names an operation of another, whose number among those is behind it.
const FOR_OTHERS: u64 = 1 << 63;
const ASKER: u32 = 32;

/// The connections of a front-end, and its memory.
pub(super) struct Io<P: Provider> {
    pub(super) cpu: P,
    cq: Cq<P>,
    pub(super) random: Random,
    pub(super) table: Table,
    /// To each area.
    ways: Vec<Way>,
    qps: Vec<Qp<P>>,
    scratch: Mr<P>,
    /// Bytes of each operation's.
    each: u64,
    inline: u32,
    channels: Channels<P>,
    /// Lists of others that may be posted at a time, and that are.
    most_served: u32,
    served: Cell<u32>,
    /// Of the device of its socket, on which all is registered.
    pub(super) device: Device<P>,
}

impl<P: Provider> Io<P> {
    /// Connects front-end `number`.
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
                "path is home, but a machine has several devices, whose atomics are not atomic to each other: use direct",
            );
        }
        let end = End::open(cpu, socket)?;
        let (own, channels) = (neighbours.scratch, Channels::new(&end.device, neighbours, operations)?);
        // Its own QPs have lists of others, too, as many as it is asked for or fit.
        let asked = operations.saturating_mul(channels.askers.len() as u32);
        let lists = operations.saturating_add(asked).min(end.device.attr.max_qp_wr / LIST).max(operations);
        // Where a back-end is gone, each work request completes: a CQ that is overrun does not say why.
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
                    None if config.path == Path::Proxy => Way::Proxy(to),
                    // By the QP to that socket, or by the only one.
                    nth => {
                        let nth = nth.unwrap_or(0);
                        Way::Qp(first + nth, memory(cpu, &service, ends[nth], to)?)
                    }
                });
            }
        }
        let (each, device) = (scratch(&table), end.device);
        let scratch = match own {
            Some(memory) => device.register(memory, AccessFlags::LOCAL_WRITE)?,
            None => device.registered(scratch_bytes(config), AccessFlags::LOCAL_WRITE)?,
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

    /// Where a part of an operation's scratch is.
    fn at(&self, slot: Slot, part: Part) -> u64 {
        let body = HEAD + self.table.slots();
        u64::from(slot.0) * self.each
            + match part {
                Part::Answer => ANSWER,
                Part::Word => WORD,
                Part::Head => HEAD,
                Part::Body => body,
                Part::Entry => self.each - self.table.entry(),
            }
    }

    /// Posts a list of requests to an area; the last one's completion tells of all.
    pub(super) fn post<const N: usize>(
        &self,
        slot: Slot,
        area: u32,
        requests: [Request; N],
    ) -> Result<Time, SystemError> {
        self.cpu.work(work::REQUEST);
        let now = self.cpu.now();
        match self.ways[area as usize] {
            Way::Qp(qp, remote) => {
                self.post_list((qp, remote), (&self.scratch, slot), slot.0.into(), requests)?
            }
            Way::Proxy(socket) => {
                let mut list = requests.into_iter().map(Some);
                let requests = [list.next().flatten(), list.next().flatten()];
                self.channels.ask(socket, Asked { slot, area, requests })?;
            }
        }
        Ok(now)
    }

    /// Posts a list by a QP, between an operation's scratch and an area.
    fn post_list<const N: usize>(
        &self,
        (qp, remote): (usize, RemoteAddr),
        (scratch, slot): (&Mr<P>, Slot),
        wr_id: u64,
        requests: [Request; N],
    ) -> Result<(), SystemError> {
        let sges: [[Sge; 1]; N] = requests.map(|request| {
            let (part, bytes) = match request {
                Request::Read(_, part, bytes) | Request::Write(_, part, bytes) => (part, bytes),
                Request::Add(..) | Request::Swap { .. } => (Part::Answer, 8),
            };
            [scratch.sge(self.at(slot, part), bytes as u32)]
        });
        let list: [SendWr<'_>; N] = std::array::from_fn(|n| {
            let op = match requests[n] {
                Request::Read(at, ..) => SendOp::Read(remote.at(at)),
                Request::Write(at, ..) => SendOp::Write(remote.at(at)),
                Request::Add(at, add) => SendOp::FetchAdd { remote: remote.at(at), add },
                Request::Swap { at, compare, swap } => {
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

    /// Operations of which what they had posted has completed; and says so to those of others. Whether anything had.
    ///
    /// # Errors
    /// If anything of its own has failed.
    pub(super) fn completed(&self, into: &mut Vec<Slot>) -> Result<bool, SystemError> {
        let mut wc = [Wc::default(); 16];
        let found = self.cq.poll(&mut wc)?.len();
        for wc in &wc[..found] {
            if wc.wr_id & FOR_OTHERS == 0 {
                check(wc)?;
                into.push(Slot(wc.wr_id as u32));
            } else {
                let asker = (wc.wr_id & !FOR_OTHERS) >> ASKER;
                // Where it fails, each of its requests completes.
                if self.channels.answer(asker as usize, Slot(wc.wr_id as u32), wc.status) {
                    self.served.set(self.served.get() - 1);
                }
            }
        }
        self.channels.completed(into)?;
        Ok(found > 0 || !into.is_empty())
    }

    /// Posts what others ask for; whether anything.
    pub(super) fn serve(&self) -> Result<bool, SystemError> {
        let mut any = false;
        for (n, asker) in (0..).zip(&self.channels.askers) {
            while self.served.get() < self.most_served {
                let Some(Asked { slot, area, requests }) = self.channels.next(asker)? else { break };
                self.cpu.work(work::REQUEST);
                let Some(Way::Qp(qp, remote)) = self.ways.get(area as usize).copied() else {
                    return Err(SystemError::Protocol(format!("a proxy was asked for area {area}")));
                };
                let (to, of, wr_id) =
                    ((qp, remote), (&asker.scratch, slot), FOR_OTHERS | n << ASKER | u64::from(slot.0));
                match requests {
                    [Some(first), Some(second)] => self.post_list(to, of, wr_id, [first, second])?,
                    [Some(first), _] => self.post_list(to, of, wr_id, [first])?,
                    [None, _] => continue,
                }
                self.served.set(self.served.get() + 1);
                any = true;
            }
        }
        Ok(any)
    }

    /// Says that it will ask for nothing any more; and, where it has failed, that it does nothing for others.
    pub(super) fn leave(&self, ended: &Result<(), SystemError>) {
        let failed = match ended {
            Ok(()) => None,
            Err(SystemError::Completion(status)) => Some(*status),
            Err(_) => Some(WcStatus::GeneralErr),
        };
        self.channels.leave(failed);
    }

    /// Whether all front-ends of the machine have said so.
    pub(super) fn all_are_done(&self) -> bool {
        self.channels.all_are_done()
    }

    /// The answer of the atomic of a list.
    pub(super) fn answer(&self, slot: Slot) -> u64 {
        self.word(slot, Part::Answer, 0)
    }

    /// A word of a part.
    pub(super) fn word(&self, slot: Slot, part: Part, at: u64) -> u64 {
        self.cpu.load_u64(self.scratch.mem(), self.at(slot, part) + at)
    }

    /// Words of a part.
    pub(super) fn words(&self, slot: Slot, part: Part, at: u64, count: u64) -> Vec<u64> {
        let mut bytes = vec![0; 8 * count as usize];
        self.read(slot, part, at, &mut bytes);
        bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }

    /// Bytes of a part.
    pub(super) fn read(&self, slot: Slot, part: Part, at: u64, into: &mut [u8]) {
        self.cpu.read(self.scratch.mem(), self.at(slot, part) + at, into);
    }

    /// Puts bytes into a part.
    pub(super) fn write(&self, slot: Slot, part: Part, at: u64, bytes: &[u8]) {
        self.cpu.write(self.scratch.mem(), self.at(slot, part) + at, bytes);
    }
}
