//! The smallest driver: two hosts with one QP each, and a faulty network between them.
//!
//! Answers are split-phase: a host first receives a request. It reads memory and carries out atomics in later
//! steps, one packet a step.

use doorbell_transport::{
    Action, AtomicOp, Body, Keys, Packet, Qp, Queue, ReadStream, RecvQueue, Region, Source, TxPacket,
};
use doorbell_verbs::{
    AccessFlags, AhAttr, Mtu, QpAttr, QpCap, QpInitAttr, QpState, QpType, RecvWr, SendFlags, SendWr, Span,
    Time, VerbsError, Wc,
};
use std::collections::VecDeque;

/// Address of a host's first byte.
pub(crate) const BASE: u64 = 0x10_0000;
/// Key of all of a host's memory.
pub(crate) const KEY: u32 = 1 << 8;
pub(crate) const PD: u32 = 7;
pub(crate) const QKEY: u32 = 0x1111;

/// Random numbers by integer arithmetic (splitmix64).
#[derive(Clone)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}

/// Faults of the network; chances per mille. Corruption counts as loss, because the ICRC drops the packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) loss: u64,
    pub(crate) duplication: u64,
    pub(crate) reordering: u64,
}

/// Parameters of the QPs.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) qp_type: QpType,
    pub(crate) cap: QpCap,
    pub(crate) sq_sig_all: bool,
    pub(crate) srq: bool,
    pub(crate) psn: u32,
    pub(crate) access: AccessFlags,
    pub(crate) max_rd_atomic: u8,
    pub(crate) max_dest_rd_atomic: u8,
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) memory: usize,
}

impl Setup {
    pub(crate) fn new(qp_type: QpType) -> Setup {
        Setup {
            qp_type,
            cap: QpCap {
                max_send_wr: 16,
                max_recv_wr: 16,
                max_send_sge: 3,
                max_recv_sge: 3,
                max_inline_data: 64,
            },
            sq_sig_all: false,
            srq: false,
            psn: 0xff_fff0,
            access: AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_ATOMIC,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            timeout: 1,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 1,
            memory: 1 << 16,
        }
    }
}

/// An answer that the host has not yet transmitted.
enum Answer {
    Packet(TxPacket),
    Read(ReadStream),
}

pub(crate) struct Host {
    pub(crate) qp: Qp,
    pub(crate) rq: RecvQueue,
    pub(crate) keys: Keys,
    pub(crate) key: u32,
    pub(crate) memory: Vec<u8>,
    inline: Vec<Vec<u8>>,
    answers: VecDeque<Answer>,
    /// CQEs in order.
    pub(crate) cqes: Vec<(Queue, Wc, u32)>,
    /// All completions, including completions without a CQE.
    pub(crate) completed: Vec<(Queue, Wc)>,
    pub(crate) solicited: Vec<bool>,
    pub(crate) atomics: u32,
    pub(crate) failures: u32,
    out: Vec<Action>,
}

impl Host {
    fn new(num: u32, setup: &Setup) -> Host {
        let attr = QpInitAttr { sq_sig_all: setup.sq_sig_all, ..QpInitAttr::new(setup.qp_type, setup.cap) };
        let mut keys = Keys::default();
        let access = AccessFlags::all();
        let key = keys.register(Region { pd: PD, addr: BASE, len: setup.memory as u64, access });
        assert_eq!(key, KEY);
        Host {
            qp: Qp::new(num, PD, &attr, setup.srq),
            rq: RecvQueue::new(PD, setup.cap.max_recv_wr, setup.cap.max_recv_sge),
            keys,
            key,
            memory: vec![0; setup.memory],
            inline: vec![Vec::new(); setup.cap.max_send_wr as usize],
            answers: VecDeque::new(),
            cqes: Vec::new(),
            completed: Vec::new(),
            solicited: Vec::new(),
            atomics: 0,
            failures: 0,
            out: Vec::new(),
        }
    }

    pub(crate) fn bytes(&self, addr: u64, len: u32) -> &[u8] {
        &self.memory[(addr - BASE) as usize..][..len as usize]
    }

    pub(crate) fn bytes_mut(&mut self, addr: u64, len: u32) -> &mut [u8] {
        &mut self.memory[(addr - BASE) as usize..][..len as usize]
    }

    pub(crate) fn word(&self, addr: u64) -> u64 {
        u64::from_ne_bytes(self.bytes(addr, 8).try_into().unwrap())
    }

    fn message(&self, slot: u32) -> Vec<u8> {
        let wqe = self.qp.send_wqe(slot);
        if wqe.flags.contains(SendFlags::INLINE) {
            return self.inline[slot as usize].clone();
        }
        wqe.sges.iter().flat_map(|s| self.bytes(s.addr, s.length).iter().copied()).collect()
    }

