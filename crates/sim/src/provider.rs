//! A thread's verbs and processor in virtual time.

use crate::memory::{LINE, Place, Reach, lines_touched};
use crate::nic::{CqSlot, FIRST_QPN, Flow, NONE, QpSlot, RecvSlot, WqeSlot};
use crate::queue::{Event, Key};
use crate::slab::Payload;
use crate::thread::{Look, Waiting};
use crate::tx::FIRST_LID;
use crate::world::World;
use corosensei::Yielder;
use doorbell_nic::PostShape;
use doorbell_nic::accounting::Method;
use doorbell_nic::wqe;
use doorbell_transport::{Qp, RecvQueue, Region};
use doorbell_verbs::{
    AccessFlags, AhAttr, AhHandle, Cpu, CqHandle, DeviceAttr, DeviceHandle, Gid, LinkLayer, Mem, MrHandle,
    MrKeys, PageSize, PdHandle, PortAttr, PostError, Provider, QpAttr, QpHandle, QpInitAttr, QpObjects,
    QpState, RecvWr, SendFlags, SendWr, Span, SrqAttr, SrqHandle, Time, VerbsError, Wc,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The provider of one simulated thread.
#[derive(Clone)]
pub struct SimProvider<'y> {
    world: Rc<RefCell<World>>,
    thread: u32,
    machine: u16,
    core: u32,
    yielder: &'y Yielder<(), ()>,
}

fn invalid<T>(message: String) -> Result<T, VerbsError> {
    Err(VerbsError::Invalid(message))
}

