//! A socket: what it has to send, what it has received, and the rules of TCP for a fabric that loses nothing. No time,
//! no memory.

use crate::core::index::{PortId, SocketId, ThreadId};
use crate::core::ps::Ps;
use crate::device::SocketBuffer;
use crate::fabric::{Segment, SegmentControl};
use std::collections::VecDeque;

/// Segments without an ACK after which one is due (RFC 1122, 4.2.3.2).
const SEGMENTS_PER_ACK: u64 = 2;

/// Where a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SocketState {
    /// Peers connect to it; those that have and that nobody has accepted.
    Listening(VecDeque<SocketId>),
    /// It waits for an answer.
    Connecting,
    /// A peer has asked for it, at this listener.
    Asked(SocketId),
    Connected,
    /// Nobody listens there.
    Refused,
    /// The peer has ended it, though not all was said.
    Reset,
}

/// What a thread that sleeps for a socket waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketWant {
    /// Something to take: data, its end, a connection, or the answer to one that it asked for.
    Take,
    /// Room for data.
    Room,
}

/// Bytes that have been received and are in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldBytes {
    pub(crate) addr: u64,
    pub(crate) len: u32,
    /// The buffer, which the NIC may have again.
    pub(crate) buffer: u64,
}

/// One direction, as its sender knows it. Bytes are numbered from 0; the end is numbered as a byte is.
pub(crate) struct Outgoing {
    /// Where the bytes are that the peer may not have; none of a listener, and of a socket that is over.
    pub(crate) data: Option<SocketBuffer>,
    /// Bytes that the peer has, that have been sent, and that the program has written.
    acked: u64,
    sent: u64,
    written: u64,
    /// The first byte that the peer has no room for.
    edge: u64,
    /// Nothing will be written any more.
    ends: bool,
    /// Bytes of a frame, and of a segment, at most.
    mss: u32,
    most: u32,
}

impl Outgoing {
    pub(crate) fn new(data: Option<SocketBuffer>, mss: u32, most: u32) -> Outgoing {
        Outgoing { data, acked: 0, sent: 0, written: 0, edge: 0, ends: false, mss, most }
    }

    /// What the peer has said of itself.
    fn meets(&mut self, edge: u64, mss: u32) {
        self.edge = edge;
        self.mss = self.mss.min(mss);
        self.most = (self.most / self.mss).max(1) * self.mss;
    }

    /// Bytes of the buffer.
    fn bytes(&self) -> u64 {
        self.data.map_or(0, |data| data.bytes)
    }

    /// Bytes that there is room for.
    pub(crate) fn room(&self) -> u64 {
        self.bytes().saturating_sub(self.written.saturating_sub(self.acked))
    }

    /// The address of a byte by its number, and how many follow it until the end of the buffer.
    pub(crate) fn at(&self, number: u64) -> (u64, u64) {
        self.data.expect("a socket that a program writes to has a buffer").at(number)
    }

    /// Whether there is so much that a thread that waits for it is woken: a third.
    pub(crate) fn has_room_again(&self) -> bool {
        self.room() >= self.bytes() / 3
    }

    /// Bytes that are written and not sent.
    pub(crate) fn pending(&self) -> u64 {
        self.written.saturating_sub(self.sent)
    }

    /// Number of the next byte that is written.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// Bytes of the largest segment.
    pub(crate) const fn most(&self) -> u32 {
        self.most
    }

    pub(crate) fn write(&mut self, bytes: u64) {
        self.written += bytes;
    }

    pub(crate) fn end(&mut self) {
        self.ends = true;
    }

    /// The peer has all up to `ack`, and room up to `edge`. What is lower is old.
    fn acknowledged(&mut self, ack: u64, edge: u64) {
        self.acked = self.acked.max(ack);
        self.edge = self.edge.max(edge);
    }

    /// Whether all is acknowledged, the end included.
    fn is_over(&self) -> bool {
        self.ends && self.acked > self.written
    }

