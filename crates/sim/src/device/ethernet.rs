//! A NIC as a plain Ethernet NIC: segments of TCP that it cuts into frames, and frames that it writes to memory.
//!
//! Out: a doorbell, the segment's descriptor, the data of frame after frame, as many ahead of what leaves as the NIC
//! has room for. In: a buffer that the driver has given, the frame, and a descriptor behind it.

use super::Device;
use super::dma::{DmaRead, ReadPurpose};
use crate::core::index::{CoreId, DeviceId, FlightId, Maybe, PortId};
use crate::core::payload::Payload;
use crate::core::queue::{Event, Step};
use crate::fabric::{Flight, Row, Segment};
use crate::host::{Host, Kind, LINE, Queue, Ring};
use crate::world::Env;
use doorbell_nic::Tcp;
use doorbell_nic::cost::{FRAME_HEADERS, TcpCost, frame_on_link};
use doorbell_verbs::PageSize;
use std::collections::VecDeque;

/// Entries of a ring of descriptors.
const ENTRIES: u32 = 1024;
/// Buffers that the driver adds where it has none left.
const MORE_BUFFERS: u64 = 256;
/// Where a frame begins in its buffer: the IP header behind Ethernet's 14 bytes is aligned then.
const FRAME_AT: u64 = 2;

/// Bytes of a buffer that a socket's data goes round in.
#[derive(Clone, Copy)]
pub(crate) struct Circle {
    pub(crate) addr: u64,
    pub(crate) bytes: u64,
}

impl Circle {
    /// The address of a byte by its number, and how many follow it until the end.
    pub(crate) fn at(self, number: u64) -> (u64, u64) {
        let offset = number % self.bytes;
        (self.addr + offset, self.bytes - offset)
    }
}

/// A segment that the driver has a descriptor of.
#[derive(Clone, Copy)]
pub(crate) struct Posted {
    pub(crate) segment: Segment,
    /// Where its data is.
    pub(crate) data: Circle,
    /// The port that it is for.
    pub(crate) into: PortId,
}

/// A frame in memory.
#[derive(Clone, Copy)]
pub(crate) struct Received {
    pub(crate) segment: Segment,
    /// The buffer that it is in.
    pub(crate) buffer: u64,
    /// The port that it comes from.
    pub(crate) from: PortId,
}

impl Received {
    /// Where its data is.
    pub(crate) const fn data(&self) -> u64 {
        self.buffer + FRAME_AT + FRAME_HEADERS as u64
    }
}

/// What a NIC has of it.
pub(crate) struct Ethernet {
    mss: u32,
    out_time: u64,
    in_time: u64,
    room: u32,
    descriptor_in: u32,
    descriptor_out: u32,
    /// Bytes of a buffer for a frame.
    buffer: u64,
    out_ring: Ring,
    in_ring: Ring,
    /// The entry of each that the NIC reads, or writes, next, and that the driver writes, or reads, next.
    nic_out: u32,
    nic_in: u32,
    driver_out: u32,
    driver_in: u32,
    /// Segments of which the NIC has been told.
    posted: VecDeque<Posted>,
    /// Segments whose descriptors it has; of the first, so many bytes are in frames.
    entered: VecDeque<Posted>,
    cut: u32,
    /// Frames that wait for their data, and those behind them.
    reading: Row,
    /// Bytes of frames that have not left.
    held: u32,
    /// Buffers that the driver has given and no frame is in.
    pub(crate) buffers: Vec<u64>,
    /// Frames on their way to memory.
    arriving: VecDeque<Received>,
    pub(crate) frames_out: u64,
    pub(crate) frames_in: u64,
}

impl Ethernet {
    fn new(tcp: &Tcp, host: &mut Host) -> Ethernet {
        let frame = FRAME_AT + u64::from(tcp.mtu) + 14;
        Ethernet {
            mss: TcpCost::new(tcp).mss,
            out_time: tcp.nic_out.as_ps(),
            in_time: tcp.nic_in.as_ps(),
            room: tcp.nic_buffer,
            descriptor_in: tcp.descriptor_in,
            descriptor_out: tcp.descriptor_out,
            buffer: frame.next_power_of_two(),
            out_ring: host.add_ring(CoreId(0), Queue::Send, ENTRIES, tcp.descriptor_out),
            in_ring: host.add_ring(CoreId(0), Queue::Completion, ENTRIES, tcp.descriptor_in),
            nic_out: 0,
            nic_in: 0,
            driver_out: 0,
            driver_in: 0,
            posted: VecDeque::new(),
            entered: VecDeque::new(),
            cut: 0,
            reading: Row::EMPTY,
            held: 0,
            buffers: Vec::new(),
            arriving: VecDeque::new(),
            frames_out: 0,
            frames_in: 0,
        }
    }

