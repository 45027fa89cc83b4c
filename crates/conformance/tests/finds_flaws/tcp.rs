//! A minimal TCP with at most one flaw: byte queues that the threads of a cluster share.

use doorbell_verbs::{Cpu, Mem, PageSize, SocketError, SocketHandle, Span, Time};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

/// Flaw of the TCP implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpFlaw {
    Nothing,
    SwapsBytes,
    WritesBeyond,
    WaitsForAll,
    IsHalfDuplex,
    MixesConnections,
    LosesWhatCameBeforeAccept,
    CallsTheEndAReset,
    LosesWhatIsUnderWay,
    NeverBlocks,
    HidesThatThePeerIsGone,
    ConnectsToNobody,
    PollsWithoutWaiting,
    PollsLast,
    KnowsAllNumbers,
}

/// Maximum number of bytes that a connection holds in one direction.
const WINDOW: usize = 64 << 10;
/// Interval at which a waiting thread polls.
const STEP: Span = Span::from_us(100);
/// Time after which a wait fails. Without it, a run in virtual time would not end.
const PATIENCE: Span = Span::from_ms(1_000);
/// The port of the first socket.
const FIRST_PORT: usize = 1000;

pub(crate) struct End {
    peer: usize,
    inbox: VecDeque<u8>,
    accepted: bool,
    reset: bool,
}

pub(crate) enum Socket {
    Listener(VecDeque<usize>),
    End(End),
    Closed,
}

type Looked<T> = Option<Result<T, SocketError>>;

/// Sockets that the threads of a cluster share.
pub(crate) type Shared = Arc<Mutex<Vec<Socket>>>;

/// A thread's access to the shared sockets.
#[derive(Clone)]
pub(crate) struct Tcp {
    flaw: TcpFlaw,
    sockets: Shared,
    /// Memory of the thread. [`pass`] loads a word of it.
    mark: Mem,
}

/// Lets time pass and other threads run. No simulated memory changes with the sockets, so `pause` would not
/// notice a change.
fn pass(cpu: &impl Cpu, span: Span, mark: Mem) {
    cpu.work(span);
    cpu.load_u64(mark, 0);
}

fn handle(number: usize) -> SocketHandle {
    SocketHandle(number as u32)
}

impl Tcp {
    pub(crate) fn new(cpu: &impl Cpu, flaw: TcpFlaw, sockets: Shared) -> Tcp {
        Tcp { flaw, sockets, mark: cpu.alloc(64, PageSize::Small).expect("there is memory") }
    }

    fn is(&self, flaw: TcpFlaw) -> bool {
        self.flaw == flaw
    }

    /// Runs `work` on the sockets.
    fn with<T>(&self, work: impl FnOnce(&mut Vec<Socket>) -> T) -> T {
        work(&mut self.sockets.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Polls until `look` returns an outcome. Fails after [`PATIENCE`].
    fn wait<T>(
        &self,
        cpu: &impl Cpu,
        mut look: impl FnMut(&mut Vec<Socket>) -> Looked<T>,
    ) -> Result<T, SocketError> {
        let end = cpu.now() + PATIENCE;
        while cpu.now() < end {
            if let Some(outcome) = self.with(&mut look) {
                return outcome;
            }
            pass(cpu, STEP, self.mark);
        }
        Err(SocketError::Invalid("waited in vain".into()))
    }

    fn unknown(&self) -> SocketError {
        match self.flaw {
            TcpFlaw::KnowsAllNumbers => SocketError::Reset,
            _ => SocketError::Invalid("no such socket".into()),
        }
    }

    fn end<'s>(&self, sockets: &'s mut [Socket], socket: SocketHandle) -> Result<&'s mut End, SocketError> {
        match sockets.get_mut(socket.0 as usize) {
            Some(Socket::End(end)) => Ok(end),
            _ => Err(self.unknown()),
        }
    }

    pub(crate) fn listen(&self) -> (SocketHandle, SocketAddr) {
        let number = self.with(|sockets| {
            sockets.push(Socket::Listener(VecDeque::new()));
            sockets.len() - 1
        });
        (handle(number), (Ipv4Addr::LOCALHOST, (FIRST_PORT + number) as u16).into())
    }

    pub(crate) fn connect(&self, to: SocketAddr) -> Result<SocketHandle, SocketError> {
        self.with(|sockets| {
            let (near, far) = (sockets.len(), sockets.len() + 1);
            match sockets.get_mut(usize::from(to.port()) - FIRST_PORT) {
                Some(Socket::Listener(waiting)) => waiting.push_back(far),
                _ if self.is(TcpFlaw::ConnectsToNobody) => {}
                _ => return Err(SocketError::Refused(to)),
            }
            for (peer, accepted) in [(far, true), (near, false)] {
                sockets.push(Socket::End(End { peer, inbox: VecDeque::new(), accepted, reset: false }));
            }
            Ok(handle(near))
        })
    }