    /// How many bytes the next segment has, or that it is the end; none where nothing may be sent.
    pub(crate) fn next(&self) -> Option<(u32, SegmentControl)> {
        if self.pending() == 0 {
            let ends = self.ends && self.sent == self.written;
            return ends.then_some((0, SegmentControl::Fin));
        }
        let room = self.edge.saturating_sub(self.sent);
        let len = self.pending().min(room).min(self.most.into()) as u32;
        let whole = if u64::from(len) < self.pending() { len / self.mss * self.mss } else { len };
        match whole {
            // ACKs of what is under way open the window further.
            0 if len == 0 || self.acked < self.sent => None,
            0 => Some((len, SegmentControl::None)),
            whole => Some((whole, SegmentControl::None)),
        }
    }

    /// Takes the next segment; returns the number of its first byte, and whether nothing is behind it.
    fn take(&mut self, len: u32, control: SegmentControl) -> (u64, bool) {
        let seq = self.sent;
        self.sent += u64::from(len) + u64::from(control == SegmentControl::Fin);
        (seq, self.pending() == 0)
    }
}

/// The other direction, as its receiver knows it.
pub(crate) struct Incoming {
    /// Bytes that have come, and of them, such as the peer has been told of.
    next: u64,
    told: u64,
    /// The first byte that the peer has been told there is no room for.
    edge: u64,
    size: u64,
    pub(crate) held: VecDeque<HeldBytes>,
    bytes: u64,
    ended: bool,
    /// When an ACK is due at the latest; [`Ps::NEVER`]: none is.
    pub(crate) ack_due: Ps,
    /// An event stands where one was due.
    pub(crate) ack_timed: bool,
}

impl Incoming {
    pub(crate) fn new(size: u64) -> Incoming {
        Incoming {
            next: 0,
            told: 0,
            edge: size,
            size,
            held: VecDeque::new(),
            bytes: 0,
            ended: false,
            ack_due: Ps::NEVER,
            ack_timed: false,
        }
    }

    /// Whether a program finds something to take, or the end.
    pub(crate) fn has_some(&self) -> bool {
        self.bytes > 0 || self.ended
    }

    /// Bytes that a program can take.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn room_up_to(&self) -> u64 {
        self.edge.max(self.next + self.size.saturating_sub(self.bytes))
    }

    /// Bytes that the peer has not been told of.
    fn untold(&self) -> u64 {
        self.next - self.told
    }

    /// Whether an ACK must not wait.
    pub(crate) fn owes_ack(&self, mss: u32) -> bool {
        self.ended && self.untold() > 0 || self.untold() >= SEGMENTS_PER_ACK * u64::from(mss)
    }

    /// Whether an ACK may wait.
    pub(crate) fn may_ack(&self) -> bool {
        self.untold() > 0
    }

    /// Whether the peer is to hear that the program has taken something: where less than half of the room was left, and
    /// it has doubled and takes a frame, or half of the buffer.
    pub(crate) fn owes_room(&self, mss: u32) -> bool {
        let left = self.edge.saturating_sub(self.next);
        let room = self.room_up_to().saturating_sub(self.next);
        2 * left <= self.size && room >= (2 * left).max(u64::from(mss).min(self.size / 2))
    }

    /// Data has come.
    pub(crate) fn receive(&mut self, segment: &Segment, held: impl Iterator<Item = HeldBytes>) {
        assert_eq!(segment.seq, self.next, "a fabric that loses no frame keeps their order");
        self.next += u64::from(segment.len);
        self.bytes += u64::from(segment.len);
        self.held.extend(held);
    }

    /// No more will come.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.next += 1;
    }

    /// The program has taken `bytes` of the first that are held; returns the buffer that is free then.
    pub(crate) fn take(&mut self, bytes: u32) -> Option<u64> {
        self.bytes -= u64::from(bytes);
        let first = self.held.front_mut()?;
        first.addr += u64::from(bytes);
        first.len -= bytes;
        if first.len > 0 {
            return None;
        }
        self.held.pop_front().map(|held| held.buffer)
    }
}

/// A socket.
pub(crate) struct TcpSocket {
    /// The thread that has it; of one that nobody has accepted, the one that listens.
    pub(crate) owner: ThreadId,
    /// The program has closed it.
    pub(crate) closed: bool,
    pub(crate) state: SocketState,
    /// Port and socket of the peer; the socket is known when it has answered.
    pub(crate) peer: (PortId, SocketId),
    pub(crate) out: Outgoing,
    pub(crate) into: Incoming,
    /// Its thread sleeps for it.
    pub(crate) sleeper: Option<SocketWant>,
}

