//! What frames of TCP carry.

use crate::core::index::SocketId;

/// What a segment does beside bringing data and an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentControl {
    /// Nothing.
    None,
    /// Asks for a connection.
    Syn,
    /// Grants it.
    SynAck,
    /// Is the last of its direction.
    Fin,
    /// Ends the connection, or refuses one.
    Reset,
}

/// Whom a segment is for. A real one has addresses and ports; looking the socket up is part of its way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentTo {
    /// Whoever listens at this port.
    Port(u16),
    /// A socket.
    Socket(SocketId),
}

/// A segment of TCP, or the part of one that a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) from: SocketId,
    pub(crate) to: SegmentTo,
    pub(crate) control: SegmentControl,
    /// Nothing behind it is on its way yet (PSH).
    pub(crate) push: bool,
    /// Number of its first byte; connections begin with 0.
    pub(crate) seq: u64,
    pub(crate) len: u32,
    /// The byte that the sender waits for.
    pub(crate) ack: u64,
    /// The first byte that the sender has no room for.
    pub(crate) edge: u64,
    /// Most bytes of a frame that the sender takes.
    pub(crate) mss: u32,
}

impl Segment {
    /// No segment.
    pub(crate) const BLANK: Segment = Segment {
        from: SocketId(0),
        to: SegmentTo::Port(0),
        control: SegmentControl::None,
        push: false,
        seq: 0,
        len: 0,
        ack: 0,
        edge: 0,
        mss: 0,
    };
}
