//! DMA: the NIC reads and writes memory.

use super::Device;
use super::atomics::IS_ATOMIC;
use super::qp::Ended;
use crate::core::index::{FlightId, QpId, ReadId, RecvQueueId, WqeId};
use crate::core::payload::Payload;
use crate::core::queue::Event;
use crate::core::slab::Slab;
use crate::host::{ALLOCATED, Agent, Data, Host, Kind, LINE, Lines, Write, lines_touched};
use crate::world::Env;
use std::collections::VecDeque;

/// What a DMA read is for.
#[derive(Clone, Copy)]
pub(crate) enum ReadPurpose {
    /// Send WQEs that a doorbell announced, from this one on, in this one of the QP's lives.
    SendWqes { qp: QpId, life: u16, first: WqeId, count: u16 },
    /// RECV WQEs.
    RecvWqes { recv_queue: RecvQueueId, count: u16 },
    /// Bytes at `addr` for the payload of a packet, from `into` on.
    Payload { flight: FlightId, addr: u64, into: u32 },
    /// The word of an atomic.
    Atomic { flight: FlightId },
    /// The descriptor of a segment of TCP.
    Segment,
    /// The WQE of a READ or an atomic whose answer has come, to complete it in this one of the QP's lives.
    WqeAgain { qp: QpId, life: u16, ended: Ended },
    /// Something that fell out of a cache, or a ring of which nobody counts the reads.
    Refetch,
}

/// A DMA read under way.
#[derive(Clone, Copy)]
pub(crate) struct DmaRead {
    pub(crate) bytes: u32,
    /// How much later it is there, in picoseconds, as its address had to be translated first.
    late: u32,
    pub(crate) purpose: ReadPurpose,
}

impl DmaRead {
    pub(super) const fn of(bytes: u32, purpose: ReadPurpose) -> DmaRead {
        DmaRead { bytes, late: 0, purpose }
    }

    /// The same, so much later.
    pub(super) fn late(self, late: u64) -> DmaRead {
        DmaRead { late: u32::try_from(late).unwrap_or(u32::MAX), ..self }
    }

    /// Where it begins, as far as that matters to completions: the entries of rings and the words of atomics cross no boundary.
    pub(crate) fn addr(&self) -> u64 {
        if let ReadPurpose::Payload { addr, .. } = self.purpose { addr } else { 0 }
    }
}

/// The DMA engine: what is under way, and what waits for a tag.
pub(super) struct Dma {
    pub(super) reads: Slab<ReadId, DmaRead>,
    /// Reads that have a tag.
    pub(super) outstanding: u32,
    pub(super) waiting: VecDeque<ReadId>,
}

impl Default for Dma {
    fn default() -> Dma {
        Dma {
            reads: Slab::new(DmaRead::of(0, ReadPurpose::Refetch)),
            outstanding: 0,
            waiting: VecDeque::new(),
        }
    }
}

impl Device {
    /// Starts a DMA read.
    #[inline(always)] // It is written where it stays.
    pub(super) fn start_read(&mut self, env: &mut Env, read: DmaRead) {
        let number = self.dma.reads.insert(read);
        self.begin_read(env, number);
    }

    /// Requests a read, or queues it for a tag.
    fn begin_read(&mut self, env: &mut Env, number: ReadId) {
        if self.dma.outstanding >= self.profile.device.pcie.max_outstanding_reads {
            self.dma.waiting.push_back(number);
        } else {
            self.request_read(env, number);
        }
    }

    fn request_read(&mut self, env: &mut Env, read: ReadId) {
        let bytes = self.dma.reads[read].bytes;
        self.dma.outstanding += 1;
        let at_host = self.pcie.request_read(env.now, u64::from(bytes), env.window);
        env.queue.push(at_host, Event::ReadAtHost { device: self.id, read });
    }

    /// The packet that a read under way is for, if it is for one.
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

    /// A read request is at memory: the data is taken now.
    pub(crate) fn read_at_host(&mut self, host: &mut Host, env: &mut Env, read: ReadId) {
        let DmaRead { bytes, late, purpose } = self.dma.reads[read];
        host.settle(env.now, &mut env.payloads);
        let (mut done, mut offset) = (env.now, 0);
        match purpose {
            ReadPurpose::Payload { flight, addr, into } => {
                let place = host.memory.place(addr, u64::from(bytes)).expect(ALLOCATED);
                offset = place.offset;
                done =
                    host.access(env.now, self.agent(), Lines::of(place, u64::from(bytes)), Kind::Load).done;
                let payload = env.flights[flight].payload;
                let to = &mut env.payloads.bytes_mut(payload)[into as usize..][..bytes as usize];
                host.memory.read(place, to);
            }
            ReadPurpose::Atomic { flight } => {
                let atomic = env.flights[flight].atomic.as_mut().expect(IS_ATOMIC);
                let place = host.memory.place(atomic.addr, 8).expect(ALLOCATED);
                offset = place.offset;
                done = host.access(env.now, self.agent(), Lines::at(place), Kind::Load).done;
                atomic.original = host.memory.load_u64(place);
            }
            // Elsewhere the lines of a ring have no state that a device could change.
            _ if host.is_written_at_once() => done = self.load_ring(host, env.now, purpose),
            _ if host.has_sockets() => done += self.ring_hop(host, purpose),
            _ => {}
        }
        done += u64::from(late);
        if done > env.now {
            // Others' completions may go before.
            env.queue.push(done, Event::ReadFetched { device: self.id, read });
        } else {
            self.complete_read(env, read, offset, bytes);
        }
    }