    fn atomic(&mut self, addr: u64, op: AtomicOp) -> u64 {
        let original = self.word(addr);
        self.bytes_mut(addr, 8).copy_from_slice(&op.apply(original).to_ne_bytes());
        self.atomics += 1;
        original
    }
}

struct Flight {
    at: Time,
    to: usize,
    packet: Packet,
    payload: Vec<u8>,
}

pub(crate) struct Net {
    pub(crate) hosts: [Host; 2],
    pub(crate) now: Time,
    pub(crate) rng: Rng,
    pub(crate) faults: Faults,
    /// Packets that a host transmitted, lost or not.
    pub(crate) log: Vec<(usize, Packet)>,
    /// Extra losses: `true` loses the packet.
    pub(crate) lose: Box<dyn FnMut(&Packet) -> bool>,
    flights: Vec<Flight>,
    setup: Setup,
}

impl Net {
    /// Two hosts with connected QPs in Rts.
    pub(crate) fn new(setup: Setup) -> Net {
        let mut net = Net::down(setup);
        for host in 0..2 {
            net.bring_up(host);
        }
        net
    }

    /// Two hosts whose QPs are in Reset.
    pub(crate) fn down(setup: Setup) -> Net {
        Net {
            hosts: [Host::new(1, &setup), Host::new(2, &setup)],
            now: Time::START,
            rng: Rng(1),
            faults: Faults::default(),
            log: Vec::new(),
            lose: Box::new(|_| false),
            flights: Vec::new(),
            setup,
        }
    }

    pub(crate) fn bring_up(&mut self, host: usize) {
        for attr in attributes(&self.setup, 2 - host as u32) {
            self.modify(host, &attr).expect("the way to Rts");
        }
        self.hosts[host].qp.set_port_mtu(Mtu::Mtu256);
    }

    pub(crate) fn modify(&mut self, host: usize, attr: &QpAttr) -> Result<(), VerbsError> {
        let h = &mut self.hosts[host];
        let done = h.qp.modify(attr, &mut h.rq, &mut h.out);
        self.carry_out(host, &[]);
        done
    }

    /// Posts one work request and rings.
    pub(crate) fn post_send(&mut self, host: usize, wr: &SendWr<'_>) -> Result<u32, VerbsError> {
        let h = &mut self.hosts[host];
        let slot = h.qp.post_send(wr)?;
        if wr.flags.contains(SendFlags::INLINE) {
            h.inline[slot as usize] =
                wr.sg_list.iter().flat_map(|s| h.bytes(s.addr, s.length).to_vec()).collect();
        }
        h.qp.ring(1, &mut h.out);
        self.carry_out(host, &[]);
        Ok(slot)
    }

    pub(crate) fn post_recv(&mut self, host: usize, wr: &RecvWr<'_>) -> Result<(), VerbsError> {
        let h = &mut self.hosts[host];
        h.rq.post(wr)?;
        h.rq.ring(1);
        h.qp.recv_posted(&mut h.rq, &mut h.out);
        self.carry_out(host, &[]);
        Ok(())
    }

    /// Hands a packet to a host as if it had arrived.
    pub(crate) fn deliver(&mut self, host: usize, packet: &Packet, payload: &[u8]) {
        let h = &mut self.hosts[host];
        h.qp.receive(self.now, packet, &h.keys, &mut h.rq, &mut h.out);
        self.carry_out(host, payload);
    }

    fn carry_out(&mut self, host: usize, payload: &[u8]) {
        let h = &mut self.hosts[host];
        let mut actions = std::mem::take(&mut h.out);
        for action in actions.drain(..) {
            match action {
                Action::Place { addr, payload_offset, len } => {
                    let part = &payload[payload_offset as usize..][..len as usize];
                    h.bytes_mut(addr, len).copy_from_slice(part);
                }
                Action::PlaceAtomic { addr, original } => {
                    h.bytes_mut(addr, 8).copy_from_slice(&original.to_ne_bytes());
                }
                Action::Complete { queue, wc, slot, signaled, solicited } => {
                    h.completed.push((queue, wc));
                    if signaled {
                        h.cqes.push((queue, wc, slot));
                        h.solicited.push(solicited);
                    }
                }
                Action::Respond(packet) => h.answers.push_back(Answer::Packet(packet)),
                Action::RespondRead(stream) => h.answers.push_back(Answer::Read(stream)),
                Action::Transmit => {}
                Action::Failed => h.failures += 1,
            }
        }
        if h.failures > 0 {
            h.qp.recv_posted(&mut h.rq, &mut actions);
            let late = !actions.is_empty();
            h.out = actions;
            if late {
                self.carry_out(host, &[]);
            }
        } else {
            h.out = actions;
        }
    }

