//! The event queue, ordered by time.
//!
//! Among the events of one picosecond, the actions of threads come last. The other events are ordered by
//! kind, then by device, then by port, unit or QP. The order in which events were added matters only for
//! events that agree in all of these.

use crate::core::index::{CqId, DeviceId, FlightId, LockId, QpId, ReadId, RecvQueueId, ThreadId, UnitId};
use crate::core::ps::Ps;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Bit of [`EventKey::order`] that places threads' actions after all other events of the same instant.
const THREAD: u64 = 1 << 63;
/// Bit of the order of a thread's turn. A turn comes after the thread's earlier actions of that instant.
const TURN: u64 = 1 << 9;

/// The position of an event in the order of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventKey {
    pub(crate) time: Ps,
    /// Kind of the event, and the thing that the event concerns. For a thread's action: the thread's number
    /// with [`THREAD`] and, for a turn, [`TURN`].
    pub(crate) order: u64,
}

impl EventKey {
    pub(crate) const NEVER: EventKey = EventKey { time: Ps::NEVER, order: u64::MAX };

    /// Key of a thread that acts at `time`.
    pub(crate) const fn thread(time: Ps, thread: ThreadId) -> EventKey {
        EventKey { time, order: THREAD | (thread.0 as u64) << ENTITY | TURN }
    }

    /// Whether the event only wakes waiting threads and changes nothing else. Whether such events exist
    /// depends on the threads that wait.
    pub(crate) const fn is_wake_up(self) -> bool {
        self.order < (kind::COMPLETION as u64 + 1) << KIND
    }

    /// Whether this is the key of a thread's turn.
    pub(crate) const fn is_turn(self) -> bool {
        self.order & TURN != 0
    }
}

impl EventKey {
    /// Both parts as one number, which is compared without a branch.
    const fn number(self) -> u128 {
        (self.time.0 as u128) << 64 | self.order as u128
    }
}

