//! A socket: the data to send, the received data, and the rules of TCP for a fabric that loses nothing. Time
//! and memory are not modelled here.

use crate::core::index::{PortId, SocketId, ThreadId};
use crate::core::ps::Ps;
use crate::device::SocketBuffer;
use crate::fabric::{Segment, SegmentControl};
use std::collections::VecDeque;

/// Unacknowledged segments after which an ACK is due (RFC 1122, 4.2.3.2).
const SEGMENTS_PER_ACK: u64 = 2;

/// The state of a socket's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SocketState {
    /// Peers connect to this socket. Holds the established connections that no program has accepted.
    Listening(VecDeque<SocketId>),
    /// The socket waits for the peer's response.
    Connecting,
    /// A peer has requested this connection at this listener.
    Asked(SocketId),
    Connected,
    /// No socket listens at the destination.
    Refused,
    /// The connection was ended before all data was delivered.
    Reset,
}

/// The event for which a thread sleeps on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketWant {
    /// Something to take: data, the stream's end, a connection, or the response to a connection request.
    Take,
    /// Room for data to send.
    Room,
}

/// Received bytes in a frame's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldBytes {
    pub(crate) addr: u64,
    pub(crate) len: u32,
    /// Address of the buffer, which is returned to the NIC when the bytes have been taken.
    pub(crate) buffer: u64,
}

/// The sending direction. Bytes are numbered from 0. The end of the stream has a number, too.
pub(crate) struct Outgoing {
    /// Buffer of the unacknowledged bytes; none for a listener, and for a socket that has ended.
    pub(crate) data: Option<SocketBuffer>,
    /// Numbers of bytes: acknowledged by the peer, sent, and written by the program.
    acked: u64,
    sent: u64,
    written: u64,
    /// The first byte that the peer has no room for.
    edge: u64,
    /// Whether the program has ended this direction.
    ends: bool,
    /// Maximum number of bytes of a frame, and of a segment.
    mss: u32,
    most: u32,
}

impl Outgoing {
    pub(crate) fn new(data: Option<SocketBuffer>, mss: u32, most: u32) -> Outgoing {
        Outgoing { data, acked: 0, sent: 0, written: 0, edge: 0, ends: false, mss, most }
    }

    /// Records the window and the segment size that the peer has announced.
    fn meets(&mut self, edge: u64, mss: u32) {
        self.edge = edge;
        self.mss = self.mss.min(mss);
        self.most = (self.most / self.mss).max(1) * self.mss;
    }

    /// Size of the buffer in bytes.
    fn bytes(&self) -> u64 {
        self.data.map_or(0, |data| data.bytes)
    }

    /// Free bytes of the buffer.
    pub(crate) fn room(&self) -> u64 {
        self.bytes().saturating_sub(self.written.saturating_sub(self.acked))
    }

    /// The address of a byte by its number, and the bytes from it to the buffer's end.
    pub(crate) fn at(&self, number: u64) -> (u64, u64) {
        self.data.expect("a socket that a program writes to has a buffer").at(number)
    }

    /// Whether enough room is free to wake a thread that waits for room: a third of the buffer.
    pub(crate) fn has_room_again(&self) -> bool {
        self.room() >= self.bytes() / 3
    }

    /// Bytes that are written but not sent.
    pub(crate) fn pending(&self) -> u64 {
        self.written.saturating_sub(self.sent)
    }

    /// Number of the next byte to be written.
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

    /// Records that the peer has all bytes before `ack` and has room for bytes before `edge`. Values lower
    /// than earlier ones are outdated.
    fn acknowledged(&mut self, ack: u64, edge: u64) {
        self.acked = self.acked.max(ack);
        self.edge = self.edge.max(edge);
    }

    /// Whether everything is acknowledged, including the end.
    fn is_over(&self) -> bool {
        self.ends && self.acked > self.written
    }

