//! DMA: the NIC's accesses to memory.

use super::device_memory::is_own;
use super::locks::IS_ATOMIC;
use super::nic::SimDevice;
use super::reads::{DmaRead, ReadPurpose};
use crate::core::index::{FlightId, ReadId};
use crate::core::payload::Payload;
use crate::core::ps::Ps;
use crate::core::queue::SimEvent;
use crate::env::Env;
use crate::host::{ALLOCATED, AccessKind, Agent, DmaWrite, Host, LINE, Lines, WriteData, lines_touched};

impl SimDevice {
    /// Starts a DMA read.
    #[inline(always)] // Inlined, so that the read is written in place.
    pub(super) fn start_read(&mut self, env: &mut Env, read: DmaRead) {
        let number = self.dma.reads.insert(read);
        self.begin_read(env, number);
    }

    /// Requests a read, or queues the read until a tag is free.
    fn begin_read(&mut self, env: &mut Env, number: ReadId) {
        if self.dma.outstanding >= self.profile.device.pcie.max_outstanding_reads {
            self.dma.wait_for_tag(env.now, number);
        } else {
            self.request_read(env, number);
        }
    }

    fn request_read(&mut self, env: &mut Env, read: ReadId) {
        let bytes = self.dma.reads[read].bytes;
        self.dma.outstanding += 1;
        let at_host = self.pcie.request_read(env.now, u64::from(bytes), env.window);
        env.queue.push(at_host, SimEvent::ReadAtHost { device: self.id, read });
    }

    /// The packet that a read in flight is for, if any.
    #[inline]
    pub(crate) fn reads_for(&self, read: ReadId) -> Option<FlightId> {
        match self.dma.reads[read].purpose {
            ReadPurpose::Payload { flight, .. } | ReadPurpose::Atomic { flight } => Some(flight),
            ReadPurpose::SendWqes { .. }
            | ReadPurpose::RecvWqes { .. }
            | ReadPurpose::Segment
            | ReadPurpose::WqeAgain { .. }
            | ReadPurpose::Refetch => None,
        }
    }

    /// Handles a read request that has reached memory. The data are copied at this time.
    pub(crate) fn read_at_host(&mut self, host: &mut Host, env: &mut Env, read: ReadId) {
        let DmaRead { bytes, late, purpose } = self.dma.reads[read];
        host.settle(env.now, &mut env.payloads);
        let (mut done, mut offset) = (env.now, 0);
        match purpose {
            ReadPurpose::Payload { flight, addr, into } => {
                let place = host.memory.place(addr, u64::from(bytes)).expect(ALLOCATED);
                offset = place.offset;
                let begin = host.dma_read_begins(env.now, place);
                let lines = Lines::of(place, u64::from(bytes));
                done = host.access(begin, self.agent(), lines, AccessKind::Load).done;
                let payload = env.flights[flight].payload;
                let to = &mut env.payloads.bytes_mut(payload)[into as usize..][..bytes as usize];
                host.memory.read(place, to);
            }
            ReadPurpose::Atomic { flight } => {
                let atomic = env.flights[flight].atomic.as_mut().expect(IS_ATOMIC);
                let place = host.memory.place(atomic.addr, 8).expect(ALLOCATED);
                offset = place.offset;
                let begin = host.dma_read_begins(env.now, place);
                done = host.access(begin, self.agent(), Lines::at(place), AccessKind::Load).done;
                atomic.original = host.memory.load_u64(place);
            }
            // In the flat memory model, a ring's lines have no state that a device could change.
            _ if host.is_written_at_once() => done = self.load_ring(host, env.now, purpose),
            _ if host.has_sockets() => done += self.ring_hop(host, purpose),
            _ => {}
        }
        done += Ps(late.into());
        if done > env.now {
            // Completions of other reads may go first.
            env.queue.push(done, SimEvent::ReadFetched { device: self.id, read });
        } else {
            self.complete_read(env, read, offset, bytes);
        }
    }

    /// Reads WQEs or a descriptor from a ring. Returns when memory and caches have delivered the lines.
    #[cold]
    fn load_ring(&mut self, host: &mut Host, now: Ps, purpose: ReadPurpose) -> Ps {
        match purpose {
            ReadPurpose::SendWqes { qp, first, count, .. } => {
                self.load_send_ring(host, now, qp, first, count)
            }
            ReadPurpose::RecvWqes { recv_queue, count } => self.load_recv_ring(host, now, recv_queue, count),
            ReadPurpose::Segment => self.load_descriptor(host, now),
            ReadPurpose::Payload { .. }
            | ReadPurpose::Atomic { .. }
            | ReadPurpose::WqeAgain { .. }
            | ReadPurpose::Refetch => now,
        }
    }

    /// Handles a read whose lines have been fetched.
    #[cold]
    pub(crate) fn read_fetched(&mut self, env: &mut Env, read: ReadId) {
        let DmaRead { bytes, purpose, .. } = self.dma.reads[read];
        // Entries of rings begin at a line.
        let addr = match purpose {
            ReadPurpose::Payload { addr, .. } => addr,
            ReadPurpose::Atomic { flight } => env.flights[flight].atomic.as_ref().expect(IS_ATOMIC).addr,
            ReadPurpose::SendWqes { .. }
            | ReadPurpose::RecvWqes { .. }
            | ReadPurpose::Segment
            | ReadPurpose::WqeAgain { .. }
            | ReadPurpose::Refetch => 0,
        };
        self.complete_read(env, read, addr, bytes);
    }

