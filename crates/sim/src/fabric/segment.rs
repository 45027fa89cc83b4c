//! Contents of TCP frames.

use crate::core::index::SocketId;

/// The task of a segment besides data and an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentControl {
    /// No other task.
    None,
    /// Asks for a connection.
    Syn,
    /// Grants a connection.
    SynAck,
    /// The last segment of its direction.
    Fin,
    /// Ends the connection, or refuses a request for one.
    Reset,
}

/// Destination of a segment. A real segment has addresses and ports. The cost of receiving a segment includes
/// the look-up of its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentTo {
    /// The listener at this port.
    Port(u16),
    Socket(SocketId),
}

/// A segment of TCP, or the part of one that a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) from: SocketId,
    pub(crate) to: SegmentTo,
    pub(crate) control: SegmentControl,
    /// Whether the sender has no further data to send after this segment (PSH).
    pub(crate) push: bool,
    /// Number of the first byte. Connections begin with byte 0.
    pub(crate) seq: u64,
    pub(crate) len: u32,
    /// The next byte that the sender expects.
    pub(crate) ack: u64,
    /// The first byte that the sender has no room for.
    pub(crate) edge: u64,
    /// The largest payload of a frame that the sender accepts, in bytes.
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