impl TcpSocket {
    /// What the peer has said of itself in its first segment.
    pub(crate) fn meets(&mut self, segment: &Segment) {
        self.peer.1 = segment.from;
        self.out.meets(segment.edge, segment.mss);
    }

    /// Whether a call that waits for something to take would return.
    pub(crate) fn has_some(&self) -> bool {
        match &self.state {
            SocketState::Listening(backlog) => !backlog.is_empty(),
            SocketState::Connected => self.into.has_some(),
            SocketState::Connecting | SocketState::Asked(_) => false,
            SocketState::Refused | SocketState::Reset => true,
        }
    }

    /// A segment acknowledges what was sent; returns whether its thread is to be woken for the room.
    pub(crate) fn acknowledged(&mut self, segment: &Segment) -> bool {
        self.out.acknowledged(segment.ack, segment.edge);
        self.sleeper == Some(SocketWant::Room) && self.out.has_room_again()
    }

    /// Whether nothing will come of it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.closed && (self.out.is_over() || self.state != SocketState::Connected)
    }

    /// Makes the next segment: it also tells what has come and what there is room for.
    pub(crate) fn make(&mut self, from: SocketId, len: u32, control: SegmentControl, mss: u32) -> Segment {
        let (seq, push) = self.out.take(len, control);
        let Incoming { next, .. } = self.into;
        self.into.told = next;
        self.into.edge = self.into.room_up_to();
        self.into.ack_due = Ps::NEVER;
        let to = crate::fabric::SegmentTo::Socket(self.peer.1);
        Segment { from, to, control, push, seq, len, ack: next, edge: self.into.edge, mss }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    fn outgoing(edge: u64) -> Outgoing {
        let mut out = Outgoing::new(Some(SocketBuffer { addr: 0, bytes: 9000 }), MSS, 4 * MSS);
        out.meets(edge, MSS);
        out
    }

    #[test]
    fn whole_frames_are_sent_as_far_as_there_is_room() {
        let mut out = outgoing(6_500);
        out.write(9_000);
        assert_eq!(out.room(), 0);
        assert_eq!(out.next(), Some((4 * MSS, SegmentControl::None)));
        assert_eq!(out.take(4 * MSS, SegmentControl::None), (0, false));
        assert_eq!(out.next(), Some((2 * MSS, SegmentControl::None)));
        out.take(2 * MSS, SegmentControl::None);
        assert_eq!(out.next(), None, "what is under way opens the window further");
        out.acknowledged(6_000, 6_500);
        assert_eq!(
            (out.room(), out.next()),
            (6_000, Some((500, SegmentControl::None))),
            "or nothing ever would"
        );
        out.acknowledged(6_000, 20_000);
        out.end();
        assert_eq!(out.next(), Some((3_000, SegmentControl::None)));
        assert_eq!(out.take(3_000, SegmentControl::None), (6_000, true));
        assert_eq!(out.next(), Some((0, SegmentControl::Fin)));
        out.take(0, SegmentControl::Fin);
        assert_eq!(out.next(), None);
        out.acknowledged(9_000, 0);
        assert!(!out.is_over());
        out.acknowledged(9_001, 0);
        assert!(out.is_over());
    }

    #[test]
    fn every_second_segment_is_acknowledged_at_once() {
        let mut into = Incoming::new(10_000);
        let held = |len| std::iter::once(HeldBytes { addr: 0, len, buffer: 0 });
        let segment = |seq, len| Segment { seq, len, ..Segment::BLANK };
        into.receive(&segment(0, MSS), held(MSS));
        assert!(into.may_ack() && !into.owes_ack(MSS));
        into.receive(&segment(1_000, MSS), held(MSS));
        assert!(into.owes_ack(MSS));
    }

    #[test]
    fn room_is_told_of_when_little_was_left() {
        let mut into = Incoming::new(4_000);
        for n in 0..4 {
            let held = std::iter::once(HeldBytes { addr: 0, len: MSS, buffer: n });
            into.receive(&Segment { seq: n * 1_000, len: MSS, ..Segment::BLANK }, held);
        }
        assert!(!into.owes_room(MSS), "there is none");
        assert_eq!(into.take(600), None);
        assert!(!into.owes_room(MSS), "less than a frame");
        assert_eq!(into.take(400), Some(0));
        assert!(into.owes_room(MSS));
    }
}
