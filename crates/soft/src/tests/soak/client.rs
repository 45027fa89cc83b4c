//! A client: an actor that sends. It has at most one work request outstanding on each way to each server.

use super::parts::{Queue, queue, register};
use super::traffic::{self, LONGEST, Way};
use super::watch::Watch;
use crate::fabric::process::Process;
use crate::queues::cq::Cq;
use doorbell_abi::{CEnum, ibv_wc};
use doorbell_launch::process_start::thread_state;
use doorbell_verbs::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The number of kinds of a server's memory: private, in the arena, and System V.
pub(super) const KINDS: usize = 3;
/// Bytes of each client's area of that memory. Offset 0 has a word for FETCH_ADD, offset 8 has a word for
/// COMPARE_SWAP, and the WRITEs' targets follow.
pub(super) const AREA: u64 = 4096;
pub(super) const AREAS: u64 = 16;
const WRITTEN: u64 = 64;
const WRITTEN_WITH_IMM: u64 = 2048;
/// Bytes of a link's own buffer. The bytes to send are at offset 0, the fetched bytes at `FETCHED`.
const BUFFER: usize = 4096;
const FETCHED: usize = 2048;

/// A region of a server's memory.
#[derive(Clone, Copy)]
pub(super) struct Remote {
    pub(super) addr: u64,
    pub(super) key: u32,
}

pub(super) struct Client {
    process: &'static Process,
    id: u32,
    cq: Arc<Cq>,
    ud: Queue,
    ah: AhHandle,
    pub(super) links: Vec<Link>,
    /// Servers whose requests may fail, and servers that corrupt their own segments.
    suspects: BTreeSet<u32>,
    liars: BTreeSet<u32>,
    limited: bool,
}

/// A connection of a client to a server by one [`Way`].
pub(super) struct Link {
    pub(super) server: u32,
    pub(super) way: Way,
    /// The QP. `None` for datagrams, which all use the client's UD QP.
    queue: Option<Queue>,
    dest: u32,
    memory: [Remote; KINDS],
    buffer: Box<[u8; BUFFER]>,
    key: u32,
    step: u32,
    /// The number of the next message that takes a RECV.
    number: u32,
    /// The content of this client's two words for each kind of memory. The content is unknown before the
    /// first atomic, because another client may have used the area before.
    sums: [Option<u64>; KINDS],
    swapped: [Option<u64>; KINDS],
    busy: Option<SendOp>,
    pub(super) done: u64,
    pub(super) lost: Option<WcStatus>,
}

impl Client {
    pub(super) fn new(process: &'static Process, id: u32) -> Client {
        let ud = queue(process, QpType::Ud, None, None);
        ud.connect_ud();
        let cq = ud.cq.clone();
        Client {
            process,
            id,
            cq,
            ah: ud.own_path(),
            ud,
            links: Vec::new(),
            suspects: BTreeSet::new(),
            liars: BTreeSet::new(),
            limited: false,
        }
    }

    /// Connects to a server's QPs, which are in the order of [`Way::ALL`]. Returns the numbers of this
    /// client's QPs in that order.
    pub(super) fn join(&mut self, server: u32, dests: &[u64], memory: [Remote; KINDS]) -> Vec<u64> {
        let mut own = Vec::new();
        for (way, &dest) in Way::ALL.into_iter().zip(dests) {
            let qp_type = if way == Way::Uc { QpType::Uc } else { QpType::Rc };
            let queue = (way != Way::Ud).then(|| queue(self.process, qp_type, Some(self.cq.clone()), None));
            let connected = queue.as_ref().inspect(|queue| queue.connect_patiently(dest as u32));
            own.push(connected.map_or(self.ud.qp.num(), |queue| queue.qp.num()).into());
            let buffer = Box::new([0; BUFFER]);
            let key = register(self.process, buffer.as_ptr() as u64, BUFFER);
            self.links.push(Link {
                server,
                way,
                queue,
                dest: dest as u32,
                memory,
                buffer,
                key,
                step: 0,
                number: 0,
                sums: [None; KINDS],
                swapped: [None; KINDS],
                busy: None,
                done: 0,
                lost: None,
            });
        }
        own
    }