    fn transmit(&mut self, from: usize, tx: TxPacket) {
        let h = &mut self.hosts[from];
        let mut packet = tx.packet;
        let payload = match tx.source {
            Source::None => Vec::new(),
            Source::Wqe { slot, offset, len } => h.message(slot)[..]
                [if len == 0 { 0..0 } else { offset as usize..(offset + len) as usize }]
            .to_vec(),
            Source::Memory { addr, len } => h.bytes(addr, len).to_vec(),
            Source::Atomic { addr, op, resource } => {
                let original = h.atomic(addr, op);
                h.qp.atomic_done(resource, original);
                packet.body = Body::AtomicAck { original };
                Vec::new()
            }
        };
        assert_eq!(payload.len(), packet.payload_len as usize);
        self.log.push((from, packet));
        let copies = 1 + u64::from(self.rng.chance(self.faults.duplication));
        for _ in 0..copies {
            if (self.lose)(&packet) || self.rng.chance(self.faults.loss) {
                continue;
            }
            let late = if self.rng.chance(self.faults.reordering) { self.rng.below(4_000_000) } else { 0 };
            let at = self.now + Span::from_ps(1_000_000 + late);
            self.flights.push(Flight { at, to: 1 - from, packet, payload: payload.clone() });
        }
    }

    /// Transmits one packet of the host. Returns `false` if there is none.
    fn transmit_one(&mut self, host: usize) -> bool {
        let h = &mut self.hosts[host];
        let answer = match h.answers.pop_front() {
            Some(Answer::Packet(packet)) => Some(packet),
            Some(Answer::Read(mut stream)) => {
                let packet = stream.next();
                if !stream.done {
                    h.answers.push_front(Answer::Read(stream));
                }
                packet
            }
            None => None,
        };
        let tx = answer.or_else(|| h.qp.next_request(self.now, &h.keys, &mut h.out));
        self.carry_out(host, &[]);
        tx.map(|tx| self.transmit(host, tx)).is_some()
    }

    /// Runs until nothing is in flight or the time is past `until`.
    pub(crate) fn run_until(&mut self, until: Time) {
        while self.now <= until {
            let mut busy = false;
            for host in 0..2 {
                for _ in 0..=self.rng.below(3) {
                    busy |= self.transmit_one(host);
                }
            }
            if busy {
                self.now += Span::from_ns(50);
            } else {
                let deadlines = self.hosts.iter().filter_map(|h| h.qp.deadline());
                let Some(next) = self.flights.iter().map(|f| f.at).chain(deadlines).min() else { return };
                if next > until {
                    self.now = until;
                    return;
                }
                self.now = self.now.max(next);
            }
            self.pass_time();
        }
    }

    /// Runs until nothing is in flight.
    pub(crate) fn run(&mut self) {
        self.run_until(Time::from_ps(10_000_000_000_000));
        assert!(self.flights.is_empty(), "still busy after 10 s");
    }

    fn pass_time(&mut self) {
        let now = self.now;
        let mut due: Vec<Flight> = Vec::new();
        let mut i = 0;
        while i < self.flights.len() {
            if self.flights[i].at <= now {
                due.push(self.flights.remove(i));
            } else {
                i += 1;
            }
        }
        due.sort_by_key(|f| f.at);
        for flight in due {
            self.deliver(flight.to, &flight.packet, &flight.payload);
        }
        for host in 0..2 {
            let h = &mut self.hosts[host];
            if h.qp.deadline().is_some_and(|d| d <= now) {
                h.qp.timeout(now, &h.keys, &mut h.out);
                self.carry_out(host, &[]);
            }
        }
    }
}

/// The changes that bring a QP from Reset to Rts.
pub(crate) fn attributes(setup: &Setup, dest_qp_num: u32) -> [QpAttr; 3] {
    let rc = setup.qp_type == QpType::Rc;
    let ud = setup.qp_type == QpType::Ud;
    let ah = AhAttr { port_num: 1, dlid: 1, sl: 0, grh: None };
    let init = QpAttr {
        qp_state: Some(QpState::Init),
        pkey_index: Some(0),
        port_num: Some(1),
        qp_access_flags: (!ud).then_some(setup.access),
        qkey: ud.then_some(QKEY),
        ..QpAttr::default()
    };
    let rtr = QpAttr {
        qp_state: Some(QpState::Rtr),
        ah_attr: (!ud).then_some(ah),
        path_mtu: (!ud).then_some(Mtu::Mtu256),
        dest_qp_num: (!ud).then_some(dest_qp_num),
        rq_psn: (!ud).then_some(setup.psn),
        max_dest_rd_atomic: rc.then_some(setup.max_dest_rd_atomic),
        min_rnr_timer: rc.then_some(setup.min_rnr_timer),
        ..QpAttr::default()
    };
    let rts = QpAttr {
        qp_state: Some(QpState::Rts),
        sq_psn: Some(setup.psn),
        timeout: rc.then_some(setup.timeout),
        retry_cnt: rc.then_some(setup.retry_cnt),
        rnr_retry: rc.then_some(setup.rnr_retry),
        max_rd_atomic: rc.then_some(setup.max_rd_atomic),
        ..QpAttr::default()
    };
    [init, rtr, rts]
}
