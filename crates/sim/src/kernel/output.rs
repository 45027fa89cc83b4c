//! Segments from their socket to the NIC.

use super::socket::{SocketState, TcpSocket};
use super::state::{Kernel, KernelContext};
use crate::core::index::{PortId, SocketId};
use crate::core::ps::Ps;
use crate::device::PostedSegment;
use crate::fabric::{Segment, SegmentControl, SegmentTo};
use crate::host::{AccessKind, Agent};

impl Kernel {
    /// A core's time to send the next segment of a socket; none if nothing may be sent.
    pub(crate) fn next_costs(&self, socket: SocketId) -> Option<Ps> {
        let socket = &self.sockets[socket];
        let (len, _) = socket.out.next().filter(|_| socket.state == SocketState::Connected)?;
        Some(Ps(self.costs.segment_out(len)))
    }

    /// Hands the next segment of a socket to the NIC, if there is one. The caller has spent the core's time
    /// for it.
    pub(crate) fn send_next(&mut self, at: &mut KernelContext<'_>, id: SocketId) {
        let socket = &mut self.sockets[id];
        if let Some((len, control)) = socket.out.next().filter(|_| socket.state == SocketState::Connected) {
            let segment = socket.make(id, len, control, self.costs.mss);
            self.post(at, id, segment);
        }
    }

    /// Sends all segments of a socket that may be sent.
    pub(super) fn send_all(&mut self, at: &mut KernelContext<'_>, id: SocketId) {
        while let Some(cost) = self.next_costs(id) {
            at.clock += cost;
            self.send_next(at, id);
        }
    }

    /// Sends a segment without data.
    pub(crate) fn send_control(
        &mut self,
        at: &mut KernelContext<'_>,
        id: SocketId,
        control: SegmentControl,
        to: Option<SegmentTo>,
    ) {
        at.clock += Ps(self.costs.ack_out);
        let segment = self.sockets[id].make(id, 0, control, self.costs.mss);
        self.post(at, id, Segment { to: to.unwrap_or(segment.to), ..segment });
    }

    /// Hands a socket's segment to the NIC.
    fn post(&mut self, at: &mut KernelContext<'_>, id: SocketId, segment: Segment) {
        let TcpSocket { out, peer: (into, _), .. } = &self.sockets[id];
        let posted = PostedSegment { segment, data: out.data, into: *into };
        self.tell(at, posted);
    }

    /// Sends a segment that belongs to no socket.
    pub(super) fn post_to(&mut self, at: &mut KernelContext<'_>, into: PortId, segment: Segment) {
        self.tell(at, PostedSegment { segment, data: None, into });
    }

    /// Writes a segment's descriptor, and rings the NIC's doorbell.
    fn tell(&mut self, at: &mut KernelContext<'_>, posted: PostedSegment) {
        self.sent.segments += 1;
        self.sent.acks += u64::from(posted.segment.len == 0);
        let KernelContext { host, device, env, core, clock } = at;
        let (ring, entry) = device.ethernet().write_descriptor();
        let written = host.reach_entry(*clock, Agent::Core(*core), ring.whole(entry), AccessKind::Store);
        *clock = host.stored(written, *core) + Ps(host.costs.doorbell);
        device.post_segment(env, *clock, posted);
    }
}