    pub(super) fn suspect(&mut self, server: u32, lies: bool) {
        self.suspects.insert(server);
        if lies {
            self.liars.insert(server);
        }
    }

    /// Notes that this process may lack files or memory, so that its own calls may fail.
    pub(super) fn set_limited(&mut self) {
        self.limited = true;
    }

    /// Posts a work request on each idle way, and polls completions.
    pub(super) fn pass(&mut self, watch: &mut Watch) {
        for at in 0..self.links.len() {
            let link = &self.links[at];
            if link.busy.is_none() && link.lost.is_none() && link.way != Way::Fault {
                self.post(at, watch);
            }
        }
        let mut wcs = [ibv_wc::default(); 16];
        let cq = self.cq.clone();
        match watch.timed("poll", || cq.poll(&mut wcs)) {
            Ok(n) => wcs[..n].iter().for_each(|wc| self.complete(wc, watch)),
            Err(errno) => watch.say(format!("client {}: poll gives {}", self.id, errno.0)),
        }
    }

    /// Posts a request that the server refuses.
    pub(super) fn fault(&mut self, server: u32, watch: &mut Watch) {
        let at = self.links.iter().position(|link| link.server == server && link.way == Way::Fault);
        if let Some(at) = at {
            self.post(at, watch);
        }
    }

    fn post(&mut self, at: usize, watch: &mut Watch) {
        let (id, ah) = (self.id, self.ah);
        let link = &mut self.links[at];
        let op = link.next_op(id);
        let (from, len) = link.local(id, &op);
        let sge = [Sge { addr: link.buffer.as_ptr() as u64 + from, length: len, lkey: link.key }];
        let dest = (link.way == Way::Ud).then_some(UdDest { ah, qpn: link.dest, qkey: 7 });
        let wr = SendWr { dest, ..SendWr::new(at as u64, op, &sge).flags(SendFlags::SIGNALED) };
        let qp = link.queue.as_ref().map_or(&self.ud.qp, |queue| &queue.qp);
        link.busy = Some(op);
        if let Err(errno) = watch.timed("post", || qp.begin_post().post_wr(&wr, None)) {
            link.busy = None;
            link.lost = Some(WcStatus::GeneralErr);
            if !self.limited {
                watch.say(format!("client {id}: posting {op:?} gives {}", errno.errno()));
            }
        }
    }

    fn complete(&mut self, wc: &ibv_wc, watch: &mut Watch) {
        let id = self.id;
        let Some(link) = self.links.get_mut(wc.wr_id as usize) else {
            return watch.say(format!("client {id}: nothing was posted as {:#x}", wc.wr_id));
        };
        let Some(op) = link.busy.take() else {
            return watch.say(format!("client {id}: {:?} completes twice, {}", link.way, wc.status));
        };
        let status = WcStatus::from_c(wc.status).unwrap_or(WcStatus::GeneralErr);
        let (way, server) = (link.way, link.server);
        let about = |what: &str| format!("client {id}, {way:?} to {server}: {op:?} {what}");
        if status != WcStatus::Success {
            let held_up = status == WcStatus::RetryExcErr && is_held_up(self.process, link.dest, &op);
            let known = match link.way {
                Way::Fault => status == WcStatus::RemAccessErr || self.suspects.contains(&link.server),
                _ => {
                    self.liars.contains(&link.server) || self.limited || held_up || {
                        use WcStatus::*;
                        self.suspects.contains(&link.server)
                            && matches!(status, RetryExcErr | RnrRetryExcErr | WrFlushErr)
                    }
                }
            };
            if !known {
                watch.say(about(&format!("fails with {status:?}")));
            }
            link.lost = Some(status);
            return;
        }
        link.done += 1;
        if !self.liars.contains(&link.server)
            && let Some(wrong) = link.check(id, &op)
        {
            watch.say(about(&wrong));
        }
    }