impl PartialOrd for EventKey {
    fn partial_cmp(&self, other: &EventKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EventKey {
    fn cmp(&self, other: &EventKey) -> Ordering {
        self.number().cmp(&other.number())
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimEvent {
    /// A thread runs.
    Thread(ThreadId),
    /// A line of a DMA write becomes visible, and a thread may wait for it.
    Visible { device: DeviceId },
    /// A completion becomes visible in a CQ, and a thread waits for it.
    Completion { device: DeviceId, cq: CqId },
    /// A DMA read request reaches memory.
    ReadAtHost { device: DeviceId, read: ReadId },
    /// Memory and caches have brought the lines of a DMA read.
    ReadFetched { device: DeviceId, read: ReadId },
    /// The last completion of a DMA read reaches the NIC.
    ReadDone { device: DeviceId, read: ReadId },
    /// `count` WQEs written by MMIO, or a doorbell for `count` WQEs, reach the NIC. They were posted in life
    /// `life` of the QP; a reset begins another life.
    Mmio { device: DeviceId, count: u16, qp: QpId, by_mmio: bool, life: u16 },
    /// A doorbell for `count` RECVs reaches the NIC.
    RecvDoorbell { device: DeviceId, count: u16, recv_queue: RecvQueueId },
    /// A packet of device `from` reaches a port, given by its number on the device.
    Arrive { device: DeviceId, port: u8, from: DeviceId, flight: FlightId },
    /// A packet has come through a port that was busy with other packets.
    Ingress { device: DeviceId, port: u8, flight: FlightId },
    /// A receiving unit is done with a packet.
    RxDone { device: DeviceId, unit: UnitId, flight: FlightId },
    /// An atomic releases its lock.
    Unlock { device: DeviceId, lock: LockId },
    /// Bytes of the NIC's own memory are in the NIC's packet.
    OwnRead { device: DeviceId, flight: FlightId },
    /// A sending unit is done with a packet.
    TxPu { device: DeviceId, unit: UnitId, flight: FlightId },
    /// A sending unit ends its stall after a packet of a QP.
    TxOn { device: DeviceId, unit: UnitId, qp: QpId },
    /// A port that had too much to send may accept further packets.
    PortOut { device: DeviceId, port: u8 },
    /// A transport timer of a QP.
    Timer { device: DeviceId, qp: QpId },
    /// The next line of a WQE, or the next doorbell, leaves the core of a thread for a device.
    MmioOut { device: DeviceId, thread: ThreadId },
    /// A step of kernel TCP. `number` is the id of a frame or a socket, if the step concerns one.
    Tcp { device: DeviceId, step: TcpStep, number: u32 },
}

/// Steps of kernel TCP, in their order within one picosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpStep {
    /// A doorbell for a segment leaves a core.
    SegmentDoorbell,
    /// The doorbell for a segment reaches the NIC.
    SegmentPosted,
    /// A frame is ready to leave by the port.
    FrameOut,
    /// A received frame goes to memory.
    FrameIn,
    /// A frame and its descriptor are in memory.
    FrameVisible,
    /// A NIC interrupts a core.
    Interrupt,
    /// The driver's poll takes its next step.
    DriverPoll,
    /// A socket's delayed ACK is due, because no data came that it could go with.
    DelayedAck,
}

impl TcpStep {
    const ALL: [TcpStep; 8] = [
        TcpStep::SegmentDoorbell,
        TcpStep::SegmentPosted,
        TcpStep::FrameOut,
        TcpStep::FrameIn,
        TcpStep::FrameVisible,
        TcpStep::Interrupt,
        TcpStep::DriverPoll,
        TcpStep::DelayedAck,
    ];
}

impl SimEvent {
    /// The device that the event concerns; none for a thread's turn.
    pub(crate) fn device(self) -> Option<DeviceId> {
        let Packed { order, .. } = Packed::new(self);
        (order & THREAD == 0).then_some(DeviceId((order >> DEVICE) as u16))
    }
}

/// Kinds of events, in the order in which events of one picosecond are taken.
///
/// Results depend on this order, so it never changes and new kinds are appended. The first kinds bring data
/// to memory, the NIC and ports, so that a reader in the same picosecond finds it there. Units, sending ports
/// and timers follow. `READ_FETCHED`, `TCP`, `TX_ON` and `OWN_READ` were appended later. Threads' actions come
/// last.
mod kind {
    pub(super) const VISIBLE: u8 = 0;
    pub(super) const COMPLETION: u8 = 1;
    pub(super) const READ_AT_HOST: u8 = 2;
    pub(super) const READ_DONE: u8 = 3;
    pub(super) const WQES: u8 = 4;
    pub(super) const DOORBELL: u8 = 5;
    pub(super) const RECV_DOORBELL: u8 = 6;
    pub(super) const ARRIVE: u8 = 7;
    pub(super) const INGRESS: u8 = 8;
    pub(super) const RX_DONE: u8 = 9;
    pub(super) const UNLOCK: u8 = 10;
    pub(super) const TX_UNIT: u8 = 11;
    pub(super) const PORT_OUT: u8 = 12;
    pub(super) const TIMER: u8 = 13;
    pub(super) const READ_FETCHED: u8 = 14;
    pub(super) const TCP: u8 = 15;
    pub(super) const TX_ON: u8 = 16;
    pub(super) const OWN_READ: u8 = 17;
    /// The kind with the bit [`super::THREAD`] set.
    pub(super) const MMIO_OUT: u8 = 32;
}

/// Lowest bits of the parts of an order: kind, device, and entity (port, unit, QP or thread). Apart from
/// [`TURN`], the bits below are zero.
const KIND: u32 = 58;
const DEVICE: u32 = 42;
const ENTITY: u32 = 10;

const _: () = assert!(TURN < 1 << ENTITY && THREAD == (kind::MMIO_OUT as u64) << KIND);

/// An event in two words. `order` holds the kind and the thing that the event concerns. `rest` holds the
/// other data for the handler. The queue moves events around. An enum with variants of several sizes is moved
/// in pieces, and processors are slow to read such pieces back as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    order: u64,
    rest: u32,
}

impl Packed {
    #[inline(always)]
    pub(crate) fn new(event: SimEvent) -> Packed {
        let of = |kind: u8, device: DeviceId, entity: u32, rest: u32| Packed {
            order: u64::from(kind) << KIND | u64::from(device.0) << DEVICE | u64::from(entity) << ENTITY,
            rest,
        };
        match event {
            SimEvent::Thread(thread) => Packed { order: EventKey::thread(Ps::ZERO, thread).order, rest: 0 },
            SimEvent::Visible { device } => of(kind::VISIBLE, device, 0, 0),
            SimEvent::Completion { device, cq } => of(kind::COMPLETION, device, cq.0, 0),
            SimEvent::ReadAtHost { device, read } => of(kind::READ_AT_HOST, device, 0, read.0),
            SimEvent::ReadFetched { device, read } => of(kind::READ_FETCHED, device, 0, read.0),
            SimEvent::ReadDone { device, read } => of(kind::READ_DONE, device, 0, read.0),
            SimEvent::Mmio { device, count, qp, by_mmio, life } => {
                let kind = if by_mmio { kind::WQES } else { kind::DOORBELL };
                of(kind, device, qp.0, u32::from(life) << 16 | u32::from(count))
            }
            SimEvent::RecvDoorbell { device, count, recv_queue } => {
                of(kind::RECV_DOORBELL, device, recv_queue.0, count.into())
            }
            SimEvent::Arrive { device, port, from, flight } => {
                of(kind::ARRIVE, device, u32::from(port) << 16 | u32::from(from.0), flight.0)
            }
            SimEvent::Ingress { device, port, flight } => of(kind::INGRESS, device, port.into(), flight.0),
            SimEvent::RxDone { device, unit, flight } => of(kind::RX_DONE, device, unit.0.into(), flight.0),
            SimEvent::Unlock { device, lock } => of(kind::UNLOCK, device, lock.0, 0),
            SimEvent::OwnRead { device, flight } => of(kind::OWN_READ, device, 0, flight.0),
            SimEvent::TxPu { device, unit, flight } => of(kind::TX_UNIT, device, unit.0.into(), flight.0),
            SimEvent::TxOn { device, unit, qp } => of(kind::TX_ON, device, unit.0.into(), qp.0),
            SimEvent::PortOut { device, port } => of(kind::PORT_OUT, device, port.into(), 0),
            SimEvent::Timer { device, qp } => of(kind::TIMER, device, qp.0, 0),
            SimEvent::MmioOut { device, thread } => {
                of(kind::MMIO_OUT, DeviceId(0), thread.0, device.0.into())
            }
            SimEvent::Tcp { device, step, number } => of(kind::TCP, device, step as u32, number),
        }
    }

    #[inline]
    pub(crate) fn event(self) -> SimEvent {
        if let Some(thread) = self.thread() {
            return SimEvent::Thread(thread);
        }
        let Packed { order, rest } = self;
        let (device, entity) = (DeviceId((order >> DEVICE) as u16), (order >> ENTITY) as u32);
        let (unit, port) = (UnitId(entity as u16), entity as u8);
        let (count, life) = (rest as u16, (rest >> 16) as u16);
        let (qp, flight) = (QpId(entity), FlightId(rest));
        match (order >> KIND) as u8 {
            kind::VISIBLE => SimEvent::Visible { device },
            kind::COMPLETION => SimEvent::Completion { device, cq: CqId(entity) },
            kind::READ_AT_HOST => SimEvent::ReadAtHost { device, read: ReadId(rest) },
            kind::READ_FETCHED => SimEvent::ReadFetched { device, read: ReadId(rest) },
            kind::READ_DONE => SimEvent::ReadDone { device, read: ReadId(rest) },
            kind::WQES => SimEvent::Mmio { device, count, qp, by_mmio: true, life },
            kind::DOORBELL => SimEvent::Mmio { device, count, qp, by_mmio: false, life },
            kind::RECV_DOORBELL => SimEvent::RecvDoorbell { device, count, recv_queue: RecvQueueId(entity) },
            kind::ARRIVE => {
                let from = DeviceId(entity as u16);
                SimEvent::Arrive { device, port: (entity >> 16) as u8, from, flight }
            }
            kind::INGRESS => SimEvent::Ingress { device, port, flight },
            kind::RX_DONE => SimEvent::RxDone { device, unit, flight },
            kind::UNLOCK => SimEvent::Unlock { device, lock: LockId(entity) },
            kind::OWN_READ => SimEvent::OwnRead { device, flight },
            kind::TX_UNIT => SimEvent::TxPu { device, unit, flight },
            kind::TX_ON => SimEvent::TxOn { device, unit, qp: QpId(rest) },
            kind::PORT_OUT => SimEvent::PortOut { device, port },
            kind::TIMER => SimEvent::Timer { device, qp },
            kind::TCP => SimEvent::Tcp { device, step: TcpStep::ALL[entity as usize], number: rest },
            kind::MMIO_OUT => SimEvent::MmioOut { device: DeviceId(rest as u16), thread: ThreadId(entity) },
            kind => unreachable!("no event is packed with kind {kind}"),
        }
    }

    /// The thread whose turn this is; none for other events.
    #[inline]
    pub(crate) fn thread(self) -> Option<ThreadId> {
        (self.order & TURN != 0).then_some(ThreadId((self.order >> ENTITY) as u32))
    }
}

/// Binary logarithm of a bucket's length in picoseconds. With 1400 working threads, a bucket holds the events
/// of about two threads.
const BUCKET_BITS: u32 = 6;
/// Number of buckets. The wheel covers about 4 us.
const BUCKETS: usize = 65536;
/// Number of buckets, from the present one on, that may hold events. The wheel has 64 more, so that buckets
/// whose bits share a word belong to one round of the wheel.
const REACH: u64 = BUCKETS as u64 - 64;
const NONE: u32 = u32::MAX;

/// An event in a bucket.
#[derive(Clone, Copy)]
struct Node {
    /// Position in the bucket: time since the bucket's beginning, then the order without the bits that are
    /// always zero.
    rank: u64,
    rest: u32,
    /// The next later event of the bucket, in the shared list.
    next: u32,
}

const _: () = assert!(1 << BUCKET_BITS < TURN, "an order has bits to spare for the time within a bucket");

impl Node {
    const EMPTY: Node = Node { rank: 0, rest: 0, next: NONE };

    #[inline]
    const fn rank(key: EventKey) -> u64 {
        key.time.0 << (64 - BUCKET_BITS) | key.order >> BUCKET_BITS
    }

    /// The key of an event, given the number (not index) of its bucket.
    #[inline]
    const fn key(self, bucket: u64) -> EventKey {
        let time = Ps(bucket << BUCKET_BITS | self.rank >> (64 - BUCKET_BITS));
        EventKey { time, order: self.rank << BUCKET_BITS }
    }
}

/// An event beyond the wheel's reach. The order of such events is reversed, so the greatest in the heap is
/// the earliest. Among equal keys, the greatest is the event that was added first.
struct FarEvent {
    key: EventKey,
    sequence: u64,
    rest: u32,
}

impl PartialEq for FarEvent {
    fn eq(&self, other: &FarEvent) -> bool {
        (self.key, self.sequence) == (other.key, other.sequence)
    }
}

impl Eq for FarEvent {}

impl PartialOrd for FarEvent {
    fn partial_cmp(&self, other: &FarEvent) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FarEvent {
    fn cmp(&self, other: &FarEvent) -> Ordering {
        (other.key, other.sequence).cmp(&(self.key, self.sequence))
    }
}

/// Words of the bitmap over the buckets.
const WORDS: usize = BUCKETS / 64;

/// Pending events, earliest first. A wheel of short buckets holds the near future, where nearly all events
/// are, and a heap holds the rest. No event may be added at a time before the last popped event.
///
/// Most buckets hold at most one event, which lies in the bucket itself.
pub(crate) struct EventQueue {
    /// Key of the earliest event.
    earliest: EventKey,
    /// Bucket number (not index) of the last popped event.
    present: u64,
    /// The value of `present` from which on the wheel reaches the earliest event in the heap; `u64::MAX` if
    /// the heap is empty.
    far_due: u64,
    /// Events in the wheel.
    near: u32,
    /// The first free entry of `shared`.
    free: u32,
    /// First event of each occupied bucket.
    buckets: Box<[Node; BUCKETS]>,
    /// Bitmap of the buckets that hold events.
    occupied: [u64; WORDS],
    /// Events after the first of their bucket, linked in order.
    shared: Vec<Node>,
    /// Last shared event of each bucket that has shared events. It makes appending fast: many threads that
    /// begin alike mostly append.
    last: Box<[u32]>,
    far: BinaryHeap<FarEvent>,
    /// Number of events ever added to the heap.
    sequence: u64,
}

/// Number of the bucket that a moment lies in.
#[inline]
const fn bucket_of(time: Ps) -> u64 {
    time.0 >> BUCKET_BITS
}

/// Index of a bucket.
#[inline]
const fn index(bucket: u64) -> usize {
    bucket as usize % BUCKETS
}

/// The first value of `present` at which the wheel reaches the bucket of an event.
#[inline]
const fn far_due(key: EventKey) -> u64 {
    bucket_of(key.time).saturating_sub(REACH - 1)
}

/// Creates the buckets on the heap, because they may be too large for a stack.
fn empty_buckets() -> Box<[Node; BUCKETS]> {
    let buckets = vec![Node::EMPTY; BUCKETS].into_boxed_slice();
    buckets.try_into().unwrap_or_else(|_| unreachable!("the vector has BUCKETS elements"))
}

impl EventQueue {
    pub(crate) fn new() -> EventQueue {
        EventQueue {
            earliest: EventKey::NEVER,
            present: 0,
            far_due: u64::MAX,
            near: 0,
            free: NONE,
            buckets: empty_buckets(),
            occupied: [0; WORDS],
            shared: Vec::with_capacity(1024),
            last: vec![0; BUCKETS].into(),
            far: BinaryHeap::with_capacity(1024),
            sequence: 0,
        }
    }

    /// Adds an event of a NIC or a memory.
    #[inline]
    pub(crate) fn push(&mut self, time: Ps, event: SimEvent) {
        self.push_packed(time, Packed::new(event));
    }

    /// Adds an event that was packed before.
    #[inline]
    pub(crate) fn push_packed(&mut self, time: Ps, Packed { order, rest }: Packed) {
        self.add(EventKey { time, order }, rest);
    }

    /// Adds the turn of a thread.
    pub(crate) fn push_thread(&mut self, time: Ps, thread: ThreadId) {
        self.add(EventKey::thread(time, thread), 0);
    }

    /// Adds an event. The rare cases are calls in tail position, so that the common case need not save
    /// registers.
    fn add(&mut self, key: EventKey, rest: u32) {
        let bucket = bucket_of(key.time);
        debug_assert!(bucket >= self.present, "the event's time is in the past");
        if bucket - self.present >= REACH {
            return self.add_far(key, rest);
        }
        self.near += 1;
        let index = index(bucket);
        let (word, bit) = (&mut self.occupied[index / 64], 1 << (index % 64));
        if *word & bit != 0 {
            return self.add_to(index, key, rest);
        }
        *word |= bit;
        self.buckets[index] = Node { rank: Node::rank(key), rest, next: NONE };
        if key < self.earliest {
            self.earliest = key;
        }
    }

    /// Adds an event to an occupied bucket, after all events with an equal or smaller rank.
    #[inline(never)]
    fn add_to(&mut self, index: usize, key: EventKey, rest: u32) {
        let rank = Node::rank(key);
        let first = self.buckets[index];
        if rank < first.rank {
            let next = self.share(first);
            if first.next == NONE {
                self.last[index] = next;
            }
            self.buckets[index] = Node { rank, rest, next };
            self.earliest = self.earliest.min(key);
            return;
        }
        let (mut before, mut next) = (NONE, first.next);
        let last = self.last[index];
        if next != NONE && self.shared[last as usize].rank <= rank {
            (before, next) = (last, NONE);
        }
        while let Some(node) = self.shared.get(next as usize)
            && node.rank <= rank
        {
            (before, next) = (next, node.next);
        }
        let new = self.share(Node { rank, rest, next });
        if next == NONE {
            self.last[index] = new;
        }
        match self.shared.get_mut(before as usize) {
            Some(node) => node.next = new,
            None => self.buckets[index].next = new,
        }
    }

    /// Stores an event in `shared`.
    #[inline]
    fn share(&mut self, node: Node) -> u32 {
        let number = self.free;
        match self.shared.get_mut(number as usize) {
            Some(place) => {
                self.free = place.next;
                *place = node;
                number
            }
            None => {
                self.shared.push(node);
                (self.shared.len() - 1) as u32
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn add_far(&mut self, key: EventKey, rest: u32) {
        self.sequence += 1;
        self.far.push(FarEvent { key, sequence: self.sequence, rest });
        self.far_due = self.far_due.min(far_due(key));
        self.earliest = self.earliest.min(key);
    }

    /// Number of the first occupied bucket from the present on; there must be one.
    #[inline]
    fn first_bucket(&self) -> u64 {
        let mut word = self.present / 64;
        loop {
            let bits = self.occupied[word as usize % WORDS];
            if bits != 0 {
                return word * 64 + u64::from(bits.trailing_zeros());
            }
            word += 1;
        }
    }

    /// Updates the key of the earliest event.
    #[inline]
    fn find_earliest(&mut self) {
        self.earliest = if self.near > 0 {
            let bucket = self.first_bucket();
            self.buckets[index(bucket)].key(bucket)
        } else {
            // Only events in the heap are left. They stay there, because an earlier event may still be added.
            self.far.peek().map_or(EventKey::NEVER, |far| far.key)
        };
    }

    /// Moves events within the wheel's reach from the heap to the wheel.
    #[cold]
    fn bring_near(&mut self) {
        while let Some(&FarEvent { key, rest, .. }) = self.far.peek()
            && far_due(key) <= self.present
        {
            self.far.pop();
            self.add(key, rest);
        }
        self.far_due = self.far.peek().map_or(u64::MAX, |far| far_due(far.key));
    }

    /// Key of the earliest event.
    #[inline]
    pub(crate) fn next_key(&self) -> EventKey {
        self.earliest
    }

    /// Whether at least `many` events are pending in the wheel, which covers the next microseconds.
    #[inline]
    pub(crate) fn is_crowd(&self, many: u32) -> bool {
        self.near >= many
    }

    /// Calls `look` for the events in the buckets after number `shown`, up to `ahead` buckets from the
    /// present. Returns the number of the last of these buckets, to pass as `shown` next time.
    #[inline]
    pub(crate) fn show(&self, shown: u64, ahead: u64, mut look: impl FnMut(Packed)) -> u64 {
        let last = self.present + ahead;
        for bucket in shown.max(self.present) + 1..=last {
            let index = index(bucket);
            if self.occupied[index / 64] & 1 << (index % 64) == 0 {
                continue;
            }
            let mut node = self.buckets[index];
            loop {
                look(Packed { order: node.key(bucket).order, rest: node.rest });
                let Some(&next) = self.shared.get(node.next as usize) else { break };
                node = next;
            }
        }
        last
    }

    /// Takes the earliest event. Inlined into the event loop, because a call would cost a fifth of the work
    /// here.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Packed> {
        let Some(near) = self.near.checked_sub(1) else { return self.pop_far() };
        let EventKey { time, order } = self.earliest;
        let bucket = bucket_of(time);
        self.present = bucket;
        self.near = near;
        let index = index(bucket);
        let Node { rest, next, .. } = self.buckets[index];
        if let Some(node) = self.shared.get_mut(next as usize) {
            self.buckets[index] = *node;
            self.earliest = node.key(bucket);
            node.next = self.free;
            self.free = next;
            self.reach_out();
        } else {
            self.occupied[index / 64] &= !(1 << (index % 64));
            self.reach_out();
            self.find_earliest();
        }
        Some(Packed { order, rest })
    }

    /// Brings due events from the heap to the wheel. Call this when `present` has advanced.
    #[inline]
    fn reach_out(&mut self) {
        if self.present >= self.far_due {
            self.bring_near();
        }
    }

    #[cold]
    fn pop_far(&mut self) -> Option<Packed> {
        let FarEvent { key, rest, .. } = self.far.pop()?;
        self.present = bucket_of(key.time);
        self.bring_near();
        self.find_earliest();
        Some(Packed { order: key.order, rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrive(device: u16, flight: u32) -> SimEvent {
        SimEvent::Arrive { device: DeviceId(device), port: 1, from: DeviceId(3), flight: FlightId(flight) }
    }

    #[test]
    fn order_is_time_then_what_it_concerns_then_thread() {
        let visible = SimEvent::Visible { device: DeviceId(9) };
        let [second, third] = [2, 3].map(ThreadId);
        let mut q = EventQueue::new();
        q.push_thread(Ps(10), third);
        q.push(Ps(10), arrive(2, 1));
        q.push_thread(Ps(10), second);
        q.push(Ps(10), arrive(1, 9));
        q.push(Ps(10), visible);
        q.push(Ps(10), arrive(1, 8));
        q.push(Ps(10), SimEvent::MmioOut { device: DeviceId(0), thread: third });
        q.push(Ps(5), arrive(7, 3));
        let order: Vec<SimEvent> = std::iter::from_fn(|| q.pop().map(Packed::event)).collect();
        let mmio = SimEvent::MmioOut { device: DeviceId(0), thread: third };
        let threads = [SimEvent::Thread(second), mmio, SimEvent::Thread(third)];
        assert_eq!(order[0], arrive(7, 3));
        assert_eq!(order[1..5], [visible, arrive(1, 9), arrive(1, 8), arrive(2, 1)], "as they were added");
        assert_eq!(order[5..], threads);
    }

    #[test]
    fn what_is_ahead_is_shown_once() {
        let mut q = EventQueue::new();
        let bucket = 1 << BUCKET_BITS;
        for (n, buckets) in [0, 1, 2, 2, 4, 9].into_iter().enumerate() {
            q.push(Ps(buckets * bucket + 7 * n as u64), arrive(0, n as u32));
        }
        let show = |q: &EventQueue, shown: u64| {
            let mut seen = Vec::new();
            (q.show(shown, 2, |event| seen.push(event.event())), seen)
        };
        let (shown, seen) = show(&q, 0);
        assert_eq!(seen, [1, 2, 3].map(|n| arrive(0, n)));
        q.pop();
        assert_eq!(show(&q, shown), (shown, vec![]), "the present is where it was");
        q.pop();
        q.pop();
        let (shown, seen) = show(&q, shown);
        assert_eq!((shown, seen), (4, vec![arrive(0, 4)]));
    }

    #[test]
    fn an_event_is_what_was_packed() {
        let (port, qp, count, unit) = (u8::MAX, QpId(0x7ff_ffff), u16::MAX, UnitId(255));
        let (device, flight) = (DeviceId(u16::MAX), FlightId(u32::MAX));
        for event in [
            SimEvent::Thread(ThreadId(u32::MAX)),
            SimEvent::Visible { device },
            SimEvent::Completion { device, cq: CqId(u32::MAX) },
            SimEvent::ReadAtHost { device, read: ReadId(1) },
            SimEvent::ReadFetched { device, read: ReadId(3) },
            SimEvent::ReadDone { device, read: ReadId(2) },
            SimEvent::Mmio { device, count, qp, by_mmio: true, life: 65_535 },
            SimEvent::Mmio { device, count, qp, by_mmio: false, life: 3 },
            SimEvent::RecvDoorbell { device, count, recv_queue: RecvQueueId(u32::MAX) },
            SimEvent::Arrive { device, port, from: DeviceId(0xfffe), flight },
            SimEvent::Ingress { device, port, flight },
            SimEvent::RxDone { device, unit, flight },
            SimEvent::Unlock { device, lock: LockId(u32::MAX) },
            SimEvent::OwnRead { device, flight: FlightId(u32::MAX) },
            SimEvent::TxPu { device, unit, flight },
            SimEvent::TxOn { device, unit, qp },
            SimEvent::PortOut { device, port },
            SimEvent::Timer { device, qp },
            SimEvent::MmioOut { device, thread: ThreadId(u32::MAX) },
            SimEvent::Tcp { device, step: TcpStep::DelayedAck, number: u32::MAX },
            SimEvent::Tcp { device, step: TcpStep::SegmentDoorbell, number: 0 },
        ] {
            assert_eq!(Packed::new(event).event(), event);
        }
    }

    proptest! {
        /// Adding (after the given picoseconds) and taking in any order gives the results of a heap that
        /// takes equal keys in the order of adding.
        #[test]
        fn it_is_a_priority_queue(
            steps in prop::collection::vec(prop::option::of((
                prop_oneof![0u64..3, 0u64..2000, 0u64..5_000_000, 0u64..100_000_000_000],
                0u16..3,
            )), 1..400)
        ) {
            let mut q = EventQueue::new();
            let mut model = std::collections::BTreeMap::new();
            let mut now = Ps::ZERO;
            for (n, step) in steps.iter().enumerate() {
                // Reading the next key changes nothing.
                prop_assert_eq!(q.next_key(), q.next_key());
                if let Some((after, device)) = step {
                    let event = arrive(*device, n as u32);
                    q.push(now + Ps(*after), event);
                    model.insert((now + Ps(*after), device, n), event);
                } else {
                    let expected = model.pop_first().map(|((time, ..), e)| (time, e));
                    let time = q.next_key().time;
                    let got = q.pop().map(|e| (time, e.event()));
                    prop_assert_eq!(got, expected);
                    now = got.map_or(now, |(time, _)| time);
                }
            }
        }
    }
}
