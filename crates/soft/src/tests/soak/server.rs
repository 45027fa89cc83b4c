//! A server: an actor that receives messages, and whose memory clients access by WRITEs, READs and atomics.

use super::super::PD;
use super::super::own_time::HANGS;
use super::client::{AREA, AREAS, KINDS, Remote};
use super::parts::{CAP, CQE, PATIENCE, Queue, cq, host, queue, region, register, try_queue};
use super::sharing;
use super::traffic::{self, LONGEST, Way};
use super::watch::Watch;
use crate::fabric::pipe::EventPipe;
use crate::fabric::process::Process;
use crate::memory::arena;
use crate::memory::records::QPS;
use crate::queues::cq::Cq;
use crate::queues::recv_queue::{RecvQueue, Senders, Sizes};
use doorbell_abi::{CEnum, ibv_wc};
use doorbell_verbs::*;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of RECVs in each queue.
const SRQ_RECVS: u64 = 8;
const UD_RECVS: u64 = 16;
const OWN_RECVS: u64 = 4;
pub(super) const FAULT_RECVS: u64 = 8;
/// Bytes of a RECV's buffer: a global route header, the longest message, and some more.
const RECV_BYTES: usize = 40 + LONGEST + 24;
/// The number of buffers: those of all RECVs for 16 clients, and more.
const RECV_BUFFERS: usize = 160;
/// The time without an event after which the server checks whether an event is missing.
const FORGOTTEN: Duration = Duration::from_secs(2);
/// The number of checks, a millisecond apart, within which a late event must arrive. The event may be late
/// because the sender was stopped before it sent the event.
const TOLD_LATE: u32 = 500;

pub(super) struct Server {
    process: &'static Process,
    pipe: EventPipe,
    /// The CQ of the SRQ's QPs and of the UD QP. The server polls this CQ only after an event.
    shared: Arc<Cq>,
    /// The CQ of the UC QPs.
    beside: Arc<Cq>,
    srq: Arc<RecvQueue>,
    srq_number: u32,
    ud: Queue,
    clients: BTreeMap<u32, Links>,
    memory: [Remote; KINDS],
    /// The buffers of RECVs: in the arena, and in private memory.
    arena: Buffers,
    private: Buffers,
    posted: HashSet<u64>,
    looked: Instant,
    passes: u64,
    pub(super) came: BTreeMap<(u32, Way), Came>,
    /// The number of RECVs that faults have flushed.
    pub(super) flushed: u64,
    resized: u32,
}

#[derive(Clone, Copy)]
struct Buffers {
    addr: u64,
    key: u32,
}

/// The messages of one client and way that arrived.
#[derive(Default)]
pub(super) struct Came {
    pub(super) count: u64,
    next: u32,
    seen: BTreeSet<u32>,
}

/// The server's QPs for one client.
struct Links {
    srq: Queue,
    rc: Queue,
    uc: Queue,
    fault: Queue,
    dests: Vec<u64>,
}

/// Encodes a RECV's `wr_id`: its way, its client, and its buffer.
fn recv_id(way: Way, client: u32, buffer: u64) -> u64 {
    (way as u64) << 48 | u64::from(client) << 16 | buffer
}

fn parts_of(wr_id: u64) -> (Option<Way>, u32, u64) {
    (Way::from(wr_id >> 48), (wr_id >> 16) as u32, wr_id & 0xffff)
}