    pub(super) fn end(self, watch: &mut Watch) {
        for link in self.links {
            watch.timed("destroy", || drop(link.queue));
            watch.timed("deregister", || {
                let revoked = self.process.regions.deregister(self.process.segment, link.key);
                revoked.into_iter().for_each(|revoked| self.process.settle(revoked, "deregister"));
            });
        }
        watch.timed("destroy", || drop(self.ud));
    }
}

/// Whether an atomic waits for a lock whose holder is stopped. The caught process may hold the lock at any
/// point, because another of its threads may hold it, for example the thread that retries requests.
fn is_held_up(process: &'static Process, dest: u32, op: &SendOp) -> bool {
    let (SendOp::FetchAdd { remote, .. } | SendOp::CompareSwap { remote, .. }) = op else { return false };
    let holder = process.look_at(dest, |segment| Some(segment.atomic_lock(remote.addr).holder.load(Relaxed)));
    holder.and_then(thread_state) == Some('T')
}

impl Link {
    fn kind(&self) -> usize {
        (self.step / 6) as usize % KINDS
    }

    fn area(&self, id: u32, at: u64) -> RemoteAddr {
        let Remote { addr, key } = self.memory[self.kind()];
        RemoteAddr { addr: addr + u64::from(id) % AREAS * AREA + at, rkey: key }
    }

    /// Chooses the next operation to post.
    fn next_op(&mut self, id: u32) -> SendOp {
        self.step += 1;
        let kind = self.kind();
        match self.way {
            Way::Fault => SendOp::Write(RemoteAddr { addr: 0, rkey: 0x1234_5678 }),
            Way::Rc => match self.step % 6 {
                0 => SendOp::Write(self.area(id, WRITTEN)),
                1 => SendOp::Read(self.area(id, WRITTEN)),
                2 => SendOp::FetchAdd { remote: self.area(id, 0), add: 1 },
                3 => {
                    let (compare, swap) = (self.swapped[kind].unwrap_or(0), u64::from(self.step));
                    SendOp::CompareSwap { remote: self.area(id, 8), compare, swap }
                }
                4 => SendOp::Send,
                _ => SendOp::WriteWithImm(self.area(id, WRITTEN_WITH_IMM), self.number),
            },
            _ => SendOp::Send,
        }
    }

    /// Prepares the local buffer of a work request. Returns its offset and length in bytes.
    fn local(&mut self, id: u32, op: &SendOp) -> (u64, u32) {
        match op {
            SendOp::Read(_) => {
                self.buffer[FETCHED..].fill(0);
                (FETCHED as u64, traffic::length(self.step - 1) as u32)
            }
            SendOp::FetchAdd { .. } | SendOp::CompareSwap { .. } => (FETCHED as u64, 8),
            SendOp::Write(_) => (0, traffic::write(&mut self.buffer[..], id, self.way, self.step) as u32),
            _ => {
                self.number += 1;
                (0, traffic::write(&mut self.buffer[..], id, self.way, self.number - 1) as u32)
            }
        }
    }

    /// Checks the result of a work request. Returns a finding if the result is wrong.
    fn check(&mut self, id: u32, op: &SendOp) -> Option<String> {
        let kind = self.kind();
        let fetched = &self.buffer[FETCHED..];
        let word = u64::from_ne_bytes(std::array::from_fn(|at| fetched[at]));
        match *op {
            SendOp::Read(_) => {
                let mut expected = [0; LONGEST];
                // The expected bytes of the WRITE before. In the first round, there was no WRITE.
                let len = traffic::write(&mut expected, id, self.way, self.step - 1);
                let same = self.step < 6 * KINDS as u32 || fetched[..len] == expected[..len];
                (!same).then(|| "brings other bytes than were written".to_owned())
            }
            SendOp::FetchAdd { .. } => {
                let expected = self.sums[kind].replace(word + 1).unwrap_or(word);
                (word != expected).then(|| format!("finds {word}, not {expected}"))
            }
            SendOp::CompareSwap { compare, swap, .. } => {
                let known = self.swapped[kind].replace(if word == compare { swap } else { word });
                (known.is_some() && word != compare).then(|| format!("finds {word}"))
            }
            _ => None,
        }
    }
}