    /// Sends the data of a read to the NIC. `addr` is the data's address, or its offset from a page's
    /// beginning.
    #[inline(always)] // The other caller is cold.
    fn complete_read(&mut self, env: &mut Env, read: ReadId, addr: u64, bytes: u32) {
        let done = self.pcie.complete_read(env.now, addr, u64::from(bytes), env.window);
        env.queue.push(done, SimEvent::ReadDone { device: self.id, read });
    }

    /// Handles the data of a read in the NIC.
    pub(crate) fn read_done(&mut self, host: &mut Host, env: &mut Env, read: ReadId) {
        let DmaRead { purpose, .. } = self.dma.reads[read];
        self.dma.reads.free(read);
        self.dma.outstanding -= 1;
        if let Some(next) = self.dma.next_for_tag(env.now, env.window) {
            self.request_read(env, next);
        }
        match purpose {
            ReadPurpose::SendWqes { qp, life, count, .. } if self.qps[qp].life == life => {
                self.wqes_entered(env, qp, count, false)
            }
            ReadPurpose::SendWqes { .. } => {} // The QP was reset or destroyed.
            ReadPurpose::RecvWqes { recv_queue, count } => {
                self.recv_wqes_entered(env, recv_queue, count);
            }
            ReadPurpose::Payload { flight, .. } => self.payload_read(env, flight),
            ReadPurpose::Atomic { flight } => self.atomic_read(host, env, flight),
            ReadPurpose::Segment => self.segment_read(env),
            ReadPurpose::WqeAgain { qp, life, ended } => self.left(env, qp, life, ended),
            ReadPurpose::Refetch => {}
        }
    }

    /// Starts a DMA write of part of a payload. The payload's buffer then belongs to the write. Returns how
    /// long the unit stalls before the write.
    pub(super) fn write_data(
        &mut self,
        host: &mut Host,
        env: &mut Env,
        addr: u64,
        (payload, payload_offset): (Payload, u32),
        len: u32,
    ) -> Ps {
        if is_own(addr) {
            return self.write_own(env, addr, (payload, payload_offset), len);
        }
        let (_, stall) = self.translate(host, env, addr, len.into());
        self.write_payload(host, env, addr, (payload, payload_offset), len, stall);
        stall
    }

    /// Starts a DMA write of part of a payload to an address that needs no translation, delayed by `late`.
    #[inline]
    pub(super) fn write_payload(
        &mut self,
        host: &mut Host,
        env: &mut Env,
        addr: u64,
        (payload, payload_offset): (Payload, u32),
        len: u32,
        late: Ps,
    ) {
        let hop = late + self.dma_hop(host, addr, u64::from(len));
        let (first, last) = self.pcie.write(env.now, (addr % LINE, u64::from(len)), hop, env.window);
        let lines = lines_touched(addr % LINE, u64::from(len)).max(1);
        let (first, per_line) = match lines {
            1 => (last, Ps::ZERO),
            _ => (first, (last - first) / (lines - 1)),
        };
        let data = WriteData::Payload(payload, payload_offset);
        self.send_write(host, env, DmaWrite::new(first, per_line, addr, data, len));
    }

    /// Starts a DMA write of a word, delayed by `late`.
    pub(super) fn write_word(&mut self, host: &mut Host, env: &mut Env, addr: u64, value: u64, late: Ps) {
        let hop = late + self.dma_hop(host, addr, 8);
        let (_, last) = self.pcie.write(env.now, (addr % LINE, 8), hop, env.window);
        self.send_write(host, env, DmaWrite::new(last, Ps::ZERO, addr, WriteData::Word(value), 8));
    }

    /// Sends a DMA write on its way to memory.
    #[inline(always)] // Inlined, so that the write is stored in place.
    pub(super) fn send_write(&mut self, host: &mut Host, env: &mut Env, write: DmaWrite) {
        if host.incoming(self.attached.local, write, env.now, &mut env.payloads) {
            env.queue.push(write.at, SimEvent::Visible { device: self.id });
        }
    }

    /// Extra time to reach `len` bytes at `addr` if they belong to another CPU socket.
    #[inline]
    pub(super) fn dma_hop(&self, host: &Host, addr: u64, len: u64) -> Ps {
        if !host.has_sockets() || is_own(addr) {
            return Ps::ZERO;
        }
        let place = host.memory.place(addr, len).expect(ALLOCATED);
        host.dma_hop(self.attached.socket, place, len)
    }

    /// Extra time to reach the WQEs of a read if they belong to another CPU socket.
    fn ring_hop(&self, host: &Host, purpose: ReadPurpose) -> Ps {
        let ring = match purpose {
            ReadPurpose::SendWqes { qp, .. } | ReadPurpose::WqeAgain { qp, .. } => &self.qps[qp].ring,
            ReadPurpose::RecvWqes { recv_queue, .. } => &self.recv_queues[recv_queue].ring,
            // The NIC's tables and TCP's rings are at the NIC's socket.
            ReadPurpose::Refetch | ReadPurpose::Segment => return Ps::ZERO,
            ReadPurpose::Payload { .. } | ReadPurpose::Atomic { .. } => {
                unreachable!("a read of data reads no WQE")
            }
        };
        host.ring_hop(self.attached.socket, ring)
    }

    /// The NIC as an agent that accesses memory.
    pub(crate) fn agent(&self) -> Agent {
        Agent::Device { socket: self.attached.socket }
    }
}
