//! A NIC as a plain Ethernet NIC: it cuts TCP segments into frames, and writes received frames to memory.
//!
//! To send, the NIC gets a doorbell, reads a segment's descriptor, and then reads the data of one frame after
//! another. While its buffer has room, it reads further frames before earlier frames have left. To receive,
//! it writes a frame to a buffer of the driver, and then a descriptor.

use super::ethernet::{Ethernet, FRAME_AT, PostedSegment, ReceivedFrame, SocketBuffer};
use super::nic::SimDevice;
use super::reads::{DmaRead, ReadPurpose};
use crate::core::index::{DeviceId, FlightId, Maybe, PortId};
use crate::core::payload::Payload;
use crate::core::ps::Ps;
use crate::core::queue::{SimEvent, TcpStep};
use crate::env::Env;
use crate::fabric::{Flight, Segment};
use crate::host::{AccessKind, Host};
use doorbell_nic::Tcp;
use doorbell_nic::cost::{FRAME_HEADERS, frame_on_link};

/// An event for a step of TCP.
const fn tcp(device: DeviceId, step: TcpStep) -> SimEvent {
    SimEvent::Tcp { device, step, number: 0 }
}

/// An event for a step of a frame.
const fn of_frame(device: DeviceId, step: TcpStep, frame: FlightId) -> SimEvent {
    SimEvent::Tcp { device, step, number: frame.0 }
}

/// Message of a panic if a device with events of frames has no Ethernet state.
const IS_UP: &str = "a device that sends or receives frames has Ethernet state";

impl SimDevice {
    /// Starts to use the device as an Ethernet NIC.
    pub(crate) fn bring_up(&mut self, tcp: &Tcp, host: &mut Host) {
        if self.ethernet.is_none() {
            self.ethernet = Some(Box::new(Ethernet::new(tcp, host)));
        }
    }

    /// The device's Ethernet state.
    pub(crate) fn ethernet(&mut self) -> &mut Ethernet {
        self.ethernet.as_mut().expect(IS_UP)
    }

    /// Posts a segment whose descriptor the driver has written. The doorbell leaves the core at `at`.
    pub(crate) fn post_segment(&mut self, env: &mut Env, at: Ps, posted: PostedSegment) {
        self.ethernet().posted.push_back(posted);
        env.queue.push(at, tcp(self.id, TcpStep::SegmentDoorbell));
    }

    /// Handles a doorbell for a segment that leaves a core.
    pub(crate) fn segment_doorbell(&mut self, env: &mut Env) {
        let left = self.pcie.doorbell(env.now, env.window);
        env.queue.push(self.pcie.mmio_arrives(left), tcp(self.id, TcpStep::SegmentPosted));
    }

    /// Handles a doorbell for a segment at the NIC, which then reads the descriptor.
    pub(crate) fn segment_posted(&mut self, env: &mut Env) {
        let bytes = self.ethernet().descriptor_out;
        self.start_read(env, DmaRead::of(bytes, ReadPurpose::Segment));
    }

    /// Reads a descriptor from the ring. Returns when memory and caches have delivered its lines.
    pub(super) fn load_descriptor(&mut self, host: &mut Host, now: Ps) -> Ps {
        let agent = self.agent();
        let ethernet = self.ethernet();
        let entry = ethernet.nic_out;
        ethernet.nic_out = ethernet.out_ring.next(entry);
        host.reach_entry(now, agent, ethernet.out_ring.whole(entry), AccessKind::Load)
    }

    /// Handles a descriptor that has arrived in the NIC.
    pub(super) fn segment_read(&mut self, env: &mut Env) {
        let ethernet = self.ethernet();
        let posted = ethernet
            .posted
            .pop_front()
            .expect("each descriptor that the NIC reads belongs to a posted segment");
        ethernet.entered.push_back(posted);
        self.cut_frames(env);
    }

