//! Posting: the driver's work until a work request is on its way to the NIC.

use super::{SimProvider, invalid, object};
use crate::core::index::{DeviceId, QpId, RecvQueueId, WqeId};
use crate::core::payload::Payload;
use crate::core::ps::Ps;
use crate::core::queue::{Packed, SimEvent};
use crate::device::WqeSlot;
use crate::env::Env;
use crate::host::{AccessKind, Agent, Mmio};
use crate::world::World;
use doorbell_nic::accounting::Method;
use doorbell_nic::{PostShape, wqe};
use doorbell_verbs::{PostError, QpHandle, RecvWr, SendFlags, SendWr, VerbsError};

impl SimProvider<'_> {
    /// Writes lines of a WQE, or doorbells, through the core's write-combining buffers. `then` happens when
    /// the last write is at the NIC. The thread waits only if all buffers may be in use.
    fn mmio(&self, device: DeviceId, writes: u32, doorbell: bool, then: Packed) {
        for behind in (0..writes).rev() {
            let last = behind == 0;
            let (written, watched) = self.with(|w| {
                if w.sized {
                    self.await_stores(w);
                }
                let host = &mut w.hosts[self.machine];
                let clock = &mut w.threads[self.thread].clock;
                *clock += Ps(if doorbell { host.costs.doorbell } else { host.costs.mmio_line });
                let free = host.cores[self.core].has_free_buffer(*clock, host.wc_buffers);
                if free {
                    self.write_by_mmio(w, device, doorbell, last, then);
                }
                (free, w.tracer.is_some() || w.sized)
            });
            if !written {
                self.await_buffer();
                self.with(|w| self.write_by_mmio(w, device, doorbell, last, then));
            }
            // A trace is written in the order of threads' actions, so a traced thread does not run ahead. Nor
            // does a thread whose caches have sizes, because their contents depend on earlier accesses of
            // other agents.
            if watched {
                self.sync();
            }
        }
    }

    /// Writes a line or a doorbell at this thread's clock. The write leaves the core in a later event.
    #[inline]
    fn write_by_mmio(&self, w: &mut World, device: DeviceId, doorbell: bool, last: bool, then: Packed) {
        let World { env, hosts, threads, devices, .. } = w;
        let host = &mut hosts[self.machine];
        let hop = host.mmio_hop(self.core, devices[device].attached.socket);
        let core = &mut host.cores[self.core];
        let leaves = threads[self.thread].clock;
        core.drained = leaves + host.mmio_drain;
        core.mmio.push_back(Mmio { leaves, hop, doorbell, last, then });
        host.serialize(self.core);
        env.queue.push(leaves.max(env.now), SimEvent::MmioOut { device, thread: self.thread });
    }

    /// Waits for the core's stores. They must be in memory or the cache before an MMIO write announces them.
    #[cold]
    fn await_stores(&self, w: &mut World) {
        w.wake_others(self.machine);
        let clock = &mut w.threads[self.thread].clock;
        *clock = w.hosts[self.machine].stored(*clock, self.core);
    }

    #[cold]
    fn await_buffer(&self) {
        self.sync();
        self.with(|w| {
            let (host, window) = (&mut w.hosts[self.machine], w.env.window);
            let thread = &mut w.threads[self.thread];
            let (core, since) = (&mut host.cores[self.core], thread.clock);
            if !core.has_free_buffer(since, host.wc_buffers) {
                thread.clock = core.mmio_left.pop_front().unwrap_or(since).max(since);
                thread.stalled += window.overlap(since, thread.clock);
            }
        });
    }

    /// Writes one WQE to the send queue. Returns the WQE's number of lines.
    fn build_wqe(&self, w: &mut World, qp: QpHandle, wr: &SendWr<'_>) -> Result<u32, VerbsError> {
        let World { env, hosts, threads, devices, .. } = w;
        let (number, id): (DeviceId, QpId) = (self.device_of(qp.0), object(qp.0));
        let no_qp = || VerbsError::Invalid("there is no such QP".into());
        let device = devices.get_mut(number).ok_or_else(no_qp)?;
        if device.qps.get(id).is_none_or(|q| !q.alive) {
            return Err(no_qp());
        }
        if wr.dest.is_some_and(|dest| self.device_of(dest.ah.0) != number || device.ah(dest.ah).is_none()) {
            return invalid("there is no such address handle".into());
        }
        let slot = &mut device.qps[id];
        let Env { payloads, now, totals, .. } = env;
        let host = &mut hosts[self.machine];
        let length = u32::try_from(wr.length()).unwrap_or(u32::MAX);
        let is_inline = wr.flags.contains(SendFlags::INLINE);
        if is_inline && wr.sg_list.iter().any(|s| host.memory.place(s.addr, u64::from(s.length)).is_none()) {
            return invalid("inline data lies outside the machine's memory".into());
        }
        let index = WqeId(slot.qp.post_send(wr)?);
        totals.posted += 1;
        totals.posted_bytes += u64::from(length);
        let shape = PostShape {
            opcode: wr.op.opcode(),
            qp_type: slot.qp.qp_type(),
            payload: length,
            sges: wr.sg_list.len() as u32,
            inline: is_inline,
            signaled: wr.flags.contains(SendFlags::SIGNALED),
            method: Method::WqeByMmio,
        };
        let bytes = shape.wqe_bytes(device.profile.device.generation);
        let mut inline = Payload::EMPTY;
        if is_inline && length > 0 {
            host.settle(*now, payloads);
            inline = payloads.take(length);
            let mut into = 0;
            for s in wr.sg_list {
                let place = host
                    .memory
                    .place(s.addr, u64::from(s.length))
                    .expect("the addresses of inline data were checked");
                let to = &mut payloads.bytes_mut(inline)[into..][..s.length as usize];
                host.memory.read(place, to);
                into += s.length as usize;
            }
        }
        slot.wqes.make_room(index, slot.qp.send_queue_len());
        let state = slot.wqe(index);
        payloads.give(state.inline);
        *state =
            WqeSlot { inline, bytes: bytes as u16, by_mmio: false, entered: WqeSlot::NOT_ENTERED, asked: 0 };
        slot.wqes.post(index);
        let lines = wqe::lines(bytes);
        let thread = &mut threads[self.thread];
        let built = thread.clock + Ps(host.costs.build(if is_inline { length } else { 0 }));
        let entry = slot.ring.entry(index.0, bytes);
        thread.clock = host.reach_entry(built, Agent::Core(self.core), entry, AccessKind::Store);
        Ok(lines)
    }

    /// Copies the inline data of the last posted WQEs from the caches, if these may differ from memory.
    #[cold]
    #[inline(never)]
    fn gather_from_caches(&self, w: &mut World, qp: QpHandle, posted: &[SendWr<'_>]) {
        let World { env, hosts, devices, .. } = w;
        let (device, id): (DeviceId, QpId) = (self.device_of(qp.0), object(qp.0));
        let host = &hosts[self.machine];
        if posted.is_empty() || !host.caches_apart() {
            return;
        }
        let slot = &mut devices[device].qps[id];
        let wqes: Vec<WqeId> = slot.wqes.last_posted(posted.len() as u32).collect();
        for (wqe, wr) in wqes.into_iter().zip(posted) {
            let mut inline = env.payloads.bytes_mut(slot.wqe(wqe).inline);
            for s in wr.sg_list.iter().filter(|_| wr.flags.contains(SendFlags::INLINE)) {
                let place = host
                    .memory
                    .place(s.addr, u64::from(s.length))
                    .expect("the addresses of inline data were checked");
                let (part, rest) = inline.split_at_mut(s.length as usize);
                host.read_bytes(place, part);
                inline = rest;
            }
        }
    }

    /// Shows the tracer the last `count` WQEs of a QP, which were built since `called`.
    #[cold]
    #[inline(never)]
    fn trace_post(&self, w: &mut World, qp: QpHandle, count: usize, called: Ps) {
        let World { tracer: Some(tracer), devices, threads, .. } = w else { return };
        let (device, id): (DeviceId, QpId) = (self.device_of(qp.0), object(qp.0));
        if count > 0 {
            let (device, built) = (&devices[device], threads[self.thread].clock);
            let slots = device.qps[id].wqes.last_posted(count as u32);
            tracer.posted((self.machine, self.core), (device, id), slots, (called, built));
        }
    }

    /// Announces `count` WQEs to the NIC. If there is only one WQE, it has `lines` lines.
    fn announce(&self, qp: QpHandle, count: u32, lines: u32) {
        let (device, qp): (DeviceId, QpId) = (self.device_of(qp.0), object(qp.0));
        let (method, life) = self.with(|w| {
            let device = &w.devices[device];
            (device.profile.device.generation.posting().method(count), device.qps[qp].life)
        });
        let by_mmio = method == Method::WqeByMmio;
        let writes = if by_mmio { lines } else { 1 };
        let event = SimEvent::Mmio { device, count: count as u16, qp, by_mmio, life };
        self.mmio(device, writes, !by_mmio, Packed::new(event));
    }

    /// Posts RECVs to a receive queue.
    pub(super) fn post_to(
        &self,
        device: DeviceId,
        recv_queue: RecvQueueId,
        list: &[RecvWr<'_>],
    ) -> Result<(), PostError> {
        let refused = self.with(|w| {
            let World { devices, hosts, threads, .. } = w;
            let slot = &mut devices[device].recv_queues[recv_queue];
            let host = &mut hosts[self.machine];
            let clock = &mut threads[self.thread].clock;
            *clock += Ps(host.costs.post_call);
            post_all(list, |wr| {
                slot.queue.post(wr)?;
                let built = *clock + Ps(host.costs.recv_wqe);
                let entry = slot.ring.whole(slot.posted);
                *clock = host.reach_entry(built, Agent::Core(self.core), entry, AccessKind::Store);
                slot.posted = slot.ring.next(slot.posted);
                Ok(())
            })
        });
        let posted = posted_of(list, &refused);
        if posted > 0 {
            let event = SimEvent::RecvDoorbell { device, count: posted as u16, recv_queue };
            self.mmio(device, 1, true, Packed::new(event));
        }
        refused.map_err(|error| *error)
    }

    /// ibv_post_send(3).
    pub(super) fn post_list(&self, qp: QpHandle, list: &[SendWr<'_>]) -> Result<(), PostError> {
        // Inline payload is read from memory now. Without inline payload, no agent sees the posted WQEs
        // before the MMIO write leaves the core, which is an event.
        if list.iter().any(|wr| wr.flags.contains(SendFlags::INLINE)) {
            self.effect();
        }
        let mut lines = 0;
        let refused = self.with(|w| {
            let thread = &mut w.threads[self.thread];
            thread.effect();
            let called = thread.clock;
            thread.clock += Ps(w.hosts[self.machine].costs.post_call);
            let refused = post_all(list, |wr| {
                lines = self.build_wqe(w, qp, wr)?;
                Ok(())
            });
            if w.sized {
                self.gather_from_caches(w, qp, &list[..posted_of(list, &refused)]);
            }
            if w.tracer.is_some() {
                self.trace_post(w, qp, posted_of(list, &refused), called);
            }
            refused
        });
        let posted = posted_of(list, &refused);
        if posted > 0 {
            self.announce(qp, posted as u32, lines);
        }
        refused.map_err(|error| *error)
    }

    /// ibv_post_recv(3).
    pub(super) fn post_recv_list(&self, qp: QpHandle, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.effect();
        let refuse = |cause| PostError { index: 0, cause };
        let (device, id) = self.live_qp(qp).map_err(refuse)?;
        let recv_queue = self.with(|w| {
            let slot = &w.devices[device].qps[id];
            slot.qp.check_post_recv().map(|()| slot.recv_queue)
        });
        self.post_to(device, recv_queue.map_err(refuse)?, list)
    }
}

/// The reason why a work request was refused, in one word that fits a register. A large result would be
/// written in parts and copied as a whole, so that the processor would wait for all its earlier stores.
type Refused = Box<PostError>;

/// Posts the work requests of a list up to the first refused one.
fn post_all<W>(list: &[W], mut post: impl FnMut(&W) -> Result<(), VerbsError>) -> Result<(), Refused> {
    for (index, wr) in list.iter().enumerate() {
        if let Err(cause) = post(wr) {
            return Err(Box::new(PostError { index, cause }));
        }
    }
    Ok(())
}

/// Number of work requests of a list that were posted.
fn posted_of<W>(list: &[W], refused: &Result<(), Refused>) -> usize {
    refused.as_ref().map_or_else(|error| error.index, |()| list.len())
}