    /// The descriptor that the driver writes next.
    pub(crate) fn write_descriptor(&mut self) -> (Ring, u32) {
        let entry = self.driver_out;
        self.driver_out = self.out_ring.next(entry);
        (self.out_ring, entry)
    }

    /// The descriptor that the driver reads next.
    pub(crate) fn read_descriptor(&mut self) -> (Ring, u32) {
        let entry = self.driver_in;
        self.driver_in = self.in_ring.next(entry);
        (self.in_ring, entry)
    }

    /// A buffer for the next frame; the driver has always given enough.
    fn take_buffer(&mut self, host: &mut Host) -> u64 {
        if self.buffers.is_empty() {
            let bytes = MORE_BUFFERS * self.buffer;
            let more = host
                .alloc_near(0, CoreId(0), bytes, PageSize::Small)
                .expect("an allocation of this size is never refused");
            self.buffers.extend((0..MORE_BUFFERS).rev().map(|i| more.addr(i * self.buffer)));
            // Room for each of them to be given back.
            self.buffers.reserve(self.buffers.capacity());
        }
        self.buffers.pop().expect("some were added")
    }
}

/// A step of TCP.
const fn tcp(device: DeviceId, step: Step) -> Event {
    Event::Tcp { device, step, number: 0 }
}

/// A step of a frame.
const fn of_frame(device: DeviceId, step: Step, frame: FlightId) -> Event {
    Event::Tcp { device, step, number: frame.0 }
}

/// Why events of frames are of a device that has this part.
const IS_UP: &str = "frames are sent and received by devices that are up";

impl Device {
    /// Has the device used as an Ethernet NIC from now on.
    pub(crate) fn bring_up(&mut self, tcp: &Tcp, host: &mut Host) {
        if self.ethernet.is_none() {
            self.ethernet = Some(Box::new(Ethernet::new(tcp, host)));
        }
    }

    /// What it has as an Ethernet NIC.
    pub(crate) fn ethernet(&mut self) -> &mut Ethernet {
        self.ethernet.as_mut().expect(IS_UP)
    }

    /// The driver has written the descriptor of a segment; the doorbell leaves its core at `at`.
    pub(crate) fn post_segment(&mut self, env: &mut Env, at: u64, posted: Posted) {
        self.ethernet().posted.push_back(posted);
        env.queue.push(at, tcp(self.id, Step::SegmentDoorbell));
    }

    /// A doorbell for a segment leaves a core.
    pub(crate) fn segment_doorbell(&mut self, env: &mut Env) {
        let left = self.pcie.doorbell(env.now, env.window);
        env.queue.push(self.pcie.mmio_arrives(left), tcp(self.id, Step::SegmentPosted));
    }

    /// A doorbell for a segment is at the NIC, which reads its descriptor.
    pub(crate) fn segment_posted(&mut self, env: &mut Env) {
        let bytes = self.ethernet().descriptor_out;
        self.start_read(env, DmaRead::of(bytes, ReadPurpose::Segment));
    }

    /// The NIC reads a descriptor where the driver has written it; returns when it has it.
    pub(super) fn load_descriptor(&mut self, host: &mut Host, now: u64) -> u64 {
        let agent = self.agent();
        let ethernet = self.ethernet();
        let entry = ethernet.nic_out;
        ethernet.nic_out = ethernet.out_ring.next(entry);
        host.reach_entry(now, agent, ethernet.out_ring.whole(entry), Kind::Load)
    }

    /// A descriptor is in the NIC.
    pub(super) fn segment_read(&mut self, env: &mut Env) {
        let ethernet = self.ethernet();
        let posted = ethernet.posted.pop_front().expect("a descriptor that is read is of a segment");
        ethernet.entered.push_back(posted);
        self.cut_frames(env);
    }

    /// Makes frames of the segments that are in the NIC, as far as it has room.
    fn cut_frames(&mut self, env: &mut Env) {
        let overhead = self.profile.device.link.packet_overhead;
        loop {
            let ethernet = self.ethernet();
            let Some(&Posted { segment, data, into }) = ethernet.entered.front() else { return };
            let done = ethernet.cut;
            let len = (segment.len - done).min(ethernet.mss);
            let link_bytes = frame_on_link(len, overhead);
            if ethernet.held > 0 && ethernet.held + link_bytes > ethernet.room {
                return;
            }
            ethernet.held += link_bytes;
            ethernet.frames_out += 1;
            let last = done + len == segment.len;
            if last {
                ethernet.entered.pop_front();
            }
            ethernet.cut = if last { 0 } else { done + len };
            let part =
                Segment { seq: segment.seq + u64::from(done), len, push: segment.push && last, ..segment };
            self.begin_frame(env, part, link_bytes, data, into);
        }
    }