    /// Makes frames of the segments in the NIC, as long as the NIC's buffer has room.
    fn cut_frames(&mut self, env: &mut Env) {
        let overhead = self.profile.device.link.packet_overhead;
        loop {
            let ethernet = self.ethernet();
            let Some(&PostedSegment { segment, data, into }) = ethernet.entered.front() else { return };
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

    /// Begins to read a frame's data.
    fn begin_frame(
        &mut self,
        env: &mut Env,
        segment: Segment,
        link_bytes: u32,
        data: Option<SocketBuffer>,
        into: PortId,
    ) {
        let bytes = FRAME_HEADERS + segment.len;
        let number = Maybe::some(env.segments.insert(segment));
        let frame = Flight::frame(number, (bytes, link_bytes), self.id, self.port(0), Maybe::some(into));
        let flight = env.flights.insert(frame);
        env.flights[flight].payload = env.payloads.take(bytes);
        env.flights[flight].ready = segment.len == 0;
        self.ethernet().reading.push(flight, &mut env.flights);
        let mut done = 0;
        while done < segment.len {
            let data = data.expect("a segment with data has the data's address");
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

    /// Sends the first frames that have all their data.
    pub(super) fn frames_read(&mut self, env: &mut Env) {
        let device = self.id;
        let ethernet = self.ethernet();
        while let Some(flight) = ethernet.reading.first()
            && env.flights[flight].ready
        {
            ethernet.reading.pop(&env.flights);
            env.after(ethernet.out_time, of_frame(device, TcpStep::FrameOut, flight));
        }
    }

    /// Sends a frame by its port, or queues it there.
    pub(crate) fn frame_out(&mut self, env: &mut Env, flight: FlightId) {
        let Env { fabric, flights, queue, now, .. } = env;
        let f = &flights[flight];
        if fabric.ports[f.out_port].is_blocked() || !fabric.may_leave(*now, queue, f, false) {
            return fabric.wait(flight, f.out_port, Maybe::NONE);
        }
        let link_bytes = f.link_bytes;
        self.leave(env, flight);
        self.frame_left(env, link_bytes);
    }

    /// Frees the buffer space of a frame that has left, and begins further frames.
    pub(super) fn frame_left(&mut self, env: &mut Env, link_bytes: u32) {
        self.ethernet().held -= link_bytes;
        self.cut_frames(env);
    }

    /// Handles a frame that has come through its port.
    pub(super) fn frame_came_in(&mut self, env: &mut Env, flight: FlightId) {
        let after = self.ethernet().in_time;
        env.after(after, of_frame(self.id, TcpStep::FrameIn, flight));
    }

    /// Writes a frame to memory, and its descriptor after it.
    pub(crate) fn frame_in(&mut self, host: &mut Host, env: &mut Env, flight: FlightId) {
        let f = &mut env.flights[flight];
        let payload = std::mem::replace(&mut f.payload, Payload::EMPTY);
        let (bytes, link_bytes, from) = (f.packet.payload_len, f.link_bytes, f.out_port);
        let into = f.in_port.expect("a received frame has an inbound port");
        let number = f.segment.expect("a frame has a segment");
        env.drop_flight(flight);
        let segment = env.segments[number];
        env.segments.free(number);
        let ethernet = self.ethernet();
        ethernet.frames_in += 1;
        let descriptor = ethernet.descriptor_in;
        let buffer = ethernet.take_buffer(host);
        ethernet.arriving.push_back(ReceivedFrame { segment, buffer, from });
        self.write_payload(host, env, buffer + FRAME_AT, (payload, 0), bytes, Ps::ZERO);
        let (_, visible) = self.pcie.write(env.now, (0, descriptor.into()), Ps::ZERO, env.window);
        env.queue.push(visible, tcp(self.id, TcpStep::FrameVisible));
        env.fabric.make_room(into, link_bytes);
    }

    /// Handles a frame that is in memory together with its descriptor.
    pub(crate) fn frame_visible(&mut self, host: &mut Host, env: &mut Env) -> ReceivedFrame {
        host.settle(env.now, &mut env.payloads);
        let agent = self.agent();
        let ethernet = self.ethernet();
        let entry = ethernet.nic_in;
        ethernet.nic_in = ethernet.in_ring.next(entry);
        host.reach_entry(env.now, agent, ethernet.in_ring.whole(entry), AccessKind::Store);
        ethernet.arriving.pop_front().expect("a frame that becomes visible was written to memory before")
    }

    /// Announces `buffers` new buffers to the NIC, which then reads their addresses.
    pub(crate) fn refill(&mut self, env: &mut Env, buffers: u32) {
        self.pcie.doorbell(env.now, env.window);
        let bytes = buffers * size_of::<u64>() as u32;
        self.start_read(env, DmaRead::of(bytes, ReadPurpose::Refetch));
    }

    /// Returns when an interrupt that is raised now reaches a core. It does not overtake the NIC's writes.
    pub(crate) fn interrupt_arrives(&self, now: Ps) -> Ps {
        self.pcie.beside_writes(now)
    }
}
