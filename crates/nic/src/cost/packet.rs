//! The properties of a packet that determine its cost.

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// Part of a SEND.
    Send,
    /// Part of a WRITE.
    Write,
    /// READ request.
    ReadRequest,
    /// Atomic request.
    Atomic,
    /// Part of the answer to a READ.
    ReadResponse,
    /// Answer to an atomic.
    AtomicAck,
    /// ACK or NAK.
    Ack,
}

/// A packet, with the properties that determine its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketShape {
    /// The kind of packet.
    pub kind: PacketKind,
    /// Whether it is the first packet of a message or of an answer.
    pub begins: bool,
    /// Whether it is the last packet of a message or of an answer.
    pub ends: bool,
    /// Whether it carries an immediate.
    pub imm: bool,
    /// Whether it is a datagram.
    pub datagram: bool,
    /// Payload bytes, without padding.
    pub payload: u32,
}

impl PacketShape {
    /// The only packet of a message or an answer, without payload or immediate, on a connection.
    pub const fn only(kind: PacketKind) -> PacketShape {
        PacketShape { kind, begins: true, ends: true, imm: false, datagram: false, payload: 0 }
    }

    /// Whether the packet is a request that is answered with data: a READ or an atomic.
    pub const fn is_answered_with_data(&self) -> bool {
        matches!(self.kind, PacketKind::ReadRequest | PacketKind::Atomic)
    }

    /// Whether the packet goes from responder to requester.
    pub const fn is_answer(&self) -> bool {
        matches!(self.kind, PacketKind::ReadResponse | PacketKind::AtomicAck | PacketKind::Ack)
    }
}

/// DMAs of a packet that carries `len` bytes of its message, from `offset` on. There is one DMA for each
/// buffer that holds some of these bytes. `buffers` has the lengths of the message's buffers.
#[inline]
pub fn dmas(buffers: impl IntoIterator<Item = u32>, offset: u32, len: u32) -> u32 {
    let (offset, end) = (u64::from(offset), u64::from(offset) + u64::from(len));
    let (mut begin, mut n) = (0, 0);
    for length in buffers {
        if begin >= end {
            break;
        }
        let next = begin + u64::from(length);
        n += u32::from(next > offset && length > 0);
        begin = next;
    }
    if len == 0 { 0 } else { n }
}

/// Bytes of each DMA of a message whose buffers have these lengths. A DMA transfers the part of one buffer
/// that one packet of at most `mtu` bytes carries. [`dmas`] counts the DMAs of one packet.
pub fn parts(buffers: impl IntoIterator<Item = u32>, mtu: u32) -> impl Iterator<Item = u32> {
    let mtu = mtu.max(1);
    let mut room = mtu;
    buffers.into_iter().flat_map(move |length| {
        let first = length.min(room);
        let rest = length - first;
        room = if first < room { room - first } else { mtu - rest % mtu };
        let further = (0..rest.div_ceil(mtu)).map(move |i| mtu.min(rest - i * mtu));
        (first > 0).then_some(first).into_iter().chain(further)
    })
}

#[cfg(test)]
mod tests {
    use super::{dmas, parts};

    #[test]
    fn parts_are_the_dmas_of_all_packets() {
        let buffers = [5u32, 0, 1, 30, 7, 64, 64];
        let total: u32 = buffers.iter().sum();
        for mtu in 1..200 {
            let all: Vec<u32> = parts(buffers, mtu).collect();
            assert_eq!(all.iter().sum::<u32>(), total);
            let of_packets =
                (0..total.div_ceil(mtu)).map(|i| dmas(buffers, i * mtu, mtu.min(total - i * mtu)));
            assert_eq!(all.len() as u32, of_packets.sum::<u32>(), "{mtu}: {all:?}");
        }
        assert_eq!(parts([5000, 5000], 4096).collect::<Vec<_>>(), [4096, 904, 3192, 1808]);
        assert_eq!(parts([3000, 3000, 3000], 4096).collect::<Vec<_>>(), [3000, 1096, 1904, 2192, 808]);
    }

    #[test]
    fn a_packet_needs_the_buffers_that_hold_its_bytes() {
        for (buffers, offset, len, expected) in [
            (&[100][..], 0, 100, 1),
            (&[100], 0, 0, 0),
            (&[], 0, 0, 0),
            (&[3000, 3000, 3000], 0, 4096, 2),
            (&[3000, 3000, 3000], 4096, 4096, 2),
            (&[3000, 3000, 3000], 8192, 808, 1),
            (&[4096, 4096], 0, 4096, 1),
            (&[4096, 4096], 4096, 4096, 1),
            (&[0, 8, 0, 8, 0], 0, 16, 2),
            (&[8, 8, 8, 8], 8, 16, 2),
        ] {
            assert_eq!(dmas(buffers.iter().copied(), offset, len), expected, "{buffers:?} {offset} {len}");
        }
    }

    #[test]
    fn every_byte_is_in_one_of_them() {
        let buffers = [5u32, 0, 1, 30, 7];
        for mtu in 1..50 {
            // A one-byte packet needs one buffer; a larger packet needs every buffer it touches.
            let of_bytes = |from: u32, to: u32| {
                let holder = |byte: u32| {
                    let mut end = 0;
                    buffers.iter().position(|b| {
                        end += b;
                        byte < end
                    })
                };
                (from..to).map(holder).collect::<std::collections::BTreeSet<_>>().len() as u32
            };
            for offset in (0..43).step_by(mtu) {
                let len = (mtu as u32).min(43 - offset as u32);
                let offset = offset as u32;
                assert_eq!(dmas(buffers, offset, len), of_bytes(offset, offset + len), "{mtu} {offset}");
            }
        }
    }
}
