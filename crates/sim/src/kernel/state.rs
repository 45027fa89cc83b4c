//! A machine's kernel: its sockets, its interrupts, and what it has of its program's threads.

use super::socket::{HeldBytes, Incoming, Outgoing, SocketState, SocketWant, TcpSocket};
use crate::core::index::{CoreId, Id, IdVec, PortId, SocketId, ThreadId};
use crate::core::ps::Ps;
use crate::device::{ReceivedFrame, SimDevice, SocketBuffer};
use crate::env::Env;
use crate::fabric::Segment;
use crate::host::Host;
use doorbell_nic::Tcp;
use doorbell_nic::cost::TcpCost;
use doorbell_verbs::PageSize;
use std::collections::VecDeque;

/// The core that is interrupted.
pub(super) const INTERRUPTED: CoreId = CoreId(0);
/// The first port that sockets get.
const FIRST_PORT: u16 = 32768;
/// How many there are, up to Linux's last for this purpose.
const PORTS: usize = 28232;

/// What the kernel works with at the moment: on which core, and at which time that core has come to.
pub(crate) struct KernelContext<'a> {
    pub(crate) host: &'a mut Host,
    pub(crate) device: &'a mut SimDevice,
    pub(crate) env: &'a mut Env,
    pub(crate) core: CoreId,
    pub(crate) clock: Ps,
}

/// What is known of interrupts, and what the driver has under way.
#[derive(Default)]
pub(super) struct Interrupts {
    /// Frames in memory that the driver has not taken.
    pub(super) waiting: VecDeque<ReceivedFrame>,
    /// The driver polls.
    pub(super) polls: bool,
    /// When the next interrupt comes.
    pub(super) next: Option<Ps>,
    /// Until when the core is in the kernel for the last.
    pub(super) busy: Ps,
    /// Frames for whose buffers the NIC has no others yet.
    pub(super) emptied: u32,
    /// The segment that the frames taken last make, and where they are.
    pub(super) merged: Option<Segment>,
    pub(super) held: Vec<HeldBytes>,
    pub(super) count: u64,
}

/// Segments that the NIC was handed, and those without data among them.
#[derive(Default)]
pub(crate) struct SegmentsSent {
    pub(crate) segments: u64,
    pub(crate) acks: u64,
}

/// The kernel of a machine.
pub(crate) struct Kernel {
    pub(crate) costs: TcpCost,
    pub(super) tcp: Tcp,
    pub(crate) sockets: IdVec<SocketId, TcpSocket>,
    /// Listeners by port, from [`FIRST_PORT`] on.
    listeners: Vec<SocketId>,
    pub(super) interrupts: Interrupts,
    /// Buffers of sockets that are over.
    buffers: Vec<SocketBuffer>,
    pub(crate) sent: SegmentsSent,
    /// Threads to wake when the kernel is done with what it does.
    pub(crate) woken: Vec<ThreadId>,
}

impl Kernel {
    pub(crate) fn new(tcp: &Tcp) -> Kernel {
        Kernel {
            costs: TcpCost::new(tcp),
            tcp: *tcp,
            sockets: IdVec::new(),
            listeners: Vec::new(),
            interrupts: Interrupts::default(),
            buffers: Vec::new(),
            sent: SegmentsSent::default(),
            woken: Vec::new(),
        }
    }

    /// Lines that copies prefetch ahead, and instructions of a copy for each 8 bytes.
    pub(crate) const fn copies(&self) -> (u64, u32) {
        (self.tcp.copy_prefetch as u64, self.tcp.copy_instructions)
    }

    /// Has the device used for TCP from now on.
    pub(crate) fn bring_up(&self, host: &mut Host, device: &mut SimDevice) {
        device.bring_up(&self.tcp, host);
    }

    /// Makes a socket of a thread.
    pub(crate) fn open(
        &mut self,
        host: &mut Host,
        owner: ThreadId,
        state: SocketState,
        peer: PortId,
    ) -> SocketId {
        let data = match state {
            SocketState::Listening(_) => None,
            _ => Some(self.buffers.pop().unwrap_or_else(|| new_buffer(host, self.tcp.send_buffer))),
        };
        self.sockets.push(TcpSocket {
            owner,
            closed: false,
            state,
            peer: (peer, SocketId(0)),
            out: Outgoing::new(data, self.costs.mss, self.costs.most),
            into: Incoming::new(self.tcp.receive_buffer),
            sleeper: None,
        })
    }

    /// Makes a listener; returns its port, if one is left.
    pub(crate) fn listen(&mut self, host: &mut Host, owner: ThreadId) -> Option<(SocketId, u16)> {
        let number = self.listeners.len();
        if number == PORTS {
            return None;
        }
        let socket = self.open(host, owner, SocketState::Listening([].into()), PortId(0));
        self.listeners.push(socket);
        Some((socket, FIRST_PORT + number as u16))
    }

    /// Who listens at a port.
    pub(super) fn listener(&self, port: u16) -> Option<SocketId> {
        let socket = *self.listeners.get(usize::from(port.checked_sub(FIRST_PORT)?))?;
        (!self.sockets[socket].closed).then_some(socket)
    }

    /// The socket of a handle, if it is a thread's.
    pub(crate) fn socket_of(&self, thread: ThreadId, handle: u32) -> Option<SocketId> {
        let socket = SocketId::from_index(handle as usize);
        self.sockets.get(socket).filter(|s| s.owner == thread && !s.closed)?;
        Some(socket)
    }

    /// The thread of a socket is to be woken if it waits for that.
    pub(super) fn wake(&mut self, socket: SocketId, want: SocketWant) {
        let socket = &mut self.sockets[socket];
        if socket.sleeper == Some(want) {
            socket.sleeper = None;
            self.woken.push(socket.owner);
        }
    }

    /// Whoever waits for a socket is to look at it.
    pub(super) fn wake_all(&mut self, socket: SocketId) {
        self.wake(socket, SocketWant::Take);
        self.wake(socket, SocketWant::Room);
    }

    /// Gives back what a socket holds that is over.
    pub(super) fn let_go(&mut self, device: &mut SimDevice, socket: SocketId) {
        let socket = &mut self.sockets[socket];
        if socket.is_over()
            && let Some(data) = socket.out.data.take()
        {
            self.buffers.push(data);
            device.ethernet().buffers.extend(socket.into.held.drain(..).map(|held| held.buffer));
        }
    }

    /// Interrupts that the machine has had.
    pub(crate) const fn interrupts(&self) -> u64 {
        self.interrupts.count
    }
}

fn new_buffer(host: &mut Host, bytes: u64) -> SocketBuffer {
    let mem = host
        .alloc_near(0, CoreId(0), bytes, PageSize::Small)
        .expect("a profile's buffers are smaller than an allocation may be");
    SocketBuffer { addr: mem.addr(0), bytes }
}
