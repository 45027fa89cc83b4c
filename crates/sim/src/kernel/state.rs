//! A machine's kernel: its sockets, its interrupts, and the threads that it wakes.

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

/// The core that takes the NIC's interrupts.
pub(super) const INTERRUPTED: CoreId = CoreId(0);
/// The first port that listeners get.
const FIRST_PORT: u16 = 32768;
/// Number of ports, up to the last one of Linux's range for this purpose.
const PORTS: usize = 28232;

/// The kernel's surroundings during a call: host, device, core, and that core's clock.
pub(crate) struct KernelContext<'a> {
    pub(crate) host: &'a mut Host,
    pub(crate) device: &'a mut SimDevice,
    pub(crate) env: &'a mut Env,
    pub(crate) core: CoreId,
    pub(crate) clock: Ps,
}

/// State of interrupts, and of the driver's poll.
#[derive(Default)]
pub(super) struct Interrupts {
    /// Frames in memory that the driver has not taken.
    pub(super) waiting: VecDeque<ReceivedFrame>,
    /// Whether the driver polls.
    pub(super) polls: bool,
    /// When the next interrupt comes, if one is scheduled.
    pub(super) next: Option<Ps>,
    /// When the core leaves the kernel after the last interrupt.
    pub(super) busy: Ps,
    /// Frames whose buffers the driver has not yet replaced in the NIC.
    pub(super) emptied: u32,
    /// The segment that is merged from the last frames. The next field has the places of their data.
    pub(super) merged: Option<Segment>,
    pub(super) held: Vec<HeldBytes>,
    pub(super) count: u64,
}

/// Counts of segments handed to the NIC, and of those without data.
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
    /// Buffers of sockets that have ended.
    buffers: Vec<SocketBuffer>,
    pub(crate) sent: SegmentsSent,
    /// Threads to wake when the kernel has finished its present work.
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

    /// Number of lines by which copies prefetch ahead, and instructions of a copy per 8 bytes.
    pub(crate) const fn copies(&self) -> (u64, u32) {
        (self.tcp.copy_prefetch as u64, self.tcp.copy_instructions)
    }

    /// Starts to use the device for TCP.
    pub(crate) fn bring_up(&self, host: &mut Host, device: &mut SimDevice) {
        device.bring_up(&self.tcp, host);
    }

    /// Creates a socket for a thread.
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

    /// Creates a listener. Returns the listener with its port; `None` if no port is left.
    pub(crate) fn listen(&mut self, host: &mut Host, owner: ThreadId) -> Option<(SocketId, u16)> {
        let number = self.listeners.len();
        if number == PORTS {
            return None;
        }
        let socket = self.open(host, owner, SocketState::Listening([].into()), PortId(0));
        self.listeners.push(socket);
        Some((socket, FIRST_PORT + number as u16))
    }

    /// The socket that listens at a port.
    pub(super) fn listener(&self, port: u16) -> Option<SocketId> {
        let socket = *self.listeners.get(usize::from(port.checked_sub(FIRST_PORT)?))?;
        (!self.sockets[socket].closed).then_some(socket)
    }

    /// The socket of a handle, if it belongs to this thread and is open.
    pub(crate) fn socket_of(&self, thread: ThreadId, handle: u32) -> Option<SocketId> {
        let socket = SocketId::from_index(handle as usize);
        self.sockets.get(socket).filter(|s| s.owner == thread && !s.closed)?;
        Some(socket)
    }

    /// Marks a socket's thread to be woken if it waits for `want`.
    pub(super) fn wake(&mut self, socket: SocketId, want: SocketWant) {
        let socket = &mut self.sockets[socket];
        if socket.sleeper == Some(want) {
            socket.sleeper = None;
            self.woken.push(socket.owner);
        }
    }

    /// Marks a socket's thread to be woken, whatever it waits for.
    pub(super) fn wake_all(&mut self, socket: SocketId) {
        self.wake(socket, SocketWant::Take);
        self.wake(socket, SocketWant::Room);
    }

    /// Frees the buffers of a socket, if the socket has ended.
    pub(super) fn let_go(&mut self, device: &mut SimDevice, socket: SocketId) {
        let socket = &mut self.sockets[socket];
        if socket.is_over()
            && let Some(data) = socket.out.data.take()
        {
            self.buffers.push(data);
            device.ethernet().buffers.extend(socket.into.held.drain(..).map(|held| held.buffer));
        }
    }

    /// Number of interrupts that the machine has taken.
    pub(crate) const fn interrupts(&self) -> u64 {
        self.interrupts.count
    }
}

fn new_buffer(host: &mut Host, bytes: u64) -> SocketBuffer {
    let mem = host
        .alloc_near(0, CoreId(0), bytes, PageSize::Small)
        .expect("a profile's socket buffers are smaller than the largest allocation");
    SocketBuffer { addr: mem.addr(0), bytes }
}