    /// Begins to read the data of a frame.
    fn begin_frame(&mut self, env: &mut Env, segment: Segment, link_bytes: u32, data: Circle, into: PortId) {
        let bytes = FRAME_HEADERS + segment.len;
        let number = Maybe::some(env.segments.insert(segment));
        let frame = Flight::frame(number, (bytes, link_bytes), self.id, self.port(0), Maybe::some(into));
        let flight = env.flights.insert(frame);
        env.flights[flight].payload = env.payloads.take(bytes);
        env.flights[flight].ready = segment.len == 0;
        self.ethernet().reading.push(flight, &mut env.flights);
        let mut done = 0;
        while done < segment.len {
            let (addr, until_end) = data.at(segment.seq + u64::from(done));
            let part = until_end.min(u64::from(segment.len - done)) as u32;
            env.flights[flight].reads += 1;
            let purpose = ReadPurpose::Payload { flight, addr, into: FRAME_HEADERS + done };
            self.start_read(env, DmaRead::of(part, purpose));
            done += part;
        }
        if segment.len == 0 {
            self.frames_read(env);
        }
    }

    /// The first frames have all their data.
    pub(super) fn frames_read(&mut self, env: &mut Env) {
        let device = self.id;
        let ethernet = self.ethernet();
        while let Some(flight) = ethernet.reading.first()
            && env.flights[flight].ready
        {
            ethernet.reading.pop(&env.flights);
            env.after(ethernet.out_time, of_frame(device, Step::FrameOut, flight));
        }
    }

    /// A frame goes out by its port, or waits there.
    pub(crate) fn frame_out(&mut self, env: &mut Env, flight: FlightId) {
        let Env { fabric, flights, queue, now, .. } = env;
        let f = &flights[flight];
        if fabric.ports[f.out].is_blocked() || !fabric.may_leave(*now, queue, f, false) {
            return fabric.wait(flight, f.out, Maybe::NONE);
        }
        let link_bytes = f.link_bytes;
        self.leave(env, flight);
        self.frame_left(env, link_bytes);
    }

    /// A frame has left: there is room for others.
    pub(super) fn frame_left(&mut self, env: &mut Env, link_bytes: u32) {
        self.ethernet().held -= link_bytes;
        self.cut_frames(env);
    }

    /// A frame has come through its port.
    pub(super) fn frame_came_in(&mut self, env: &mut Env, flight: FlightId) {
        let after = self.ethernet().in_time;
        env.after(after, of_frame(self.id, Step::FrameIn, flight));
    }

    /// A frame goes to memory, and behind it what describes it.
    pub(crate) fn frame_in(&mut self, host: &mut Host, env: &mut Env, flight: FlightId) {
        let f = &mut env.flights[flight];
        let payload = std::mem::replace(&mut f.payload, Payload::EMPTY);
        let (bytes, link_bytes, from) = (f.packet.payload_len, f.link_bytes, f.out);
        let into = f.into.expect("a frame that came in came in by a port");
        let number = f.segment.expect("a frame has a segment");
        env.drop_flight(flight);
        let segment = env.segments[number];
        env.segments.free(number);
        let ethernet = self.ethernet();
        ethernet.frames_in += 1;
        let descriptor = ethernet.descriptor_in;
        let buffer = ethernet.take_buffer(host);
        ethernet.arriving.push_back(Received { segment, buffer, from });
        self.write_payload(host, env, buffer + FRAME_AT, (payload, 0), bytes, 0);
        let (_, visible) = self.pcie.write(env.now, (0, descriptor.into()), 0, env.window);
        env.queue.push(visible, tcp(self.id, Step::FrameVisible));
        env.fabric.make_room(into, link_bytes);
    }

    /// A frame is in memory, and so is what describes it.
    pub(crate) fn frame_visible(&mut self, host: &mut Host, env: &mut Env) -> Received {
        host.settle(env.now, &mut env.payloads);
        let agent = self.agent();
        let ethernet = self.ethernet();
        let entry = ethernet.nic_in;
        ethernet.nic_in = ethernet.in_ring.next(entry);
        host.reach_entry(env.now, agent, ethernet.in_ring.whole(entry), Kind::Store);
        ethernet.arriving.pop_front().expect("a frame becomes visible that went to memory")
    }

    /// The driver tells the NIC of `buffers` new ones, and the NIC reads where they are.
    pub(crate) fn refill(&mut self, env: &mut Env, buffers: u32) {
        self.pcie.doorbell(env.now, env.window);
        let bytes = buffers * size_of::<u64>() as u32;
        self.start_read(env, DmaRead::of(bytes, ReadPurpose::Refetch));
    }

    /// When an interrupt that the NIC raises now is at a core: behind all that it has written.
    pub(crate) fn interrupt_arrives(&self, now: u64) -> u64 {
        self.pcie.beside_writes(now)
    }
}

const _: () = assert!(FRAME_AT < LINE);
