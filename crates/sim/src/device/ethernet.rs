//! State of a plain Ethernet NIC: descriptor rings, buffers, and the segments and frames in the NIC.

use crate::core::index::{CoreId, PortId};
use crate::core::ps::Ps;
use crate::fabric::{Row, Segment};
use crate::host::{Host, LINE, Ring, RingQueue};
use doorbell_nic::Tcp;
use doorbell_nic::cost::{FRAME_HEADERS, TcpCost};
use doorbell_verbs::PageSize;
use std::collections::VecDeque;

/// Entries of a descriptor ring.
const ENTRIES: u32 = 1024;
/// Buffers that the driver adds when none is left.
const MORE_BUFFERS: u64 = 256;
/// Offset of a frame in its buffer. It aligns the IP header, which follows Ethernet's 14 bytes.
pub(super) const FRAME_AT: u64 = 2;

/// The circular buffer of a socket's data.
#[derive(Clone, Copy)]
pub(crate) struct SocketBuffer {
    pub(crate) addr: u64,
    pub(crate) bytes: u64,
}

impl SocketBuffer {
    /// The address of a byte by its number in the stream, and the bytes from it to the buffer's end.
    pub(crate) fn at(self, number: u64) -> (u64, u64) {
        let offset = number % self.bytes;
        (self.addr + offset, self.bytes - offset)
    }
}

/// A segment for which the driver has written a descriptor.
#[derive(Clone, Copy)]
pub(crate) struct PostedSegment {
    pub(crate) segment: Segment,
    /// The buffer of the segment's data, if it has any.
    pub(crate) data: Option<SocketBuffer>,
    /// The destination port.
    pub(crate) into: PortId,
}

/// A frame in memory.
#[derive(Clone, Copy)]
pub(crate) struct ReceivedFrame {
    pub(crate) segment: Segment,
    /// Address of the frame's buffer.
    pub(crate) buffer: u64,
    /// The port that sent the frame.
    pub(crate) from: PortId,
}

impl ReceivedFrame {
    /// Address of the frame's data.
    pub(crate) const fn data(&self) -> u64 {
        self.buffer + FRAME_AT + FRAME_HEADERS as u64
    }
}

/// State of a NIC that is used as a plain Ethernet NIC.
pub(crate) struct Ethernet {
    pub(super) mss: u32,
    pub(super) out_time: Ps,
    pub(super) in_time: Ps,
    pub(super) room: u32,
    pub(super) descriptor_in: u32,
    pub(super) descriptor_out: u32,
    /// Bytes of a frame buffer.
    pub(super) buffer: u64,
    pub(super) out_ring: Ring,
    pub(super) in_ring: Ring,
    /// The NIC's and the driver's next entry of each ring. The NIC reads `out` and writes `in`. The driver
    /// writes `out` and reads `in`.
    pub(super) nic_out: u32,
    pub(super) nic_in: u32,
    pub(super) driver_out: u32,
    pub(super) driver_in: u32,
    /// Segments that the driver has announced to the NIC.
    pub(super) posted: VecDeque<PostedSegment>,
    /// Segments whose descriptors the NIC has. `cut` bytes of the first are in frames already.
    pub(super) entered: VecDeque<PostedSegment>,
    pub(super) cut: u32,
    /// Frames that wait for their data, and frames behind them.
    pub(super) reading: Row,
    /// Bytes of frames that have not left.
    pub(super) held: u32,
    /// Empty buffers that the driver has provided.
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

    /// Takes a buffer for the next frame. The driver always provides enough buffers.
    pub(super) fn take_buffer(&mut self, host: &mut Host) -> u64 {
        if self.buffers.is_empty() {
            let bytes = MORE_BUFFERS * self.buffer;
            let more = host
                .alloc_near(0, CoreId(0), bytes, PageSize::Small)
                .expect("an allocation of this size never fails");
            self.buffers.extend((0..MORE_BUFFERS).rev().map(|i| more.addr(i * self.buffer)));
            // Reserve space to return each buffer.
            self.buffers.reserve(self.buffers.capacity());
        }
        self.buffers.pop().expect("the list has the buffers just added")
    }
}

const _: () = assert!(FRAME_AT < LINE);