impl<'y> SimProvider<'y> {
    pub(crate) fn new(
        world: Rc<RefCell<World>>,
        thread: u32,
        machine: u16,
        core: u32,
        yielder: &'y Yielder<(), ()>,
    ) -> SimProvider<'y> {
        SimProvider { world, thread, machine, core, yielder }
    }

    /// Lets everything happen that comes before this thread's clock.
    fn sync(&self) {
        if std::thread::panicking() {
            return; // The thread is being taken down.
        }
        if !self.catch_up(&mut self.world.borrow_mut()) {
            self.yielder.suspend(());
        }
    }

    /// [`SimProvider::sync`] up to where another thread comes first; false then.
    #[inline]
    fn catch_up(&self, w: &mut World) -> bool {
        let clock = w.threads[self.thread as usize].clock;
        if clock <= w.end && w.run_before(Key::thread(clock, self.thread)) {
            return true;
        }
        w.schedule(self.thread, clock);
        false
    }

    fn advance(&self, ps: u64) {
        self.world.borrow_mut().threads[self.thread as usize].clock += ps;
    }

    /// Begins something that has an effect, at this thread's clock.
    fn effect(&self) {
        if std::thread::panicking() {
            return;
        }
        let caught_up = {
            let mut w = self.world.borrow_mut();
            w.threads[self.thread as usize].effect();
            self.catch_up(&mut w)
        };
        if !caught_up {
            self.yielder.suspend(());
        }
    }

    fn locate(&self, w: &World, mem: Mem, offset: u64, len: u64) -> Place {
        let start = mem.locate(offset, len);
        assert!(
            w.machines[usize::from(self.machine)].memory.owns(mem),
            "access to memory that machine {} does not have",
            self.machine
        );
        Place { allocation: mem.allocation(), offset: start }
    }

    /// Cost of reaching the line at `place`, waiting for a transfer that is under way.
    fn reach(&self, w: &mut World, place: Place, store: bool) -> u64 {
        let clock = w.threads[self.thread as usize].clock;
        let host = &w.profile.host;
        let (l1, llc, dma, other, dram) = (
            host.l1_hit.as_ps(),
            host.llc_hit.as_ps(),
            host.dma_line.as_ps(),
            host.line_transfer.as_ps(),
            host.dram.as_ps(),
        );
        let overlaps = !w.threads[self.thread as usize].serialized;
        let memory = &mut w.machines[usize::from(self.machine)].memory;
        let (reach, busy_until) =
            if store { memory.store(place, self.core) } else { memory.load(place, self.core) };
        let wait = busy_until.saturating_sub(clock);
        let cost = match reach {
            Reach::Own => return wait + l1,
            Reach::LastLevel if store => llc,
            Reach::LastLevel if overlaps => dma,
            Reach::LastLevel => llc.max(dma),
            Reach::OtherCore => other,
            Reach::Dram => dram,
        };
        memory.set_busy(place, clock + wait + cost);
        w.threads[self.thread as usize].serialized = false;
        wait + cost
    }

    /// A load that a pass may be skipped with.
    fn load(&self, mem: Mem, offset: u64, len: u64) -> u64 {
        assert!(offset.is_multiple_of(len), "a word must be naturally aligned");
        {
            let mut w = self.world.borrow_mut();
            let place = self.locate(&w, mem, offset, len);
            let same = |look: &Look| matches!(look, Look::Load { place: p, .. } if *p == place);
            let t = self.thread;
            if let Some(Look::Load { value, .. }) = w.threads[t as usize].replayed(t, same) {
                return value;
            }
        }
        self.sync();
        let mut w = self.world.borrow_mut();
        let place = self.locate(&w, mem, offset, len);
        let cost = self.reach(&mut w, place, false);
        let mut bytes = [0; 8];
        bytes[..len as usize].copy_from_slice(w.machines[usize::from(self.machine)].memory.bytes(place, len));
        let value = u64::from_le_bytes(bytes);
        let thread = &mut w.threads[self.thread as usize];
        thread.clock += cost;
        thread.note(Look::Load { place, value }, cost);
        value
    }

    /// Stores within one line.
    fn store(&self, mem: Mem, offset: u64, bytes: &[u8]) {
        self.effect();
        let mut w = self.world.borrow_mut();
        let place = self.locate(&w, mem, offset, bytes.len() as u64);
        let cost = self.reach(&mut w, place, true);
        self.change(&mut w, place, |to| to.copy_from_slice(bytes), bytes.len() as u64);
        w.threads[self.thread as usize].clock += cost;
    }

    /// Changes memory and wakes who waits for it.
    fn change(&self, w: &mut World, place: Place, change: impl FnOnce(&mut [u8]), len: u64) {
        let memory = &mut w.machines[usize::from(self.machine)].memory;
        change(memory.bytes_mut(place, len));
        let watchers = memory.take_watchers(place) & !(1 << self.core);
        if watchers != 0 {
            w.wake(self.machine, watchers);
        }
    }

    fn read_modify_write(&self, mem: Mem, offset: u64, op: impl FnOnce(u64) -> u64) -> u64 {
        assert!(offset.is_multiple_of(8), "a word must be naturally aligned");
        self.effect();
        let mut w = self.world.borrow_mut();
        let place = self.locate(&w, mem, offset, 8);
        let atomic = w.profile.host.atomic_op.as_ps();
        let cost = self.reach(&mut w, place, true) + atomic;
        let thread = &mut w.threads[self.thread as usize];
        thread.serialized = true;
        let clock = thread.clock;
        let memory = &mut w.machines[usize::from(self.machine)].memory;
        memory.set_busy(place, clock + cost);
        let original = memory.load_u64(place);
        let new = op(original);
        self.change(&mut w, place, |to| to.copy_from_slice(&new.to_le_bytes()), 8);
        w.threads[self.thread as usize].clock += cost;
        original
    }

    /// Whether everything the last pass looked at is still as it was, and at hand.
    fn unchanged(&self, w: &World) -> bool {
        let thread = &w.threads[self.thread as usize];
        let machine = &w.machines[usize::from(self.machine)];
        thread.last_steps().iter().all(|step| match step.look {
            Look::Work => true,
            Look::Poll { cq } => {
                machine.nic.cqs[cq as usize].as_ref().is_some_and(|c| c.entries.is_empty() && !c.overrun)
            }
            Look::Load { place, .. } => machine.memory.holds(place, self.core),
            Look::Read { place, len } => {
                lines_of(place, u64::from(len)).all(|line| machine.memory.holds(line, self.core))
            }
        })
    }

    /// Asks to be woken when something changes that the last pass looked at.
    fn watch(&self, w: &mut World) {
        let World { threads, machines, .. } = w;
        let machine = &mut machines[usize::from(self.machine)];
        for step in threads[self.thread as usize].last_steps() {
            match step.look {
                Look::Work => {}
                Look::Poll { cq } => {
                    if let Some(cq) = &mut machine.nic.cqs[cq as usize] {
                        cq.watchers |= 1 << self.core;
                    }
                }
                Look::Load { place, .. } => machine.memory.watch(place, self.core),
                Look::Read { place, len } => {
                    let mut at = place.offset;
                    while at < place.offset + u64::from(len) {
                        machine.memory.watch(Place { offset: at, ..place }, self.core);
                        at = (at / LINE + 1) * LINE;
                    }
                }
            }
        }
    }

    /// Sends lines of a WQE, or a doorbell, through the core's write-combining buffers; returns when
    /// the last has left the host.
    fn mmio(&self, writes: u32, cost: u64, doorbell: bool) -> u64 {
        let mut left = 0;
        for _ in 0..writes {
            {
                let mut w = self.world.borrow_mut();
                let buffers = w.profile.host.wc_buffers as usize;
                let t = &mut w.threads[self.thread as usize];
                t.clock += cost;
                while t.mmio_leaves.front().is_some_and(|&l| l <= t.clock) {
                    t.mmio_leaves.pop_front();
                }
                if t.mmio_leaves.len() >= buffers {
                    t.clock = t.mmio_leaves.pop_front().unwrap_or(t.clock).max(t.clock);
                }
            }
            self.sync();
            let mut w = self.world.borrow_mut();
            let (clock, window) = (w.threads[self.thread as usize].clock, w.window);
            let pcie = &mut w.machines[usize::from(self.machine)].pcie;
            left = if doorbell { pcie.doorbell(clock, window) } else { pcie.mmio_line(clock, window) };
            let thread = &mut w.threads[self.thread as usize];
            thread.mmio_leaves.push_back(left);
            thread.serialized = true;
        }
        left
    }

    /// Writes one WQE to the send queue; returns how many lines it has.
    fn build_wqe(&self, qp: QpHandle, wr: &SendWr<'_>) -> Result<u32, VerbsError> {
        let mut w = self.world.borrow_mut();
        let World { machines, payloads, threads, profile, .. } = &mut *w;
        let host = &profile.host;
        let machine = &mut machines[usize::from(self.machine)];
        let slot = machine
            .nic
            .qps
            .get_mut(qp.0 as usize)
            .filter(|q| q.alive)
            .ok_or_else(|| VerbsError::Invalid("there is no such QP".into()))?;
        if let Some(dest) = wr.dest
            && machine.nic.ahs.get(dest.ah.0 as usize).copied().flatten().is_none()
        {
            return invalid("there is no such address handle".into());
        }
        let length = u32::try_from(wr.length()).unwrap_or(u32::MAX);
        let is_inline = wr.flags.contains(SendFlags::INLINE);
        if is_inline && wr.sg_list.iter().any(|s| machine.memory.place(s.addr, u64::from(s.length)).is_none())
        {
            return invalid("inline data outside of the machine's memory".into());
        }
        let index = slot.qp.post_send(wr)?;
        let shape = PostShape {
            opcode: wr.op.opcode(),
            qp_type: slot.qp.qp_type(),
            payload: length,
            sges: wr.sg_list.len() as u32,
            inline: is_inline,
            signaled: wr.flags.contains(SendFlags::SIGNALED),
            method: Method::WqeByMmio,
        };
        let bytes = shape.wqe_bytes();
        let mut inline = Payload::EMPTY;
        if is_inline && length > 0 {
            inline = payloads.take(length);
            let mut into = 0;
            for s in wr.sg_list {
                if let Some(place) = machine.memory.place(s.addr, u64::from(s.length)) {
                    let to = &mut payloads.bytes_mut(inline)[into..][..s.length as usize];
                    to.copy_from_slice(machine.memory.bytes(place, u64::from(s.length)));
                    into += s.length as usize;
                }
            }
        }
        payloads.give(slot.wqes[index as usize].inline);
        slot.wqes[index as usize] = WqeSlot { inline, bytes: bytes as u16, by_mmio: false, entered: 0 };
        slot.posted.push_back(index);
        let lines = wqe::lines(bytes);
        let copied = if is_inline { u64::from(length.div_ceil(wqe::LINE)) } else { 0 };
        threads[self.thread as usize].clock +=
            (host.build_wqe + host.build_line * u64::from(lines) + host.inline_copy_line * copied).as_ps();
        Ok(lines)
    }

    /// Tells the NIC of `count` WQEs, the only one of which has `lines` lines.
    fn announce(&self, qp: QpHandle, count: u32, lines: u32) {
        let (line, doorbell) = {
            let host = &self.world.borrow().profile.host;
            (host.mmio_line.as_ps(), host.doorbell.as_ps())
        };
        let by_mmio = Method::of_list(count) == Method::WqeByMmio;
        let left = if by_mmio { self.mmio(lines, line, false) } else { self.mmio(1, doorbell, true) };
        let mut w = self.world.borrow_mut();
        let at = w.machines[usize::from(self.machine)].pcie.mmio_arrives(left);
        w.queue.push(at, Event::Mmio { machine: self.machine, count: count as u16, qp: qp.0, by_mmio });
    }

    fn post_to(&self, recv_queue: u32, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        let (call, each, doorbell) = {
            let host = &self.world.borrow().profile.host;
            (host.post_call, host.post_recv_wqe, host.doorbell)
        };
        let mut posted = 0;
        let mut refused = Ok(());
        for (index, wr) in list.iter().enumerate() {
            let mut w = self.world.borrow_mut();
            let queues = &mut w.machines[usize::from(self.machine)].nic.recv_queues;
            match queues[recv_queue as usize].queue.post(wr) {
                Ok(()) => posted += 1,
                Err(cause) => {
                    refused = Err(PostError { index, cause });
                    break;
                }
            }
        }
        self.advance((call + each * posted).as_ps());
        if posted > 0 {
            let left = self.mmio(1, doorbell.as_ps(), true);
            let mut w = self.world.borrow_mut();
            let at = w.machines[usize::from(self.machine)].pcie.mmio_arrives(left);
            let event = Event::RecvDoorbell { machine: self.machine, count: posted as u16, recv_queue };
            w.queue.push(at, event);
        }
        refused
    }

    fn live_qp(&self, qp: QpHandle) -> Result<(), VerbsError> {
        let w = self.world.borrow();
        match w.machines[usize::from(self.machine)].nic.qps.get(qp.0 as usize) {
            Some(slot) if slot.alive => Ok(()),
            _ => invalid("there is no such QP".into()),
        }
    }
}

