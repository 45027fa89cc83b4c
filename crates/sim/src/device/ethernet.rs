//! What a NIC has as a plain Ethernet NIC: rings of descriptors, buffers, and the segments and frames in it.

use crate::core::index::{CoreId, PortId};
use crate::core::ps::Ps;
use crate::fabric::{Row, Segment};
use crate::host::{Host, LINE, Ring, RingQueue};
use doorbell_nic::Tcp;
use doorbell_nic::cost::{FRAME_HEADERS, TcpCost};
use doorbell_verbs::PageSize;
use std::collections::VecDeque;

/// Entries of a ring of descriptors.
const ENTRIES: u32 = 1024;
/// Buffers that the driver adds where it has none left.
const MORE_BUFFERS: u64 = 256;
/// Where a frame begins in its buffer: the IP header behind Ethernet's 14 bytes is aligned then.
pub(super) const FRAME_AT: u64 = 2;

/// Bytes of a buffer that a socket's data goes round in.
#[derive(Clone, Copy)]
pub(crate) struct SocketBuffer {
    pub(crate) addr: u64,
    pub(crate) bytes: u64,
}

impl SocketBuffer {
    /// The address of a byte by its number, and how many follow it until the end.
    pub(crate) fn at(self, number: u64) -> (u64, u64) {
        let offset = number % self.bytes;
        (self.addr + offset, self.bytes - offset)
    }
}

/// A segment that the driver has a descriptor of.
#[derive(Clone, Copy)]
pub(crate) struct PostedSegment {
    pub(crate) segment: Segment,
    /// Where its data is, if it has some.
    pub(crate) data: Option<SocketBuffer>,
    /// The port that it is for.
    pub(crate) into: PortId,
}

/// A frame in memory.
#[derive(Clone, Copy)]
pub(crate) struct ReceivedFrame {
    pub(crate) segment: Segment,
    /// The buffer that it is in.
    pub(crate) buffer: u64,
    /// The port that it comes from.
    pub(crate) from: PortId,
}

impl ReceivedFrame {
    /// Where its data is.
    pub(crate) const fn data(&self) -> u64 {
        self.buffer + FRAME_AT + FRAME_HEADERS as u64
    }
}

/// What a NIC has of it.
pub(crate) struct Ethernet {
    pub(super) mss: u32,
    pub(super) out_time: Ps,
    pub(super) in_time: Ps,
    pub(super) room: u32,
    pub(super) descriptor_in: u32,
    pub(super) descriptor_out: u32,
    /// Bytes of a buffer for a frame.
    pub(super) buffer: u64,
    pub(super) out_ring: Ring,
    pub(super) in_ring: Ring,
    /// The entry of each that the NIC reads, or writes, next, and that the driver writes, or reads, next.
    pub(super) nic_out: u32,
    pub(super) nic_in: u32,
    pub(super) driver_out: u32,
    pub(super) driver_in: u32,
    /// Segments of which the NIC has been told.
    pub(super) posted: VecDeque<PostedSegment>,
    /// Segments whose descriptors it has; of the first, so many bytes are in frames.
    pub(super) entered: VecDeque<PostedSegment>,
    pub(super) cut: u32,
    /// Frames that wait for their data, and those behind them.
    pub(super) reading: Row,
    /// Bytes of frames that have not left.
    pub(super) held: u32,
    /// Buffers that the driver has given and no frame is in.
    pub(crate) buffers: Vec<u64>,
    /// Frames on their way to memory.
    pub(super) arriving: VecDeque<ReceivedFrame>,
    pub(crate) frames_out: u64,
    pub(crate) frames_in: u64,
}

impl Ethernet {
    pub(super) fn new(tcp: &Tcp, host: &mut Host) -> Ethernet {
        let frame = FRAME_AT + u64::from(tcp.mtu) + 14;
        Ethernet {
            mss: TcpCost::new(tcp).mss,
            out_time: tcp.nic_out.into(),
            in_time: tcp.nic_in.into(),
            room: tcp.nic_buffer,
            descriptor_in: tcp.descriptor_in,
            descriptor_out: tcp.descriptor_out,
            buffer: frame.next_power_of_two(),
            out_ring: host.add_ring(CoreId(0), RingQueue::Send, ENTRIES, tcp.descriptor_out),
            in_ring: host.add_ring(CoreId(0), RingQueue::Completion, ENTRIES, tcp.descriptor_in),
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
    pub(super) fn take_buffer(&mut self, host: &mut Host) -> u64 {
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

const _: () = assert!(FRAME_AT < LINE);