impl Server {
    pub(super) fn new(process: &'static Process) -> Server {
        let pipe = EventPipe::new().expect("a pipe");
        // SAFETY: the descriptor belongs to this process.
        unsafe { libc::fcntl(pipe.read_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        let (shared, beside) = (cq(process, &pipe), cq(process, &pipe));
        let srq_number = process.srq_numbers.take().expect("an SRQ");
        let sizes = Sizes { depth: SRQ_RECVS as u32, max_sge: 1 };
        let index = QPS as u32 + srq_number;
        let srq = RecvQueue::new(process, index, PD, sizes, Senders::Many, pipe.in_record()).expect("an SRQ");
        let ud = queue(process, QpType::Ud, Some(shared.clone()), None);
        ud.connect_ud();
        let bytes = (AREA * AREAS) as usize;
        let private = |bytes: usize| Box::leak(vec![0u8; bytes].into_boxed_slice()).as_ptr() as u64;
        let of = |addr: u64, bytes: usize| Remote { addr, key: register(process, addr, bytes) };
        let in_arena = |bytes: usize| arena::alloc_own(bytes).expect("an arena") as u64;
        let all = RECV_BUFFERS * RECV_BYTES;
        let (a, p) = (of(in_arena(all), all), of(private(all), all));
        let memory = [of(private(bytes), bytes), of(in_arena(bytes), bytes), of(system_v(bytes), bytes)];
        let mut server = Server {
            process,
            pipe,
            shared,
            beside,
            srq: Arc::new(srq),
            srq_number,
            ud,
            clients: BTreeMap::new(),
            memory,
            arena: Buffers { addr: a.addr, key: a.key },
            private: Buffers { addr: p.addr, key: p.key },
            posted: HashSet::new(),
            looked: Instant::now(),
            passes: 0,
            came: BTreeMap::new(),
            flushed: 0,
            resized: 0,
        };
        let mut watch = Watch::new();
        (0..SRQ_RECVS).for_each(|n| server.post(recv_id(Way::Srq, 0, n), &mut watch));
        (0..UD_RECVS).for_each(|n| server.post(recv_id(Way::Ud, 0, n), &mut watch));
        server.shared.request_notify(false);
        server
    }

    /// The numbers that clients need: the UD QP's number, and address and key of each kind of memory.
    pub(super) fn about(&self) -> Vec<u64> {
        let memory = self.memory.iter().flat_map(|remote| [remote.addr, remote.key.into()]);
        std::iter::once(u64::from(self.ud.qp.num())).chain(memory).collect()
    }

    /// Creates QPs for a client. Returns their numbers in the order of [`Way::ALL`].
    pub(super) fn link(&mut self, client: u32) -> Vec<u64> {
        let (process, srq) = (self.process, Some(self.srq.clone()));
        let links = Links {
            srq: queue(process, QpType::Rc, Some(self.shared.clone()), srq),
            rc: queue(process, QpType::Rc, None, None),
            uc: queue(process, QpType::Uc, Some(self.beside.clone()), None),
            fault: queue(process, QpType::Rc, None, None),
            dests: Vec::new(),
        };
        let number = |queue: &Queue| u64::from(queue.qp.num());
        let numbers = [&links.srq, &self.ud, &links.rc, &links.uc, &links.fault].map(number);
        self.clients.insert(client, links);
        numbers.to_vec()
    }

    /// Connects the server's QPs for a client to the client's QPs, and posts their RECVs.
    pub(super) fn accept(&mut self, client: u32, dests: &[u64], watch: &mut Watch) {
        let Some(links) = self.clients.get_mut(&client) else { return };
        links.dests = dests.to_vec();
        for (queue, at) in [(&links.srq, 0), (&links.rc, 2), (&links.uc, 3), (&links.fault, 4)] {
            queue.connect_patiently(dests[at] as u32);
        }
        for (way, recvs) in [(Way::Rc, OWN_RECVS), (Way::Uc, OWN_RECVS), (Way::Fault, FAULT_RECVS)] {
            (0..recvs).for_each(|n| self.post(recv_id(way, client, n), watch));
        }
    }

    /// Destroys the server's QPs for a client.
    pub(super) fn leave(&mut self, client: u32, watch: &mut Watch) {
        let Some(Links { srq, rc, uc, fault, .. }) = self.clients.remove(&client) else { return };
        for queue in [srq, rc, uc, fault] {
            watch.timed("destroy", || drop(queue));
        }
        // Polls the completions of the destroyed QPs, which stay in the CQs.
        self.drain(self.shared.clone(), watch);
        self.drain(self.beside.clone(), watch);
        let of_client = |wr_id: &u64| parts_of(*wr_id).1 != client || parts_of(*wr_id).0 == Some(Way::Srq);
        self.posted.retain(of_client);
    }

    /// Posts a RECV. The SRQ's RECVs have their buffers in the arena, all others in private memory.
    fn post(&mut self, wr_id: u64, watch: &mut Watch) {
        let (way, client, buffer) = parts_of(wr_id);
        let Some(way) = way else { return };
        let own = UD_RECVS + 2 * OWN_RECVS * u64::from(client % 16) + buffer;
        let (of, at, len) = match way {
            Way::Srq => (self.arena, buffer, RECV_BYTES),
            Way::Ud => (self.private, buffer, RECV_BYTES),
            Way::Rc => (self.private, own, RECV_BYTES),
            Way::Uc => (self.private, own + OWN_RECVS, RECV_BYTES),
            Way::Fault => (self.private, 0, 0),
        };
        let addr = of.addr + at * RECV_BYTES as u64;
        let sge = [Sge { addr, length: len as u32, lkey: of.key }];
        let links = self.clients.get(&client);
        let posted = watch.timed("post RECV", || match (way, links) {
            (Way::Srq, _) => self.srq.enqueue(wr_id, &sge),
            (Way::Ud, _) => self.ud.qp.post_recv(wr_id, &sge),
            (Way::Rc, Some(links)) => links.rc.qp.post_recv(wr_id, &sge),
            (Way::Uc, Some(links)) => links.uc.qp.post_recv(wr_id, &sge),
            (Way::Fault, Some(links)) => links.fault.qp.post_recv(wr_id, &sge),
            _ => Ok(()),
        });
        match posted {
            Ok(()) => drop(self.posted.insert(wr_id)),
            Err(errno) => watch.say(format!("posting RECV {buffer} of {way:?} gives {}", errno.errno())),
        }
    }

    /// Polls all CQs, and makes one of the other calls that programs make.
    pub(super) fn pass(&mut self, watch: &mut Watch) {
        self.passes += 1;
        self.take_shared(watch);
        self.drain(self.beside.clone(), watch);
        let own: Vec<Arc<Cq>> =
            self.clients.values().flat_map(|l| [&l.rc, &l.fault].map(|q| q.cq.clone())).collect();
        for cq in own {
            self.drain(cq, watch);
        }
        match self.passes % 16 {
            1 => sharing::use_group(self.process, self.header(), watch),
            3 => self.change_region(watch),
            5 => sharing::use_domain(self.process, self.passes & 16 == 0, watch),
            7 => self.use_spare_qp(watch),
            11 => self.reset_one(watch),
            13 => self.resize(watch),
            _ => {}
        }
    }

    /// Polls the shared CQ after an event, like a program that sleeps until an event arrives.
    fn take_shared(&mut self, watch: &mut Watch) {
        let mut woken = false;
        while self.pipe.next().is_ok() {
            woken = true;
        }
        let overdue = self.looked.elapsed() > FORGOTTEN;
        if !woken && !overdue {
            return;
        }
        self.looked = Instant::now();
        let taken = self.drain(self.shared.clone(), watch);
        // If a completion arrived between the check for an event and the poll, its event must arrive soon.
        if !woken && taken > 0 && !self.is_told_late() {
            watch.say(format!("the program is not woken for {taken} completions"));
        }
        self.shared.request_notify(false);
        self.drain(self.shared.clone(), watch);
    }

    /// Waits for the event of completions that were already polled. Returns whether the event arrived.
    fn is_told_late(&self) -> bool {
        (0..TOLD_LATE).any(|_| {
            let is_told = self.pipe.next().is_ok();
            if !is_told {
                std::thread::sleep(Duration::from_millis(1));
            }
            is_told
        })
    }

    fn drain(&mut self, cq: Arc<Cq>, watch: &mut Watch) -> usize {
        let mut all = 0;
        let mut wcs = [ibv_wc::default(); 16];
        loop {
            match watch.timed("poll", || cq.poll(&mut wcs)) {
                Ok(0) => return all,
                Ok(n) => {
                    all += n;
                    wcs[..n].iter().for_each(|wc| self.receive(wc, watch));
                }
                Err(errno) => {
                    watch.say(format!("polling {} gives {}", self.about_cq(&cq), errno.0));
                    return all;
                }
            }
        }
    }

    /// Describes a CQ for a finding: its name and its record.
    fn about_cq(&self, cq: &Arc<Cq>) -> String {
        let which = [("the shared CQ", &self.shared), ("the CQ beside", &self.beside)];
        let which =
            which.iter().find(|(_, other)| Arc::ptr_eq(other, cq)).map_or("a CQ of a QP", |(name, _)| name);
        let record = self.process.segment.cq(cq.index as usize);
        format!("{which} ({record:?}, resized {} times, pass {})", self.resized, self.passes)
    }

    fn receive(&mut self, wc: &ibv_wc, watch: &mut Watch) {
        let (way, client, buffer) = parts_of(wc.wr_id);
        if !self.posted.remove(&wc.wr_id) {
            return watch.say(format!("no RECV was posted as {:#x} ({way:?} of {client})", wc.wr_id));
        }
        let Some(way) = way else { return };
        let status = WcStatus::from_c(wc.status);
        match (way, status) {
            (Way::Fault, Some(WcStatus::WrFlushErr)) => return self.flushed += 1,
            (_, Some(WcStatus::Success)) => {}
            (_, Some(WcStatus::WrFlushErr)) => return,
            _ => return watch.say(format!("a RECV of {way:?} of {client} fails with {status:?}")),
        }
        if wc.opcode == WcOpcode::RecvWriteWithImm.to_c() {
            self.count(client, way, u32::from_be(wc.imm_data), watch);
        } else {
            let header = if way == Way::Ud { 40 } else { 0 };
            let of = if way == Way::Srq { self.arena } else { self.private };
            let own = UD_RECVS + 2 * OWN_RECVS * u64::from(client % 16) + buffer;
            let at = match way {
                Way::Rc => own,
                Way::Uc => own + OWN_RECVS,
                _ => buffer,
            };
            let len = (wc.byte_len as usize).saturating_sub(header).min(RECV_BYTES - header);
            // SAFETY: the buffer is mapped, and its RECV has completed.
            let message = unsafe {
                let from = of.addr as usize + at as usize * RECV_BYTES + header;
                std::slice::from_raw_parts(from as *const u8, len)
            };
            match traffic::read(message) {
                Ok((sender, by, number)) if by == way => self.count(sender, way, number, watch),
                Ok(other) => watch.say(format!("{other:?} came by {way:?}")),
                Err(wrong) => watch.say(format!("received by {way:?}: {wrong}")),
            }
        }
        self.post(wc.wr_id, watch);
    }

    fn count(&mut self, sender: u32, way: Way, number: u32, watch: &mut Watch) {
        let came = self.came.entry((sender, way)).or_default();
        let right = match way {
            Way::Ud => came.seen.insert(number),
            Way::Uc => number >= came.next,
            _ => number == came.next,
        };
        if !right {
            watch.say(format!("message {number} of {sender} by {way:?} comes after {}", came.next));
        }
        came.next = number + 1;
        came.count += 1;
    }

    /// The buffer for the header of a multicast datagram, behind the buffers of all RECVs.
    fn header(&self) -> Sge {
        let Buffers { addr, key } = self.private;
        Sge { addr: addr + ((RECV_BUFFERS - 1) * RECV_BYTES) as u64, length: 40, lkey: key }
    }

    /// Re-registers a region while clients use it.
    fn change_region(&mut self, watch: &mut Watch) {
        let Remote { addr, key } = self.memory[(self.passes / 16) as usize % KINDS];
        let (process, bytes) = (self.process, (AREA * AREAS) as usize);
        // ibv_rereg_mr(3) fails if the process may not open a file.
        let Some(host) = host(addr, bytes) else { return };
        let changed = watch.timed("rereg_mr", || {
            let changed = process.regions.replace(process.segment, key, region(addr, bytes), host);
            changed.map(|revoked| process.settle(revoked, "rereg_mr"))
        });
        if let Err(errno) = changed {
            watch.say(format!("changing a region gives {}", errno.0));
        }
    }

    /// Creates a QP, connects it to itself, posts RECVs, resets the QP, and destroys it.
    fn use_spare_qp(&mut self, watch: &mut Watch) {
        let process = self.process;
        let made = watch.timed("create", || try_queue(process, QpType::Rc, None, None));
        // If the process may not open a file, it cannot create a QP.
        let Ok(spare) = made else { return };
        watch.timed("modify", || spare.connect_patiently(spare.qp.num()));
        let _ = spare.qp.post_recv(0, &[]);
        watch.timed("modify", || spare.reconnect(spare.qp.num(), PATIENCE));
        let _ = spare.qp.post_recv(1, &[]);
        watch.timed("destroy", || drop(spare));
    }

    /// Resets a UC QP that a client uses, and connects it again. Messages in between are lost.
    fn reset_one(&mut self, watch: &mut Watch) {
        let of = (self.passes / 16) as usize % self.clients.len().max(1);
        let Some((&client, links)) = self.clients.iter().nth(of) else { return };
        let Some(&dest) = links.dests.get(3) else { return };
        let (uc, posted) = (&links.uc, &mut self.posted);
        watch.timed("modify", || uc.reconnect(dest as u32, PATIENCE));
        posted.retain(|wr_id| (Some(Way::Uc), client) != (parts_of(*wr_id).0, parts_of(*wr_id).1));
        (0..OWN_RECVS).for_each(|n| self.post(recv_id(Way::Uc, client, n), watch));
    }

    /// Doubles the size of a CQ that is in use, at most six times.
    fn resize(&mut self, watch: &mut Watch) {
        if self.passes % 64 != 13 || self.resized == 6 {
            return;
        }
        self.resized += 1;
        let (cq, cqe) = (self.beside.clone(), CQE << self.resized);
        if let Err(errno) = watch.timed("resize", || cq.resize(cqe)) {
            watch.say(format!("a CQ of {cqe} gives {}", errno.errno()));
        }
    }

    /// Posts a WRITE of 0 bytes to a client. Returns its status, and its duration in milliseconds.
    pub(super) fn probe(&mut self, client: u32, watch: &mut Watch) -> Vec<u64> {
        let Some(links) = self.clients.get(&client) else { return vec![] };
        let (qp, cq) = (links.rc.qp.clone(), links.rc.cq.clone());
        let wr = SendWr::new(u64::MAX, SendOp::Write(RemoteAddr::default()), &[]).flags(SendFlags::SIGNALED);
        let begin = Instant::now();
        if let Err(errno) = watch.timed("post", || qp.begin_post().post_wr(&wr, None)) {
            watch.say(format!("probing {client} gives {}", errno.errno()));
        }
        let mut wcs = [ibv_wc::default(); 1];
        while begin.elapsed() < HANGS {
            match watch.timed("poll", || cq.poll(&mut wcs)) {
                Ok(1) if wcs[0].wr_id == u64::MAX => {
                    return vec![wcs[0].status.into(), begin.elapsed().as_millis() as u64];
                }
                Ok(1) => self.receive(&wcs[0], watch),
                _ => std::thread::yield_now(),
            }
        }
        vec![u64::MAX, begin.elapsed().as_millis() as u64]
    }

    pub(super) fn end(mut self, watch: &mut Watch) {
        for client in self.clients.keys().copied().collect::<Vec<_>>() {
            self.leave(client, watch);
        }
        watch.timed("destroy", || drop(self.ud));
        watch.timed("destroy", || drop(self.srq));
        self.process.srq_numbers.give_back(self.srq_number);
        watch.timed("destroy", || (drop(self.shared), drop(self.beside)));
    }
}

const _: () = assert!(CAP.max_recv_wr as u64 >= UD_RECVS);

/// Creates and attaches a System V segment, which the kernel removes with its last user.
fn system_v(bytes: usize) -> u64 {
    // SAFETY: the calls create a new segment and a new mapping.
    unsafe {
        let id = libc::shmget(libc::IPC_PRIVATE, bytes, 0o600);
        let addr = libc::shmat(id, std::ptr::null(), 0);
        assert!(addr as isize != -1, "{}", std::io::Error::last_os_error());
        libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
        addr as u64
    }
}