    pub(crate) fn accept(&self, cpu: &impl Cpu, listener: SocketHandle) -> Result<SocketHandle, SocketError> {
        let accepted = self.wait(cpu, |sockets| match sockets.get_mut(listener.0 as usize) {
            Some(Socket::Listener(waiting)) => waiting.pop_front().map(|end| Ok(handle(end))),
            _ => Some(Err(self.unknown())),
        })?;
        self.with(|sockets| self.end(sockets, accepted).map(|end| end.accepted = true))?;
        Ok(accepted)
    }

    pub(crate) fn send(
        &self,
        cpu: &impl Cpu,
        socket: SocketHandle,
        mut bytes: Vec<u8>,
    ) -> Result<(), SocketError> {
        if self.is(TcpFlaw::SwapsBytes) && bytes.len() > 1000 {
            bytes.swap(999, 1000);
        }
        let mut bytes = VecDeque::from(bytes);
        self.wait(cpu, |sockets| {
            let own = match self.end(sockets, socket) {
                Ok(end) => end,
                Err(refusal) => return Some(Err(refusal)),
            };
            let (busy, peer) = (!own.inbox.is_empty(), own.peer);
            let peer = if self.is(TcpFlaw::MixesConnections) { first_like(sockets, peer) } else { peer };
            let Socket::End(peer) = &mut sockets[peer] else {
                let hides = self.is(TcpFlaw::HidesThatThePeerIsGone);
                return Some(if hides { Ok(()) } else { Err(SocketError::Reset) });
            };
            let room = if self.is(TcpFlaw::NeverBlocks) { bytes.len() } else { WINDOW - peer.inbox.len() };
            if !(self.is(TcpFlaw::IsHalfDuplex) && busy) {
                let now = bytes.drain(..room.min(bytes.len()));
                match self.is(TcpFlaw::LosesWhatCameBeforeAccept) && !peer.accepted {
                    true => drop(now),
                    false => peer.inbox.extend(now),
                }
            }
            bytes.is_empty().then_some(Ok(()))
        })
    }

    pub(crate) fn recv(
        &self,
        cpu: &impl Cpu,
        socket: SocketHandle,
        len: usize,
    ) -> Result<Vec<u8>, SocketError> {
        self.wait(cpu, |sockets| {
            let peer = match self.end(sockets, socket) {
                Ok(end) => end.peer,
                Err(refusal) => return Some(Err(refusal)),
            };
            let gone = matches!(sockets[peer], Socket::Closed);
            let end = self.end(sockets, socket).expect("it was there");
            let enough = if self.is(TcpFlaw::WaitsForAll) { len } else { 1 };
            if end.inbox.len() >= enough || gone && !end.inbox.is_empty() {
                return Some(Ok(end.inbox.drain(..len.min(end.inbox.len())).collect()));
            }
            let reset = end.reset || self.is(TcpFlaw::CallsTheEndAReset);
            gone.then(|| if reset { Err(SocketError::Reset) } else { Ok(Vec::new()) })
        })
    }

    /// Number of bytes that a recv overwrites behind the received bytes.
    pub(crate) fn spoils(&self) -> usize {
        usize::from(self.is(TcpFlaw::WritesBeyond))
    }

    pub(crate) fn poll(
        &self,
        cpu: &impl Cpu,
        sockets: &[SocketHandle],
        deadline: Time,
    ) -> Result<Option<usize>, SocketError> {
        loop {
            let mut ready = Vec::new();
            for (index, socket) in sockets.iter().enumerate() {
                let has = self.with(|all| match all.get(socket.0 as usize) {
                    Some(Socket::Listener(waiting)) => Ok(!waiting.is_empty()),
                    Some(Socket::End(end)) => {
                        Ok(!end.inbox.is_empty() || matches!(all[end.peer], Socket::Closed))
                    }
                    _ => Err(self.unknown()),
                })?;
                ready.extend(has.then_some(index));
            }
            let found = if self.is(TcpFlaw::PollsLast) { ready.last() } else { ready.first() };
            if found.is_some() || cpu.now() >= deadline || self.is(TcpFlaw::PollsWithoutWaiting) {
                return Ok(found.copied());
            }
            pass(cpu, STEP.min(deadline - cpu.now()), self.mark);
        }
    }

    pub(crate) fn close(&self, socket: SocketHandle) {
        self.with(|sockets| {
            let Some(closed) = sockets.get_mut(socket.0 as usize) else { return };
            match std::mem::replace(closed, Socket::Closed) {
                Socket::Listener(waiting) => {
                    waiting.into_iter().for_each(|end| sockets[end] = Socket::Closed)
                }
                Socket::End(End { peer, inbox, .. }) => {
                    if let Socket::End(peer) = &mut sockets[peer] {
                        peer.reset = !inbox.is_empty();
                        if self.is(TcpFlaw::LosesWhatIsUnderWay) {
                            peer.inbox.clear();
                        }
                    }
                }
                Socket::Closed => {}
            }
        });
    }
}

/// The first accepting end among the sockets if `like` is the accepting end of a connection. Otherwise,
/// `like` itself.
fn first_like(sockets: &[Socket], like: usize) -> usize {
    let is_far = |at: usize| match &sockets[at] {
        Socket::End(end) => end.peer < at,
        _ => false,
    };
    (0..sockets.len()).find(|at| is_far(*at) && is_far(like)).unwrap_or(like)
}
