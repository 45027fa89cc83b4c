//! What a front-end posts, and where its bytes are.

use super::config::Hashtable;
use super::table::Table;
use crate::device::Device;
use crate::ends::{End, memory};
use crate::proxy::Path;
use crate::random::Random;
use crate::{SystemError, work};
use doorbell_verbs::{
    AccessFlags, Cq, Mr, Provider, Qp, QpCap, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Time,
};

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

/// One work request of an operation: what goes between its scratch and an area.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    Read(u64, Part, u64),
    Write(u64, Part, u64),
    Add(u64, u64),
    Swap { at: u64, compare: u64, swap: u64 },
}

/// The connections of a front-end, and its memory.
pub(super) struct Io<P: Provider> {
    pub(super) cpu: P,
    pub(super) cq: Cq<P>,
    pub(super) random: Random,
    pub(super) table: Table,
    /// To each area: the number of the QP, and where the area begins.
    ways: Vec<(usize, RemoteAddr)>,
    qps: Vec<Qp<P>>,
    scratch: Mr<P>,
    /// Bytes of each operation's.
    each: u64,
    inline: u32,
    /// Of the device of its socket, on which all is registered.
    pub(super) device: Device<P>,
}

impl<P: Provider> Io<P> {
    /// Connects front-end `number`, which has so many operations under way at most.
    pub(super) fn open(
        cpu: &P,
        config: &Hashtable,
        number: u32,
        operations: u32,
    ) -> Result<Io<P>, SystemError> {
        let table = config.table();
        let socket = config.socket(number);
        if config.path == Path::Home && cpu.num_devices() > 1 {
            return SystemError::config(
                "path is home, but a machine has several devices, whose atomics are not atomic to each other: use direct",
            );
        }
        let end = End::open(cpu, socket)?;
        // Where a back-end is gone, each work request completes: a CQ that is overrun does not say why.
        let cq = end.device.context.create_cq(LIST * operations)?;
        let inline = end.device.inline(table.entry() as u32);
        let cap = QpCap {
            max_send_wr: LIST * operations,
            max_recv_wr: 1,
            max_inline_data: inline,
            ..QpCap::default()
        };
        let (mut qps, mut ways) = (Vec::new(), Vec::new());
        for back_end in 0..config.back_ends {
            let service = service(back_end);
            let first = qps.len();
            let ends = config.ends(number);
            for to in &ends {
                qps.push(end.reach(&cq, (&service, number, *to), cap)?);
            }
            for to in 0..config.sockets {
                // By the QP to that socket, or by the only one.
                let nth = ends.iter().position(|end| *end == to).unwrap_or(0);
                ways.push((first + nth, memory(cpu, &service, ends[nth], to)?));
            }
        }
        let body = table.block().max(table.slots_bytes());
        let each = (HEAD + table.slots() + body + table.entry()).next_multiple_of(64);
        let device = end.device;
        let scratch = device.registered(u64::from(operations) * each, AccessFlags::LOCAL_WRITE)?;
        let random = Random::new(config.timing.seed, u64::from(number));
        Ok(Io { cpu: cpu.clone(), cq, random, table, ways, qps, scratch, each, inline, device })
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
        let (qp, remote) = self.ways[area as usize];
        let sges: [[Sge; 1]; N] = requests.map(|request| {
            let (part, bytes) = match request {
                Request::Read(_, part, bytes) | Request::Write(_, part, bytes) => (part, bytes),
                Request::Add(..) | Request::Swap { .. } => (Part::Answer, 8),
            };
            [self.scratch.sge(self.at(slot, part), bytes as u32)]
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
            let wr = SendWr::new(u64::from(slot.0), op, &sges[n]);
            let inline = matches!(op, SendOp::Write(_)) && sges[n][0].length <= self.inline;
            let flags = if inline { SendFlags::INLINE } else { SendFlags::empty() };
            wr.flags(if n + 1 == N { flags | SendFlags::SIGNALED } else { flags })
        });
        self.cpu.work(work::REQUEST);
        let now = self.cpu.now();
        self.qps[qp].post_send(&list)?;
        Ok(now)
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
