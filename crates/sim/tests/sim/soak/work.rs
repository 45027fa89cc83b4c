//! Posts of work requests, and accesses of the processor to memory.

use super::ledger::{Owner, Sent};
use super::objects::QKEY;
use super::thread::{Card, MOST_POLLED, Thread};
use doorbell_verbs::{
    Mem, Opcode, PostError, Provider, QpType, RecvWr, RemoteAddr, SendFlags, SendOp, SendWr, Sge, UdDest,
};

/// A device and a PD on it, whose regions may be used.
type Home = (usize, usize);

/// A send work request with its borrowed parts.
struct Drawn {
    wr_id: u64,
    op: SendOp,
    sges: Vec<Sge>,
    flags: SendFlags,
    dest: Option<UdDest>,
}

/// Number of work requests of a list that were posted.
fn taken(list: usize, result: &Result<(), PostError>) -> usize {
    result.as_ref().map_or_else(|error| error.index, |()| list)
}

impl<P: Provider> Thread<'_, P> {
    /// Posts a list of send work requests.
    pub(crate) fn post_sends(&mut self, slot: usize) {
        if self.slots[slot].is_none() {
            return;
        }
        let card = self.peer(slot);
        let count =
            if self.draw.percent(5) { self.draw.below(120) } else { self.draw.of(&[1, 1, 1, 2, 4, 8]) };
        let list: Vec<Drawn> = (0..count).map(|_| self.send(slot, &card)).collect();
        let wrs: Vec<SendWr<'_>> = list
            .iter()
            .map(|d| SendWr { wr_id: d.wr_id, op: d.op, sg_list: &d.sges, flags: d.flags, dest: d.dest })
            .collect();
        let Some(own) = &mut self.slots[slot] else { return };
        let posted = taken(list.len(), &own.qp.post_send(&wrs));
        self.ledger.tally.sends += posted as u64;
        let signals_all = own.signals_all;
        own.posted.sends.extend(list[..posted].iter().map(|d| Sent {
            wr_id: d.wr_id,
            signaled: signals_all || d.flags.contains(SendFlags::SIGNALED),
            opcode: d.op.opcode().into(),
        }));
    }

    fn send(&mut self, slot: usize, card: &Card) -> Drawn {
        let (qp_type, cap, home) = match &self.slots[slot] {
            Some(own) => (own.qp.qp_type(), own.cap, (own.device, own.pd)),
            None => (QpType::Rc, Default::default(), (0, 0)),
        };
        let wr_id = self.ledger.wr_id(Owner::Send);
        let opcode = self.opcode(qp_type);
        let most = self.length(opcode, qp_type, card);
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, self.draw.percent(60));
        flags.set(SendFlags::FENCE, self.draw.percent(10));
        flags.set(SendFlags::SOLICITED, self.draw.percent(10));
        let inlines =
            !opcode.returns_data() && most <= u64::from(cap.max_inline_data) && self.draw.percent(60);
        flags.set(SendFlags::INLINE, inlines || self.wild());
        let sges = if opcode.is_atomic() && !self.wild() {
            vec![self.sge(home, 8)]
        } else {
            self.sges(home, cap.max_send_sge, most)
        };
        let length = sges.iter().map(|s| u64::from(s.length)).sum();
        let op = self.op(opcode, card, length);
        let dest = if (qp_type == QpType::Ud) != self.wild() { self.dest(slot, card) } else { None };
        Drawn { wr_id, op, sges, flags, dest }
    }

    /// Bytes of a message. Mostly they fit their destination.
    fn length(&mut self, opcode: Opcode, qp_type: QpType, card: &Card) -> u64 {
        let length = self.draw.length();
        match opcode {
            _ if self.wild() => length,
            _ if qp_type == QpType::Ud => length.min(2048),
            Opcode::Send | Opcode::SendWithImm if self.draw.percent(90) => length.min(4000),
            Opcode::Send | Opcode::SendWithImm => length,
            _ => length.min(card.len),
        }
    }

    /// A random verb, which mostly suits the transport.
    fn opcode(&mut self, qp_type: QpType) -> Opcode {
        let opcode = self.draw.of(&Opcode::ALL);
        if opcode.is_offered_by(qp_type) || self.wild() { opcode } else { Opcode::Send }
    }

    fn op(&mut self, opcode: Opcode, card: &Card, length: u64) -> SendOp {
        let remote = self.remote(card, length, opcode.is_atomic());
        let imm = self.draw.any() as u32;
        match opcode {
            Opcode::Send => SendOp::Send,
            Opcode::SendWithImm => SendOp::SendWithImm(imm),
            Opcode::Write => SendOp::Write(remote),
            Opcode::WriteWithImm => SendOp::WriteWithImm(remote, imm),
            Opcode::Read => SendOp::Read(remote),
            Opcode::CompareSwap => {
                SendOp::CompareSwap { remote, compare: self.draw.below(3), swap: self.draw.below(3) }
            }
            Opcode::FetchAdd => SendOp::FetchAdd { remote, add: self.draw.any() },
        }
    }

    /// An address in the peer's memory at which `length` bytes fit, if possible.
    fn remote(&mut self, card: &Card, length: u64, aligned: bool) -> RemoteAddr {
        let mut remote = card.remote.at(self.draw.within(0..=card.len.saturating_sub(length)));
        if aligned && !self.wild() {
            remote.addr &= !7;
        }
        if self.wild() {
            let outside = !(64 * self.draw.below(1 << 20));
            match self.draw.below(4) {
                0 => remote.rkey = self.draw.any() as u32,
                1 => remote.rkey = remote.rkey.wrapping_add(self.draw.of(&[1, 0x100, 0xffff_ff00])),
                2 => remote.addr = self.draw.of(&[0, 1, 1 << 40, u64::MAX - 7, u64::MAX, outside]),
                _ => remote = remote.at(card.len),
            }
        }
        remote
    }

    /// SGEs of `most` bytes in total, as far as the regions reach.
    fn sges(&mut self, home: Home, max_sge: u32, most: u64) -> Vec<Sge> {
        let mut count = self.draw.below(u64::from(max_sge.min(6)) + 1).max(u64::from(max_sge.min(1)));
        if self.wild() {
            count = u64::from(max_sge) + self.draw.below(3);
        }
        let mut left = most;
        (0..count)
            .map(|n| {
                let part = if n + 1 == count { left } else { self.draw.within(0..=left) };
                left -= part;
                self.sge(home, part)
            })
            .collect()
    }

    /// An SGE of `length` bytes, or fewer, in a region of a PD.
    fn sge(&mut self, (device, pd): Home, length: u64) -> Sge {
        let device = &self.devices[device];
        let regions: Vec<_> = device.mrs.iter().filter(|(of, _)| *of == pd).map(|(_, mr)| mr).collect();
        let mut sge = match regions.len() {
            0 => Sge { addr: 1 << 40, length: length as u32, lkey: 0 },
            n => {
                let mr = regions[self.draw.index(n)];
                let large = regions.iter().find(|mr| mr.mem().len() >= length);
                let mr = if mr.mem().len() < length { large.unwrap_or(&mr) } else { &mr };
                let length = length.min(mr.mem().len());
                mr.sge(self.draw.within(0..=mr.mem().len() - length), length as u32)
            }
        };
        let (any, stale) = (device.mrs.last().map(|(_, mr)| mr.lkey()), device.stale_sges.last().copied());
        if self.wild() {
            match self.draw.below(7) {
                0 => sge.lkey = self.draw.any() as u32,
                1 => sge.lkey = any.unwrap_or_default(),
                2 => sge = stale.unwrap_or_default(),
                3 => sge.addr = self.draw.of(&[0, 1 << 40, sge.addr.wrapping_add(1 << 20), u64::MAX - 3]),
                4 => sge.length = self.draw.of(&[0, 1 << 20, 1 << 31, u32::MAX]),
                5 => sge.addr = sge.addr.wrapping_add(self.draw.within(1..=100)),
                _ => sge.length = sge.length.wrapping_add(self.draw.within(1..=70) as u32),
            }
        }
        sge
    }

    fn dest(&mut self, slot: usize, card: &Card) -> Option<UdDest> {
        let own = self.slots[slot].as_ref()?;
        let mut device = own.device;
        if self.wild() {
            device = self.draw.index(self.devices.len());
        }
        let stale = self.wild();
        let qkey = if self.wild() { self.draw.any() as u32 } else { QKEY };
        let device = &self.devices[device];
        if stale && let Some(dest) = device.stale_dests.last() {
            return Some(*dest);
        }
        if device.ahs.is_empty() {
            return None;
        }
        Some(device.ahs[self.draw.index(device.ahs.len())].dest(card.endpoint.qpn, qkey))
    }

    /// Posts a list of RECVs to the QP or to an SRQ.
    pub(crate) fn post_recvs(&mut self, slot: usize) {
        let Some(own) = &self.slots[slot] else { return };
        if own.uses_srq && !self.draw.percent(10) {
            return self.post_shared(slot);
        }
        let (home, max_sge) = ((own.device, own.pd), own.cap.max_recv_sge);
        let count = self.draw.of(&[1, 1, 2, 4, 10, 40]);
        let list: Vec<(u64, Vec<Sge>)> =
            (0..count).map(|_| (self.ledger.wr_id(Owner::Recv), self.recv_sges(home, max_sge))).collect();
        let wrs: Vec<RecvWr<'_>> =
            list.iter().map(|(wr_id, s)| RecvWr { wr_id: *wr_id, sg_list: s }).collect();
        let Some(own) = &mut self.slots[slot] else { return };
        let posted = taken(list.len(), &own.qp.post_recv(&wrs));
        self.ledger.tally.recvs += posted as u64;
        own.posted.recvs.extend(
            list[..posted].iter().map(|(wr_id, s)| (*wr_id, s.iter().map(|s| u64::from(s.length)).sum())),
        );
    }

    fn recv_sges(&mut self, home: Home, max_sge: u32) -> Vec<Sge> {
        let most = match self.draw.below(100) {
            0..80 => 4096,
            80..97 => 50_000,
            _ => self.draw.length(),
        };
        self.sges(home, max_sge, most)
    }

    /// Posts RECVs to an SRQ of the QP's device.
    fn post_shared(&mut self, slot: usize) {
        let Some(own) = &self.slots[slot] else { return };
        let device = own.device;
        let count = self.draw.of(&[1, 1, 4, 20]);
        let Some(index) =
            self.devices[device].srqs.len().checked_sub(1).map(|last| self.draw.index(last + 1))
        else {
            return;
        };
        let shared = &self.devices[device].srqs[index];
        let (home, max_sge) = ((device, shared.pd), shared.max_sge);
        let list: Vec<(u64, Vec<Sge>)> =
            (0..count).map(|_| (self.ledger.wr_id(Owner::Srq), self.recv_sges(home, max_sge))).collect();
        let wrs: Vec<RecvWr<'_>> =
            list.iter().map(|(wr_id, s)| RecvWr { wr_id: *wr_id, sg_list: s }).collect();
        let posted = taken(list.len(), &self.devices[device].srqs[index].srq.post_recv(&wrs));
        list[..posted].iter().for_each(|(wr_id, _)| self.ledger.shared(*wr_id));
    }

    /// An offset in `mem` at which `len` bytes fit. It is a multiple of 8, or of `len` rounded up to a power
    /// of two if that is smaller.
    fn offset(&mut self, mem: Mem, len: u64) -> Option<u64> {
        let step = len.next_power_of_two().min(8);
        let most = mem.len().checked_sub(len)?;
        Some(self.draw.within(0..=most / step) * step)
    }

    /// Loads, stores and atomics on memory that NICs may write meanwhile.
    pub(crate) fn touch_memory(&mut self) {
        let p = self.p;
        let mem = self.draw.of(&self.mems);
        let len = self.draw.of(&[1, 4, 8, 8, 64, 100, 700, 5_000]);
        let Some(at) = self.offset(mem, len) else { return };
        let mut bytes = vec![self.draw.any() as u8; len as usize];
        match (len, self.draw.below(4)) {
            (1, 0..2) => _ = p.load_u8(mem, at),
            (1, _) => p.store_u8(mem, at, bytes[0]),
            (4, 0..2) => _ = p.load_u32(mem, at),
            (4, _) => p.store_u32(mem, at, bytes[0].into()),
            (8, 0) => _ = p.load_u64(mem, at),
            (8, 1) => p.store_u64(mem, at, bytes[0].into()),
            (8, 2) => _ = p.fetch_add_u64(mem, at, bytes[0].into()),
            (8, _) => _ = p.compare_swap_u64(mem, at, 0, bytes[0].into()),
            (_, 0) => p.read(mem, at, &mut bytes),
            (_, 1) => p.write(mem, at, &bytes),
            (_, 2) => p.prefetch(mem, at, len),
            (_, _) => self.copy(mem, at, len),
        }
    }

    fn copy(&mut self, from: Mem, at: u64, len: u64) {
        let to = self.draw.of(&self.mems);
        if to != from
            && let Some(into) = self.offset(to, len)
        {
            self.p.copy(to, into, from, at, len);
        }
    }

    /// Waits for a completion or for memory to change, with a short deadline.
    pub(crate) fn wait(&mut self) {
        let (p, deadline) = (self.p, self.deadline());
        let mem = self.draw.of(&self.mems);
        let place = self.offset(mem, 8);
        let polls = self.draw.percent(70);
        let before = place.map(|at| p.load_u64(mem, at));
        let mut spare = if self.plan.orderly { 0 } else { self.draw.below(4) };
        while p.now() < deadline || spare > 0 {
            spare = spare.saturating_sub(1);
            if polls && self.poll_all(MOST_POLLED) > 0 || place.map(|at| p.load_u64(mem, at)) != before {
                return;
            }
            if !self.plan.orderly && self.draw.percent(10) {
                self.touch_memory(); // A pass with this is not repeated.
            }
            p.pause(deadline);
        }
    }
}
