//! How a client receives replies.

use super::config::Config;
use super::immediates::{Status, to_imm};
use super::inboxes::Inboxes;
use super::line::RequestLine;
use super::replier::kept_key;
use super::slots::{Slots, Trailer};
use super::windows::{Pending, Windows};
use crate::checksum::{self, checksum};
use crate::device::Device;
use crate::{SystemError, work};
use doorbell_verbs::{AccessFlags, Mr, Provider, RemoteAddr, SendFlags, SendOp, SendWr, Wc};
use std::collections::VecDeque;

/// Largest number of completions of a poll.
const TAKEN: usize = 16;

/// The function that receives a reply: its status, its request, and its bytes.
pub(super) type Each<'a> = dyn FnMut(Status, Pending, &[u8]) -> Result<(), SystemError> + 'a;

/// Where the replies arrive.
pub(super) enum Intake<P: Provider> {
    /// In RECVs.
    Recvs(Inboxes<P>),
    /// In memory of the client.
    Region(Region<P>),
    /// In memory of the server.
    Fetch(Fetch<P>),
}

/// Slots into which the server WRITEs.
pub(super) struct Region<P: Provider> {
    mr: Mr<P>,
    slots: Slots,
}

/// Slots of the server that the client READs.
pub(super) struct Fetch<P: Provider> {
    /// Images of the server's slots, one window for each worker. READs fill these.
    mr: Mr<P>,
    slots: Slots,
    client: u32,
    longest: u32,
    /// The address at which each worker keeps its replies.
    kept: Vec<RemoteAddr>,
    /// For each worker, the outstanding READs: the READ's number in the outbox, and the sequence number of
    /// the request.
    under_way: Vec<VecDeque<(u64, u32)>>,
    /// How many READs came before their reply was there.
    early: u64,
}

impl<P: Provider> Region<P> {
    pub(super) fn new(device: &Device<P>, config: &Config) -> Result<Region<P>, SystemError> {
        let slots = config.reply_slots();
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
        Ok(Region { mr: device.registered(slots.bytes(config.workers), access)?, slots })
    }

    /// The address that the server WRITEs to.
    pub(super) fn remote(&self) -> RemoteAddr {
        self.mr.remote(0)
    }

    /// Polls the slot of each request that has not ended.
    fn poll(
        &self,
        cpu: &P,
        windows: &mut Windows,
        scratch: &mut Vec<u8>,
        each: &mut Each<'_>,
    ) -> Result<bool, SystemError> {
        let mut came = Vec::new();
        for (worker, sequence) in windows.under_way() {
            cpu.work(work::SCAN);
            let trailer = cpu.load_u64(self.mr.mem(), self.slots.trailer(worker, sequence));
            let trailer = Trailer::from_word(trailer);
            if trailer.sequence == sequence {
                came.push((worker, trailer));
            }
        }
        for (worker, trailer) in &came {
            let length = u32::from(trailer.length);
            scratch.resize(length as usize, 0);
            if length > 0 {
                let at = self.slots.text(*worker, trailer.sequence, length);
                cpu.read(self.mr.mem(), at, scratch);
            }
            end(windows, *worker, *trailer, scratch, each)?;
        }
        Ok(!came.is_empty())
    }
}

/// Ends the request that a trailer names.
fn end(
    windows: &mut Windows,
    worker: u32,
    trailer: Trailer,
    text: &[u8],
    each: &mut Each<'_>,
) -> Result<(), SystemError> {
    let status = Status::from_bits(trailer.repetition.into());
    let imm = status.map(|status| to_imm(status, worker, trailer.sequence));
    match imm.and_then(|imm| windows.end(imm)) {
        Some((status, pending)) => each(status, pending, text),
        None => Ok(()),
    }
}

impl<P: Provider> Fetch<P> {
    pub(super) fn new(device: &Device<P>, config: &Config, client: u32) -> Result<Fetch<P>, SystemError> {
        let slots = config.reply_slots();
        let kept = |worker| Ok(RemoteAddr::from_bytes(&device.cpu.lookup(&kept_key(worker)))?);
        Ok(Fetch {
            mr: device.registered(slots.bytes(config.workers), AccessFlags::LOCAL_WRITE)?,
            slots,
            client,
            longest: config.max_reply,
            kept: (0..config.workers).map(kept).collect::<Result<_, SystemError>>()?,
            under_way: vec![VecDeque::new(); config.workers as usize],
            early: 0,
        })
    }