    /// The NIC reads WQEs where the driver has written them; returns when it has them.
    #[cold]
    fn load_ring(&mut self, host: &mut Host, now: u64, purpose: ReadPurpose) -> u64 {
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

    /// The lines of a read have been fetched.
    #[cold]
    pub(crate) fn read_fetched(&mut self, env: &mut Env, read: ReadId) {
        let DmaRead { bytes, purpose, .. } = self.dma.reads[read];
        // Rings' entries begin where a line does.
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

    /// Data of a read that begins at this address, or as far after a page, sets out for the NIC.
    #[inline(always)] // The other caller is cold.
    fn complete_read(&mut self, env: &mut Env, read: ReadId, addr: u64, bytes: u32) {
        let done = self.pcie.complete_read(env.now, addr, u64::from(bytes), env.window);
        env.queue.push(done, Event::ReadDone { device: self.id, read });
    }

    /// The data of a read is in the NIC.
    pub(crate) fn read_done(&mut self, host: &mut Host, env: &mut Env, read: ReadId) {
        let DmaRead { purpose, .. } = self.dma.reads[read];
        self.dma.reads.free(read);
        self.dma.outstanding -= 1;
        if let Some(next) = self.dma.waiting.pop_front() {
            self.request_read(env, next);
        }
        match purpose {
            ReadPurpose::SendWqes { qp, life, count, .. } if self.qps[qp].life == life => {
                self.wqes_entered(env, qp, count, false)
            }
            ReadPurpose::SendWqes { .. } => {} // It was reset or destroyed.
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

    /// Starts a DMA write of part of a payload, whose buffer then belongs to the write; returns for how long its unit stands
    /// still before.
    pub(super) fn write_data(
        &mut self,
        host: &mut Host,
        env: &mut Env,
        addr: u64,
        (payload, payload_offset): (Payload, u32),
        len: u32,
    ) -> u64 {
        let (_, stall) = self.translate(host, env, addr, len.into());
        self.write_payload(host, env, addr, (payload, payload_offset), len, stall);
        stall
    }

    /// The same of an address that needs no translation, so much later.
    #[inline]
    pub(super) fn write_payload(
        &mut self,
        host: &mut Host,
        env: &mut Env,
        addr: u64,
        (payload, payload_offset): (Payload, u32),
        len: u32,
        late: u64,
    ) {
        let hop = late + self.dma_hop(host, addr, u64::from(len));
        let (first, last) = self.pcie.write(env.now, (addr % LINE, u64::from(len)), hop, env.window);
        let lines = lines_touched(addr % LINE, u64::from(len)).max(1);
        let (first, per_line) = match lines {
            1 => (last, 0),
            _ => (first, (last - first) / (lines - 1)),
        };
        let data = Data::Payload(payload, payload_offset);
        self.send_write(host, env, Write::new(first, per_line, addr, data, len));
    }

    /// Starts a DMA write of a word, so much later.
    pub(super) fn write_word(&mut self, host: &mut Host, env: &mut Env, addr: u64, value: u64, late: u64) {
        let hop = late + self.dma_hop(host, addr, 8);
        let (_, last) = self.pcie.write(env.now, (addr % LINE, 8), hop, env.window);
        self.send_write(host, env, Write::new(last, 0, addr, Data::Word(value), 8));
    }

    /// A DMA write is on its way.
    #[inline(always)] // It is written where it stays.
    pub(super) fn send_write(&mut self, host: &mut Host, env: &mut Env, write: Write) {
        if host.incoming(self.attached.local, write, env.now, &mut env.payloads) {
            env.queue.push(write.at, Event::Visible { device: self.id });
        }
    }

    /// How much longer it takes to reach so many bytes at an address, where these are at another socket.
    #[inline]
    pub(super) fn dma_hop(&self, host: &Host, addr: u64, len: u64) -> u64 {
        if !host.has_sockets() {
            return 0;
        }
        let place = host.memory.place(addr, len).expect(ALLOCATED);
        host.dma_hop(self.attached.socket, place, len)
    }

    /// The same of the WQEs that a read is for.
    fn ring_hop(&self, host: &Host, purpose: ReadPurpose) -> u64 {
        let ring = match purpose {
            ReadPurpose::SendWqes { qp, .. } | ReadPurpose::WqeAgain { qp, .. } => &self.qps[qp].ring,
            ReadPurpose::RecvWqes { recv_queue, .. } => &self.recv_queues[recv_queue].ring,
            // The driver has the tables of the NIC, and the rings of TCP, at its socket.
            ReadPurpose::Refetch | ReadPurpose::Segment => return 0,
            ReadPurpose::Payload { .. } | ReadPurpose::Atomic { .. } => {
                unreachable!("it is for no WQE")
            }
        };
        host.ring_hop(self.attached.socket, ring)
    }

    /// Who it is that reaches memory.
    pub(crate) fn agent(&self) -> Agent {
        Agent::Device { socket: self.attached.socket }
    }
}