    /// Length and kind of the next segment; none if nothing may be sent.
    pub(crate) fn next(&self) -> Option<(u32, SegmentControl)> {
        if self.pending() == 0 {
            let ends = self.ends && self.sent == self.written;
            return ends.then_some((0, SegmentControl::Fin));
        }
        let room = self.edge.saturating_sub(self.sent);
        let len = self.pending().min(room).min(self.most.into()) as u32;
        let whole = if u64::from(len) < self.pending() { len / self.mss * self.mss } else { len };
        match whole {
            // ACKs of bytes in flight will open the window further.
            0 if len == 0 || self.acked < self.sent => None,
            0 => Some((len, SegmentControl::None)),
            whole => Some((whole, SegmentControl::None)),
        }
    }

    /// Takes the next segment. Returns the number of its first byte, and whether no written data is left
    /// after it.
    fn take(&mut self, len: u32, control: SegmentControl) -> (u64, bool) {
        let seq = self.sent;
        self.sent += u64::from(len) + u64::from(control == SegmentControl::Fin);
        (seq, self.pending() == 0)
    }
}

/// The receiving direction.
pub(crate) struct Incoming {
    /// Number of bytes that have arrived, and number of bytes that have been acknowledged.
    next: u64,
    told: u64,
    /// The first byte for which the peer has not been promised room.
    edge: u64,
    size: u64,
    pub(crate) held: VecDeque<HeldBytes>,
    bytes: u64,
    ended: bool,
    /// Latest time of the next ACK; [`Ps::NEVER`] if none is due.
    pub(crate) ack_due: Ps,
    /// Whether an event for a delayed ACK is scheduled.
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

    /// Whether a program finds data to take, or the stream's end.
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

    /// Bytes that have not been acknowledged.
    fn untold(&self) -> u64 {
        self.next - self.told
    }

    /// Whether an ACK must be sent at once.
    pub(crate) fn owes_ack(&self, mss: u32) -> bool {
        self.ended && self.untold() > 0 || self.untold() >= SEGMENTS_PER_ACK * u64::from(mss)
    }

    /// Whether an ACK is due, now or later.
    pub(crate) fn may_ack(&self) -> bool {
        self.untold() > 0
    }

    /// Whether the peer must learn about new room. This is so if the peer knows of room for at most half of
    /// the buffer, and if the room now is at least twice as large and holds a frame or half of the buffer.
    pub(crate) fn owes_room(&self, mss: u32) -> bool {
        let left = self.edge.saturating_sub(self.next);
        let room = self.room_up_to().saturating_sub(self.next);
        2 * left <= self.size && room >= (2 * left).max(u64::from(mss).min(self.size / 2))
    }

    /// Adds received data.
    pub(crate) fn receive(&mut self, segment: &Segment, held: impl Iterator<Item = HeldBytes>) {
        assert_eq!(segment.seq, self.next, "a fabric that loses no frames keeps the order of segments");
        self.next += u64::from(segment.len);
        self.bytes += u64::from(segment.len);
        self.held.extend(held);
    }

    /// Records that the peer sends no more.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.next += 1;
    }

    /// Removes `bytes` from the first held bytes. Returns their buffer if it is free then.
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

pub(crate) struct TcpSocket {
    /// The thread that owns the socket. Before a connection is accepted, the listener's thread.
    pub(crate) owner: ThreadId,
    /// Whether the program has closed the socket.
    pub(crate) closed: bool,
    pub(crate) state: SocketState,
    /// Port and socket of the peer. The socket is known once the peer has answered.
    pub(crate) peer: (PortId, SocketId),
    pub(crate) out: Outgoing,
    pub(crate) into: Incoming,
    /// The event for which the owner sleeps on this socket.
    pub(crate) sleeper: Option<SocketWant>,
}

impl TcpSocket {
    /// Records the contents of the peer's first segment.
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

    /// Handles an acknowledgement. Returns whether the thread must be woken because there is room.
    pub(crate) fn acknowledged(&mut self, segment: &Segment) -> bool {
        self.out.acknowledged(segment.ack, segment.edge);
        self.sleeper == Some(SocketWant::Room) && self.out.has_room_again()
    }

    /// Whether the socket has ended for good.
    pub(crate) fn is_over(&self) -> bool {
        self.closed && (self.out.is_over() || self.state != SocketState::Connected)
    }

    /// Makes the next segment. It also acknowledges received bytes and announces room.
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