impl Cpu for SimProvider<'_> {
    fn now(&self) -> Time {
        Time::from_ps(self.world.borrow().threads[self.thread as usize].clock)
    }

    fn work(&self, span: Span) {
        let mut w = self.world.borrow_mut();
        let t = self.thread;
        let thread = &mut w.threads[t as usize];
        if thread.replayed(t, |look| *look == Look::Work).is_none() {
            thread.clock += span.as_ps();
            thread.note(Look::Work, span.as_ps());
        }
    }

    fn pause(&self, deadline: Time) {
        {
            let mut w = self.world.borrow_mut();
            let l1 = w.profile.host.l1_hit.as_ps().max(1);
            let (skip, window) = (w.skip_pauses, w.window);
            let thread = &mut w.threads[self.thread as usize];
            thread.clock += l1;
            thread.serialized = true;
            thread.note(Look::Work, l1);
            let steady = thread.end_pass();
            let (started, since) = (thread.last_pass_started(), thread.clock);
            thread.idle += window.overlap(started, since);
            let deadline = deadline.as_ps();
            if !skip || !steady || since >= deadline || !self.unchanged(&w) {
                return;
            }
            // What changes before the clock comes to `since` wakes the thread at once.
            self.watch(&mut w);
            w.threads[self.thread as usize].waiting =
                Waiting::Pause { since, pass: since - started, deadline, waking: false };
            w.schedule_deadline(self.thread, deadline);
        }
        self.yielder.suspend(());
    }

    fn alloc(&self, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        let mut w = self.world.borrow_mut();
        w.machines[usize::from(self.machine)].memory.alloc(len, page)
    }

    fn load_u8(&self, mem: Mem, offset: u64) -> u8 {
        self.load(mem, offset, 1) as u8
    }

    fn load_u32(&self, mem: Mem, offset: u64) -> u32 {
        self.load(mem, offset, 4) as u32
    }

    fn load_u64(&self, mem: Mem, offset: u64) -> u64 {
        self.load(mem, offset, 8)
    }

    fn store_u8(&self, mem: Mem, offset: u64, value: u8) {
        self.store(mem, offset, &[value]);
    }

    fn store_u32(&self, mem: Mem, offset: u64, value: u32) {
        assert!(offset.is_multiple_of(4), "a word must be naturally aligned");
        self.store(mem, offset, &value.to_le_bytes());
    }

    fn store_u64(&self, mem: Mem, offset: u64, value: u64) {
        assert!(offset.is_multiple_of(8), "a word must be naturally aligned");
        self.store(mem, offset, &value.to_le_bytes());
    }

    fn read(&self, mem: Mem, offset: u64, into: &mut [u8]) {
        let len = into.len() as u64;
        {
            let mut w = self.world.borrow_mut();
            let place = self.locate(&w, mem, offset, len);
            let t = self.thread;
            let look = Look::Read { place, len: len as u32 };
            let thread = &mut w.threads[t as usize];
            if thread.replayed(t, |l| *l == look).is_some() {
                into.copy_from_slice(thread.replayed_bytes(into.len()));
                return;
            }
        }
        self.sync();
        let mut w = self.world.borrow_mut();
        let place = self.locate(&w, mem, offset, len);
        let copy_line = w.profile.host.copy_line.as_ps();
        let mut cost = 0;
        for (i, line) in lines_of(place, len).enumerate() {
            // The hardware prefetcher fetches the lines after the first while they are copied.
            let reach = self.reach(&mut w, line, false);
            cost += if i == 0 { reach } else { copy_line };
        }
        into.copy_from_slice(w.machines[usize::from(self.machine)].memory.bytes(place, len));
        let thread = &mut w.threads[self.thread as usize];
        thread.clock += cost;
        thread.note(Look::Read { place, len: len as u32 }, cost);
        thread.note_bytes(into);
    }

    fn write(&self, mem: Mem, offset: u64, from: &[u8]) {
        // Line by line, so that the NIC can see it half done.
        let mut done = 0;
        while done < from.len() {
            let at = mem.start() + offset + done as u64;
            let part = ((LINE - at % LINE) as usize).min(from.len() - done);
            self.store(mem, offset + done as u64, &from[done..done + part]);
            done += part;
        }
    }

    fn copy(&self, to: Mem, to_offset: u64, from: Mem, from_offset: u64, len: u64) {
        let mut line = [0; LINE as usize];
        let mut done = 0;
        while done < len {
            let at = to.start() + to_offset + done;
            let part = (LINE - at % LINE).min(len - done);
            let bytes = &mut line[..part as usize];
            self.read(from, from_offset + done, bytes);
            self.store(to, to_offset + done, bytes);
            done += part;
        }
    }

    fn prefetch(&self, mem: Mem, offset: u64, len: u64) {
        self.effect();
        let mut w = self.world.borrow_mut();
        let place = self.locate(&w, mem, offset, len);
        let l1 = w.profile.host.l1_hit.as_ps();
        for line in lines_of(place, len) {
            // The line is on its way; a load finds it busy until it is there.
            self.reach(&mut w, line, false);
            w.threads[self.thread as usize].clock += l1;
        }
    }

    fn fetch_add_u64(&self, mem: Mem, offset: u64, add: u64) -> u64 {
        self.read_modify_write(mem, offset, |v| v.wrapping_add(add))
    }

    fn compare_swap_u64(&self, mem: Mem, offset: u64, expected: u64, new: u64) -> u64 {
        self.read_modify_write(mem, offset, |v| if v == expected { new } else { v })
    }
}

