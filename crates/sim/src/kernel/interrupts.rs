//! Interrupts, and the driver's poll that they start.
//!
//! The NIC holds an interrupt back for a time after the first frame, or until there are enough frames. The
//! driver then takes one frame after another, without interrupts, until none is left (NAPI). Meanwhile the
//! core does nothing else.

use super::socket::HeldBytes;
use super::state::{INTERRUPTED, Kernel, KernelContext};
use crate::core::index::{CoreId, SocketId};
use crate::core::ps::Ps;
use crate::core::queue::{SimEvent, TcpStep};
use crate::device::{ReceivedFrame, SimDevice};
use crate::env::Env;
use crate::fabric::{Segment, SegmentControl, SegmentTo};
use crate::host::{AccessKind, Agent, Host};

impl Kernel {
    /// The core that takes the NIC's interrupts.
    pub(crate) const fn core(&self) -> CoreId {
        INTERRUPTED
    }

    /// Handles a frame that is in memory.
    pub(crate) fn frame_visible(&mut self, device: &SimDevice, env: &mut Env, frame: ReceivedFrame) {
        let Kernel { interrupts, tcp, costs, .. } = self;
        interrupts.waiting.push_back(frame);
        if interrupts.polls {
            return;
        }
        let enough = interrupts.waiting.len() >= tcp.coalesce_frames as usize;
        let raised = if enough { env.now } else { env.now + Ps(costs.coalesce) };
        let at = device.interrupt_arrives(raised).max(interrupts.busy);
        if interrupts.next.is_none_or(|next| at < next) {
            interrupts.next = Some(at);
            env.queue.push(at, SimEvent::Tcp { device: device.id, step: TcpStep::Interrupt, number: 0 });
        }
    }

    /// Handles an interrupt, unless an earlier one has replaced it. Returns the core's time until the driver
    /// polls.
    pub(crate) fn interrupted(&mut self, device: &SimDevice, env: &mut Env) -> Ps {
        let Kernel { interrupts, costs, .. } = self;
        if interrupts.next != Some(env.now) {
            return Ps::ZERO;
        }
        if interrupts.busy > env.now {
            // The core is in the kernel for other work.
            interrupts.next = Some(interrupts.busy);
            env.queue.push(
                interrupts.busy,
                SimEvent::Tcp { device: device.id, step: TcpStep::Interrupt, number: 0 },
            );
            return Ps::ZERO;
        }
        interrupts.next = None;
        interrupts.polls = true;
        interrupts.count += 1;
        env.after(
            Ps(costs.interrupt_entry),
            SimEvent::Tcp { device: device.id, step: TcpStep::DriverPoll, number: 0 },
        );
        Ps(costs.interrupt_entry)
    }

    /// Lets the driver take the next frame, or end its poll if there is none. Returns the time that this
    /// takes on the core.
    pub(crate) fn poll(&mut self, host: &mut Host, device: &mut SimDevice, env: &mut Env) -> Ps {
        let clock = env.now;
        let mut at = KernelContext { host, device, env, core: INTERRUPTED, clock };
        if let Some(frame) = self.interrupts.waiting.pop_front() {
            self.take_frame(&mut at, frame);
            at.env
                .queue
                .push(at.clock, SimEvent::Tcp { device: at.device.id, step: TcpStep::DriverPoll, number: 0 });
        } else {
            self.end_merging(&mut at);
            at.clock += Ps(self.costs.interrupt_exit);
            self.interrupts.polls = false;
            self.interrupts.busy = at.clock;
        }
        at.clock - clock
    }

    /// Sends a delayed ACK if it is due. Returns the time that this takes on the core.
    pub(crate) fn delayed_ack(
        &mut self,
        host: &mut Host,
        device: &mut SimDevice,
        env: &mut Env,
        socket: SocketId,
    ) -> Ps {
        let (now, id) = (env.now, device.id);
        let busy = self.interrupts.busy.max(now);
        let into = &mut self.sockets[socket].into;
        into.ack_timed = false;
        if into.ack_due == Ps::NEVER {
            return Ps::ZERO;
        }
        let due =
            if self.interrupts.polls { now + Ps(self.costs.interrupt_entry) } else { into.ack_due.max(busy) };
        if due > now {
            into.ack_timed = true;
            env.queue.push(due, SimEvent::Tcp { device: id, step: TcpStep::DelayedAck, number: socket.0 });
            return Ps::ZERO;
        }
        let mut at = KernelContext {
            host,
            device,
            env,
            core: INTERRUPTED,
            clock: now + Ps(self.costs.interrupt_entry),
        };
        self.send_control(&mut at, socket, SegmentControl::None, None);
        at.clock += Ps(self.costs.interrupt_exit);
        self.interrupts.busy = at.clock;
        at.clock - now
    }

    /// Takes a frame through the driver. The frame becomes part of a segment. A complete segment goes to its
    /// socket.
    fn take_frame(&mut self, at: &mut KernelContext<'_>, frame: ReceivedFrame) {
        let (ring, entry) = at.device.ethernet().read_descriptor();
        let read = at.host.reach_entry(at.clock, Agent::Core(at.core), ring.whole(entry), AccessKind::Load);
        at.clock = read + Ps(self.costs.frame_in);
        self.interrupts.emptied += 1;
        if self.interrupts.emptied == self.tcp.refill {
            self.interrupts.emptied = 0;
            at.clock += Ps(at.host.costs.doorbell);
            at.device.refill(at.env, self.tcp.refill);
        }
        let ReceivedFrame { segment, buffer, from } = frame;
        if segment.len == 0 {
            self.end_merging(at);
            at.device.ethernet().buffers.push(buffer);
            return self.input(at, segment, from);
        }
        let held = HeldBytes { addr: frame.data(), len: segment.len, buffer };
        if !self.continues(&segment) {
            self.end_merging(at);
            self.interrupts.merged = Some(segment);
        } else if let Some(merged) = &mut self.interrupts.merged {
            let (seq, len) = (merged.seq, merged.len + segment.len);
            *merged = Segment { seq, len, ..segment };
        }
        self.interrupts.held.push(held);
        if segment.push || self.interrupts.held.len() >= self.tcp.merged_frames as usize {
            self.end_merging(at);
        }
    }

    /// Whether a frame continues the segment that is merged from the last frames.
    fn continues(&self, segment: &Segment) -> bool {
        let follows =
            |merged: &Segment| merged.to == segment.to && merged.seq + u64::from(merged.len) == segment.seq;
        self.interrupts.merged.as_ref().is_some_and(follows)
    }

    /// Ends the merging of frames, and hands the merged segment to its socket.
    fn end_merging(&mut self, at: &mut KernelContext<'_>) {
        let Some(segment) = self.interrupts.merged.take() else { return };
        let mut held = std::mem::take(&mut self.interrupts.held);
        let SegmentTo::Socket(socket) = segment.to else {
            unreachable!("a listening socket receives no data")
        };
        self.input_data(at, socket, segment, &mut held);
        held.clear();
        self.interrupts.held = held;
    }
}