    /// READs the slot of a request's reply. The length of the reply is not known yet, so the READ has the
    /// length of the longest reply.
    pub(super) fn read(
        &mut self,
        line: &mut RequestLine<P>,
        worker: u32,
        sequence: u32,
    ) -> Result<(), SystemError> {
        let from = self.slots.text(self.client, sequence, self.longest);
        let to = self.slots.text(worker, sequence, self.longest);
        let sge = [self.mr.sge(to, self.slots.reach(self.longest) as u32)];
        let read = SendOp::Read(self.kept[worker as usize].at(from));
        let outbox = line.outbox(worker);
        outbox.post(&mut [SendWr::new(0, read, &sge).flags(SendFlags::SIGNALED)])?;
        self.under_way[worker as usize].push_back((outbox.posted(), sequence));
        Ok(())
    }

    /// Evaluates the completed READs. READs a slot again if the reply was not there. Returns whether a reply
    /// has come.
    fn poll(
        &mut self,
        cpu: &P,
        line: &mut RequestLine<P>,
        windows: &mut Windows,
        scratch: &mut Vec<u8>,
        each: &mut Each<'_>,
    ) -> Result<bool, SystemError> {
        let mut any = false;
        // A READ that came too early does not count as work. Otherwise a client whose READs complete at once
        // would never pause, and the server would get no processor.
        for worker in 0..self.under_way.len() as u32 {
            let completed = line.outbox(worker).completed()?;
            while let Some(&(_, sequence)) =
                self.under_way[worker as usize].front().filter(|(read, _)| *read <= completed)
            {
                self.under_way[worker as usize].pop_front();
                match self.whole(cpu, worker, sequence, scratch) {
                    Some(trailer) => {
                        any = true;
                        end(windows, worker, trailer, scratch, each)?;
                    }
                    None => {
                        self.early += 1;
                        self.read(line, worker, sequence)?;
                    }
                }
            }
        }
        Ok(any)
    }

    /// The trailer of a reply; `None` if the reply is not there or not whole. Puts the reply's text into
    /// `scratch`.
    fn whole(&self, cpu: &P, worker: u32, sequence: u32, scratch: &mut Vec<u8>) -> Option<Trailer> {
        let (mem, at) = (self.mr.mem(), self.slots.trailer(worker, sequence));
        let word = cpu.load_u64(mem, at);
        let trailer = Trailer::from_word(word);
        let length = u32::from(trailer.length);
        if trailer.sequence != sequence || length > self.longest {
            return None;
        }
        scratch.resize(length as usize, 0);
        if length > 0 {
            cpu.read(mem, self.slots.text(worker, sequence, length), scratch);
        }
        scratch.extend(word.to_le_bytes());
        cpu.work(checksum::work(scratch.len() as u64));
        let is_whole = checksum(scratch) == cpu.load_u64(mem, at - 8);
        scratch.truncate(length as usize);
        is_whole.then_some(trailer)
    }
}

impl<P: Provider> Intake<P> {
    /// How many READs have come before their reply was there.
    pub(super) fn early(&self) -> u64 {
        if let Intake::Fetch(fetch) = self { fetch.early } else { 0 }
    }

    /// Prepares for the reply to a request that was posted.
    pub(super) fn expect(
        &mut self,
        line: &mut RequestLine<P>,
        worker: u32,
        p: Pending,
    ) -> Result<(), SystemError> {
        match self {
            Intake::Fetch(fetch) => fetch.read(line, worker, p.sequence),
            Intake::Recvs(_) | Intake::Region(_) => Ok(()),
        }
    }

    /// Receives replies and passes each to `each`. Returns whether any reply was there.
    pub(super) fn poll(
        &mut self,
        cpu: &P,
        line: &mut RequestLine<P>,
        windows: &mut Windows,
        scratch: &mut Vec<u8>,
        each: &mut Each<'_>,
    ) -> Result<bool, SystemError> {
        match self {
            Intake::Recvs(inboxes) => recv(inboxes, cpu, windows, scratch, each),
            Intake::Region(region) => region.poll(cpu, windows, scratch, each),
            Intake::Fetch(fetch) => fetch.poll(cpu, line, windows, scratch, each),
        }
    }
}

/// Receives replies by RECVs.
fn recv<P: Provider>(
    inboxes: &mut Inboxes<P>,
    cpu: &P,
    windows: &mut Windows,
    scratch: &mut Vec<u8>,
    each: &mut Each<'_>,
) -> Result<bool, SystemError> {
    let found = inboxes.poll(&mut [Wc::default(); TAKEN])?;
    for (inbox, wc) in &found {
        if let Some((status, pending)) = wc.imm.and_then(|imm| windows.end(imm)) {
            scratch.clear();
            if status == Status::Ok {
                inboxes.ring(*inbox).read(cpu, wc, scratch);
            }
            each(status, pending, scratch)?;
        }
        inboxes.give(*inbox, wc.wr_id);
    }
    if !found.is_empty() {
        inboxes.post()?;
    }
    Ok(!found.is_empty())
}