/// The places where the lines of a range begin within it.
fn lines_of(place: Place, len: u64) -> impl Iterator<Item = Place> {
    (0..lines_touched(place.offset, len)).map(move |i| {
        let offset = if i == 0 { place.offset } else { (place.offset / LINE + i) * LINE };
        Place { offset, ..place }
    })
}

impl Provider for SimProvider<'_> {
    fn machine(&self) -> u32 {
        u32::from(self.machine)
    }

    fn publish(&self, key: &str, value: &[u8]) {
        self.effect();
        let mut w = self.world.borrow_mut();
        w.published.insert(key.to_owned(), value.to_vec());
        let clock = w.threads[self.thread as usize].clock;
        for t in w.awaited.remove(key).unwrap_or_default() {
            let thread = &mut w.threads[t as usize];
            thread.waiting = Waiting::Turn;
            thread.clock = thread.clock.max(clock);
            let at = thread.clock;
            w.schedule(t, at);
        }
    }

    fn lookup(&self, key: &str) -> Vec<u8> {
        self.effect();
        loop {
            {
                let mut w = self.world.borrow_mut();
                if let Some(value) = w.published.get(key) {
                    return value.clone();
                }
                w.threads[self.thread as usize].waiting = Waiting::Key(key.to_owned());
                w.awaited.entry(key.to_owned()).or_default().push(self.thread);
            }
            self.yielder.suspend(());
        }
    }

    fn num_devices(&self) -> u32 {
        1
    }

    fn open_device(&self, index: u32) -> Result<DeviceHandle, VerbsError> {
        match index {
            0 => Ok(DeviceHandle(0)),
            _ => Err(VerbsError::NoDevice(format!("a simulated machine has device 0 only, not {index}"))),
        }
    }

    fn close_device(&self, _device: DeviceHandle) {}

    fn query_device(&self, _device: DeviceHandle) -> Result<DeviceAttr, VerbsError> {
        let w = self.world.borrow();
        let nic = &w.profile.nic;
        Ok(DeviceAttr {
            name: format!("{}_sim", w.profile.name),
            ports: w.profile.link.ports as u8,
            max_qp_wr: nic.max_qp_wr,
            max_sge: nic.max_sge,
            max_cqe: nic.max_cqe,
            max_qp_rd_atom: nic.max_rd_atomic as u8,
            max_qp_init_rd_atom: nic.max_rd_atomic as u8,
            max_srq_wr: nic.max_qp_wr,
            atomics: true,
            max_inline_data: Some(nic.max_inline),
        })
    }

    fn query_port(&self, _device: DeviceHandle, port: u8) -> Result<PortAttr, VerbsError> {
        let w = self.world.borrow();
        let ports = w.profile.link.ports as u8;
        if port == 0 || port > ports {
            return Err(VerbsError::NoDevice(format!("the device has ports 1 to {ports}, not {port}")));
        }
        let lid = FIRST_LID + self.machine * u16::from(ports) + u16::from(port - 1);
        let mut gid = [0; 16];
        gid[..2].copy_from_slice(&[0xfe, 0x80]);
        gid[14..].copy_from_slice(&lid.to_be_bytes());
        Ok(PortAttr {
            active: true,
            active_mtu: w.profile.link.mtu(),
            lid,
            link_layer: LinkLayer::Infiniband,
            gid_index: 0,
            gid: Gid(gid),
        })
    }

    fn alloc_pd(&self, _device: DeviceHandle) -> Result<PdHandle, VerbsError> {
        let mut w = self.world.borrow_mut();
        let nic = &mut w.machines[usize::from(self.machine)].nic;
        nic.pds += 1;
        Ok(PdHandle(nic.pds))
    }

    fn dealloc_pd(&self, _pd: PdHandle) {}

    fn reg_mr(&self, pd: PdHandle, mem: Mem, access: AccessFlags) -> Result<(MrHandle, MrKeys), VerbsError> {
        let needs_local = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
        if access.intersects(needs_local) && !access.contains(AccessFlags::LOCAL_WRITE) {
            return invalid("remote write and atomic access need local write access".into());
        }
        let mut w = self.world.borrow_mut();
        let machine = &mut w.machines[usize::from(self.machine)];
        if !machine.memory.owns(mem) {
            return invalid("the memory is not this machine's".into());
        }
        let key = machine.nic.keys.register(Region { pd: pd.0, addr: mem.addr(0), len: mem.len(), access });
        Ok((MrHandle(key), MrKeys { lkey: key, rkey: key }))
    }

    fn dereg_mr(&self, mr: MrHandle) {
        self.world.borrow_mut().machines[usize::from(self.machine)].nic.keys.deregister(mr.0);
    }

    fn create_cq(&self, _device: DeviceHandle, cqe: u32) -> Result<CqHandle, VerbsError> {
        let mut w = self.world.borrow_mut();
        let max = w.profile.nic.max_cqe;
        if cqe == 0 || cqe > max {
            return invalid(format!("a CQ has 1 to {max} entries, not {cqe}"));
        }
        let nic = &mut w.machines[usize::from(self.machine)].nic;
        nic.cqs.push(Some(CqSlot {
            entries: VecDeque::with_capacity(cqe.min(1024) as usize),
            capacity: cqe as usize,
            overrun: false,
            watchers: 0,
        }));
        Ok(CqHandle(nic.cqs.len() as u32 - 1))
    }

    fn destroy_cq(&self, cq: CqHandle) {
        self.world.borrow_mut().machines[usize::from(self.machine)].nic.cqs[cq.0 as usize] = None;
    }

    fn poll_cq(&self, cq: CqHandle, wc: &mut [Wc]) -> Result<usize, VerbsError> {
        {
            let mut w = self.world.borrow_mut();
            let t = self.thread;
            if w.threads[t as usize].replayed(t, |look| *look == Look::Poll { cq: cq.0 }).is_some() {
                return Ok(0);
            }
        }
        self.sync();
        let mut w = self.world.borrow_mut();
        let World { machines, threads, profile, .. } = &mut *w;
        let nic = &mut machines[usize::from(self.machine)].nic;
        let thread = &mut threads[self.thread as usize];
        let Some(Some(slot)) = nic.cqs.get_mut(cq.0 as usize) else {
            return invalid("there is no such CQ".into());
        };
        if slot.overrun {
            return Err(VerbsError::NoRoom(format!("the CQ of {} entries was overrun", slot.capacity)));
        }
        let host = &profile.host;
        let mut n = 0;
        let mut copied = 0;
        while n < wc.len()
            && let Some(cqe) = slot.entries.pop_front()
        {
            wc[n] = cqe.wc;
            n += 1;
            copied += u64::from(wqe::lines(cqe.inline));
            if cqe.slot != NONE {
                nic.qps[cqe.qp as usize].qp.release(cqe.slot);
            }
        }
        if n == 0 {
            let cost = host.poll_empty.as_ps();
            thread.clock += cost;
            thread.note(Look::Poll { cq: cq.0 }, cost);
        } else {
            thread.effect();
            thread.clock +=
                (host.poll_empty + (host.poll_cqe + host.dma_line) * n as u64 + host.copy_line * copied)
                    .as_ps();
        }
        Ok(n)
    }

    fn create_srq(&self, pd: PdHandle, attr: &SrqAttr) -> Result<SrqHandle, VerbsError> {
        let mut w = self.world.borrow_mut();
        let (max_wr, max_sge) = (w.profile.nic.max_qp_wr, w.profile.nic.max_sge);
        if attr.max_wr == 0 || attr.max_wr > max_wr || attr.max_sge > max_sge {
            return invalid(format!("an SRQ holds 1 to {max_wr} RECVs of at most {max_sge} SGEs"));
        }
        let queue = RecvQueue::new(pd.0, attr.max_wr, attr.max_sge);
        let queues = &mut w.machines[usize::from(self.machine)].nic.recv_queues;
        queues.push(RecvSlot { queue, wqe_bytes: wqe::recv_bytes(attr.max_sge), qp: NONE });
        Ok(SrqHandle(queues.len() as u32 - 1))
    }

    fn destroy_srq(&self, _srq: SrqHandle) {}

    fn post_srq_recv(&self, srq: SrqHandle, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.effect();
        self.post_to(srq.0, list)
    }

    fn create_ah(&self, _pd: PdHandle, attr: &AhAttr) -> Result<AhHandle, VerbsError> {
        let mut w = self.world.borrow_mut();
        let ports = w.profile.link.ports as u8;
        if attr.port_num == 0 || attr.port_num > ports {
            return invalid(format!("the device has ports 1 to {ports}, not {}", attr.port_num));
        }
        let ahs = &mut w.machines[usize::from(self.machine)].nic.ahs;
        ahs.push(Some(*attr));
        Ok(AhHandle(ahs.len() as u32 - 1))
    }

    fn destroy_ah(&self, ah: AhHandle) {
        self.world.borrow_mut().machines[usize::from(self.machine)].nic.ahs[ah.0 as usize] = None;
    }

    fn create_qp(
        &self,
        pd: PdHandle,
        objects: &QpObjects,
        attr: &QpInitAttr,
    ) -> Result<(QpHandle, u32), VerbsError> {
        let mut w = self.world.borrow_mut();
        let limits = w.profile.nic;
        let mtu = w.profile.link.mtu();
        let cap = attr.cap;
        let queues_fit = cap.max_send_wr.max(cap.max_recv_wr) <= limits.max_qp_wr;
        let sges_fit = cap.max_send_sge.max(cap.max_recv_sge) <= limits.max_sge;
        if !queues_fit || !sges_fit || cap.max_inline_data > limits.max_inline {
            return invalid(format!(
                "a QP has at most {} work requests a queue, {} SGEs and {} bytes of inline data, not {cap:?}",
                limits.max_qp_wr, limits.max_sge, limits.max_inline
            ));
        }
        let nic = &mut w.machines[usize::from(self.machine)].nic;
        let exists = |cq: CqHandle| nic.cqs.get(cq.0 as usize).is_some_and(Option::is_some);
        if !exists(objects.send_cq) || !exists(objects.recv_cq) {
            return invalid("there is no such CQ".into());
        }
        let index = nic.qps.len() as u32;
        let recv_queue = match objects.srq {
            Some(srq) if (srq.0 as usize) < nic.recv_queues.len() => srq.0,
            Some(_) => return invalid("there is no such SRQ".into()),
            None => {
                let queue = RecvQueue::new(pd.0, cap.max_recv_wr, cap.max_recv_sge);
                let wqe_bytes = wqe::recv_bytes(cap.max_recv_sge);
                nic.recv_queues.push(RecvSlot { queue, wqe_bytes, qp: index });
                nic.recv_queues.len() as u32 - 1
            }
        };
        let num = FIRST_QPN + index;
        let mut qp = Qp::new(num, pd.0, attr, objects.srq.is_some());
        qp.set_port_mtu(mtu);
        let empty = WqeSlot { inline: Payload::EMPTY, bytes: 0, by_mmio: false, entered: 0 };
        nic.qps.push(QpSlot {
            qp,
            send_cq: objects.send_cq.0,
            recv_cq: objects.recv_cq.0,
            recv_queue,
            alive: true,
            wqes: vec![empty; cap.max_send_wr.max(1) as usize],
            posted: VecDeque::with_capacity(cap.max_send_wr as usize),
            fetching: 0,
            work: VecDeque::new(),
            flow: Flow::default(),
            served: false,
            tx_busy: 0,
            active: false,
            requests: VecDeque::new(),
            max_inl_recv: attr.max_inl_recv,
            answers: VecDeque::new(),
            timer_at: u64::MAX,
        });
        Ok((QpHandle(index), num))
    }

    fn destroy_qp(&self, qp: QpHandle) {
        let mut w = self.world.borrow_mut();
        let World { machines, payloads, .. } = &mut *w;
        if let Some(slot) = machines[usize::from(self.machine)].nic.qps.get_mut(qp.0 as usize) {
            slot.alive = false;
            slot.forget(payloads);
        }
    }

    fn modify_qp(&self, qp: QpHandle, attr: &QpAttr) -> Result<(), VerbsError> {
        self.live_qp(qp)?;
        self.effect();
        let mut w = self.world.borrow_mut();
        let ports = w.profile.link.ports as u8;
        if attr.port_num.is_some_and(|p| p == 0 || p > ports) {
            return invalid(format!("the device has ports 1 to {ports}, not {:?}", attr.port_num));
        }
        let max_rd_atomic = w.profile.nic.max_rd_atomic;
        for asked in [attr.max_rd_atomic, attr.max_dest_rd_atomic].into_iter().flatten() {
            if u32::from(asked) > max_rd_atomic {
                return invalid(format!(
                    "the device has at most {max_rd_atomic} READs outstanding, not {asked}"
                ));
            }
        }
        let mut actions = w.take_actions();
        let World { machines, payloads, .. } = &mut *w;
        let nic = &mut machines[usize::from(self.machine)].nic;
        let slot = &mut nic.qps[qp.0 as usize];
        let recv_queue = &mut nic.recv_queues[slot.recv_queue as usize].queue;
        let done = slot.qp.modify(attr, recv_queue, &mut actions);
        if done.is_ok() && attr.qp_state == Some(QpState::Reset) {
            slot.forget(payloads);
        }
        w.apply(self.machine, qp.0, None, &actions);
        w.give_actions(actions);
        if done.is_ok() {
            w.kick(self.machine, qp.0);
        }
        done
    }

    fn query_qp(&self, qp: QpHandle) -> Result<QpState, VerbsError> {
        self.live_qp(qp)?;
        self.effect();
        Ok(self.world.borrow().machines[usize::from(self.machine)].nic.qps[qp.0 as usize].qp.state())
    }

    fn post_send(&self, qp: QpHandle, list: &[SendWr<'_>]) -> Result<(), PostError> {
        self.effect();
        let call = self.world.borrow().profile.host.post_call;
        self.advance(call.as_ps());
        let mut lines = 0;
        let mut posted = 0;
        let mut refused = Ok(());
        for (index, wr) in list.iter().enumerate() {
            match self.build_wqe(qp, wr) {
                Ok(n) => {
                    lines = n;
                    posted += 1;
                }
                Err(cause) => {
                    refused = Err(PostError { index, cause });
                    break;
                }
            }
        }
        if posted > 0 {
            self.announce(qp, posted, lines);
        }
        refused
    }

    fn post_recv(&self, qp: QpHandle, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.effect();
        let refuse = |cause| PostError { index: 0, cause };
        self.live_qp(qp).map_err(refuse)?;
        let recv_queue = {
            let w = self.world.borrow();
            let slot = &w.machines[usize::from(self.machine)].nic.qps[qp.0 as usize];
            slot.qp.check_post_recv().map_err(refuse)?;
            slot.recv_queue
        };
        self.post_to(recv_queue, list)
    }
}
