//! Segments from the driver to their socket.

use super::socket::{HeldBytes, SocketState, SocketWant, TcpSocket};
use super::state::{Kernel, KernelContext};
use crate::core::index::{PortId, SocketId};
use crate::core::ps::Ps;
use crate::core::queue::{SimEvent, TcpStep};
use crate::fabric::{Segment, SegmentControl, SegmentTo};

impl Kernel {
    /// Handles a received segment without data.
    pub(super) fn input(&mut self, at: &mut KernelContext<'_>, segment: Segment, from: PortId) {
        at.clock += Ps(self.costs.ack_in);
        let id = match segment.to {
            SegmentTo::Port(port) => return self.asked(at, port, segment, from),
            SegmentTo::Socket(id) => id,
        };
        let socket = &mut self.sockets[id];
        match (segment.control, &socket.state) {
            (SegmentControl::Reset, SocketState::Connecting) => {
                return self.ends(at, id, SocketState::Refused);
            }
            (SegmentControl::Reset, _) => return self.ends(at, id, SocketState::Reset),
            (SegmentControl::SynAck, SocketState::Connecting) => {
                socket.meets(&segment);
                socket.state = SocketState::Connected;
                self.send_control(at, id, SegmentControl::None, None);
                return self.wake(id, SocketWant::Take);
            }
            (_, SocketState::Refused | SocketState::Reset) => return,
            _ => {}
        }
        self.acknowledged(at, id, &segment);
        if segment.control == SegmentControl::Fin {
            self.sockets[id].into.end();
            self.wake(id, SocketWant::Take);
        }
        self.answer(at, id);
        self.let_go(at.device, id);
    }

    /// Handles a received segment with data. The data is in `held`.
    pub(super) fn input_data(
        &mut self,
        at: &mut KernelContext<'_>,
        id: SocketId,
        segment: Segment,
        held: &mut Vec<HeldBytes>,
    ) {
        at.clock += Ps(self.costs.segment_in);
        self.acknowledged(at, id, &segment);
        let socket = &mut self.sockets[id];
        if socket.closed || socket.state != SocketState::Connected {
            // No program will take the data.
            at.device.ethernet().buffers.extend(held.drain(..).map(|held| held.buffer));
            if socket.state == SocketState::Connected {
                self.forsake(at, id);
            }
            return;
        }
        socket.into.receive(&segment, held.drain(..));
        self.wake(id, SocketWant::Take);
        self.answer(at, id);
    }

    /// Sends the peer an ACK if one is due, or if the peer must learn about new room. Called when a program
    /// has taken received data.
    pub(crate) fn taken(&mut self, at: &mut KernelContext<'_>, id: SocketId) {
        let mss = self.costs.mss;
        let TcpSocket { into, state, .. } = &self.sockets[id];
        if *state == SocketState::Connected && (into.owes_ack(mss) || into.owes_room(mss)) {
            self.send_control(at, id, SegmentControl::None, None);
        }
    }

    /// Closes a socket for a program. Written data is still sent, and a FIN follows. If the program has not
    /// taken all received data, the connection is reset instead, so that the peer does not wait in vain (RFC
    /// 2525, 2.17).
    pub(crate) fn close(&mut self, at: &mut KernelContext<'_>, id: SocketId) {
        let socket = &mut self.sockets[id];
        if socket.state == SocketState::Connected && socket.into.bytes() > 0 {
            at.device.ethernet().buffers.extend(socket.into.held.drain(..).map(|held| held.buffer));
            return self.forsake(at, id);
        }
        socket.closed = true;
        socket.out.end();
        let refused = match &mut socket.state {
            SocketState::Listening(backlog) => std::mem::take(backlog),
            _ => [].into(),
        };
        for id in refused {
            self.forsake(at, id);
        }
        self.let_go(at.device, id);
    }

    /// Handles a peer's request for a connection.
    fn asked(&mut self, at: &mut KernelContext<'_>, port: u16, segment: Segment, from: PortId) {
        let (owner, state) = match self.listener(port) {
            Some(listener) => (self.sockets[listener].owner, SocketState::Asked(listener)),
            None => return self.refuse(at, segment, from),
        };
        let id = self.open(at.host, owner, state, from);
        self.sockets[id].meets(&segment);
        self.send_control(at, id, SegmentControl::SynAck, None);
    }

    /// Tells a peer that no socket listens at the port.
    fn refuse(&mut self, at: &mut KernelContext<'_>, segment: Segment, from: PortId) {
        at.clock += Ps(self.costs.ack_out);
        let to = SegmentTo::Socket(segment.from);
        self.post_to(at, from, Segment { to, control: SegmentControl::Reset, ..Segment::BLANK });
    }

    /// Ends a connection, or an attempt to connect.
    fn ends(&mut self, at: &mut KernelContext<'_>, id: SocketId, state: SocketState) {
        self.sockets[id].state = state;
        self.wake_all(id);
        self.let_go(at.device, id);
    }

    /// Handles the acknowledgement and the window of a peer's segment. The first acknowledgement establishes
    /// the connection.
    fn acknowledged(&mut self, at: &mut KernelContext<'_>, id: SocketId, segment: &Segment) {
        let socket = &mut self.sockets[id];
        if let SocketState::Asked(listener) = socket.state {
            socket.state = SocketState::Connected;
            self.accepted(at, listener, id);
        }
        if self.sockets[id].acknowledged(segment) {
            self.wake(id, SocketWant::Room);
        }
    }

    /// Queues a connection at its listener. If the listener was closed meanwhile, resets the connection.
    fn accepted(&mut self, at: &mut KernelContext<'_>, listener: SocketId, id: SocketId) {
        if let (false, SocketState::Listening(backlog)) =
            (self.sockets[listener].closed, &mut self.sockets[listener].state)
        {
            backlog.push_back(id);
            return self.wake(listener, SocketWant::Take);
        }
        self.forsake(at, id);
    }

    /// Resets a connection that no program will accept, or take data from.
    fn forsake(&mut self, at: &mut KernelContext<'_>, id: SocketId) {
        self.sockets[id].closed = true;
        self.send_control(at, id, SegmentControl::Reset, None);
        self.ends(at, id, SocketState::Reset);
    }

    /// Sends the segments that may be sent now, and a bare ACK if the ACK must not wait for data.
    fn answer(&mut self, at: &mut KernelContext<'_>, id: SocketId) {
        self.send_all(at, id);
        let mss = self.costs.mss;
        let into = &mut self.sockets[id].into;
        if into.owes_ack(mss) {
            return self.send_control(at, id, SegmentControl::None, None);
        }
        if into.may_ack() && into.ack_due == Ps::NEVER {
            into.ack_due = at.clock + Ps(self.costs.delayed_ack);
            if !std::mem::replace(&mut into.ack_timed, true) {
                at.env.queue.push(
                    into.ack_due,
                    SimEvent::Tcp { device: at.device.id, step: TcpStep::DelayedAck, number: id.0 },
                );
            }
        }
    }
}
