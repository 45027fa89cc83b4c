//! The link to the service thread of a peer. This process cannot access the peer's memory itself, so it sends
//! requests to the service thread. A long WRITE or READ becomes several requests, one for each part. A SEND
//! becomes a request PART for each part of its message, and then a request DELIVER.
//!
//! A link has at most one outstanding request. A caller waits for the answer:
//! - The wait begins when the request is sent.
//! - It ends when the answer arrives, or when the peer has exited.
//! - It takes at most 50 ms, because the peer may be stopped.
//!
//! If the caller stops waiting, the request stays outstanding. Until its answer arrives, the link sends no
//! other request except wake-ups. The next caller first looks for the missing answer, and the link keeps an
//! answer that came late. A work request that is retried takes the late answer of its earlier attempt. So
//! each request is carried out once, however often its work request is retried. A READ has no effect at the
//! peer, so the link may drop its late answer and send the READ again.

use super::member::FabricMember;
use super::wire::{self, AnswerKind, Head, MAX_PART, RequestKind, WireMessage};
use crate::memory::copy::{Piece, split};
use crate::memory::records::EventRecord;
use crate::memory::transfer::Unreachable;
use crate::point::{Point, reach};
use crate::sync::lock;
use doorbell_transport::AtomicOp;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time after which a caller stops waiting for an answer.
const GIVE_UP: Duration = Duration::from_millis(50);
/// Maximum number of late answers that a link keeps. A further answer replaces the oldest answer, which no
/// caller is expected to need any more.
const LATE: usize = 1024;

/// Identifies a work request among all work requests of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// Number of the QP that the work request was posted to.
    pub(crate) qpn: u32,
    /// Generation of this number: it changes when another QP gets the number of a destroyed QP.
    pub(crate) generation: u32,
    /// Number of the work request in its QP, in the order of posting.
    pub(crate) number: u64,
}

/// The bytes of a peer's region from `offset` on, which a request writes or reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedBytes {
    pub(crate) key: u32,
    pub(crate) offset: u64,
    /// The QP that receives the request, and the generation of its number.
    pub(crate) to: (u32, u32),
}

impl ServedBytes {
    /// The words of a request for the part of the message that begins at byte `at`. Two words depend on the
    /// kind of the request.
    fn words(self, at: usize, [first, second]: [u64; 2]) -> [u64; 6] {
        let (qpn, generation) = self.to;
        let to = u64::from(qpn) | u64::from(generation) << 32;
        [self.key.into(), self.offset + at as u64, first, second, to, 0]
    }

    /// The receiving QP's number and generation, from the words of a request.
    pub(super) fn to(words: &[u64; 6]) -> (u32, u32) {
        (words[4] as u32, (words[4] >> 32) as u32)
    }
}

/// Identifies a request of a link. A link sends the message of a work request in parts, one request for each
/// part. The name of a request is the work request's ticket, and the part's offset in the message.
type Name = (Ticket, usize);

/// The operand that a SEND carries besides its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendOperand {
    /// No operand.
    None,
    /// Immediate data.
    Imm(u32),
    /// The rkey of the memory window to invalidate.
    InvalidatedKey(u32),
}

/// Flag of a DELIVER: the request has an operand. The operand is immediate data, unless `INVALIDATES` is set,
/// too.
const HAS_IMM: u32 = 1;
/// Flag of a DELIVER: see [`Delivery::solicited`].
const SOLICITED: u32 = 1 << 1;
/// Flag of a DELIVER: see [`Delivery::has_grh`].
const HAS_GRH: u32 = 1 << 2;
/// Flag of a DELIVER: the operand is the rkey to invalidate. It is in network byte order.
const INVALIDATES: u32 = 1 << 3;
/// Position of the service level in the flags of a DELIVER.
const SL_AT: u32 = 8;

/// Describes the delivery of a message that was sent in parts. It is encoded in the words of a DELIVER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Number of the receiving QP.
    pub(crate) to: u32,
    /// Generation of the receiving QP's number.
    pub(crate) generation: u32,
    /// Number of the sending QP.
    pub(crate) from: u32,
    pub(crate) operand: SendOperand,
    pub(crate) solicited: bool,
    /// Whether the message begins with a global route header. Otherwise the `header` bytes are only reserved
    /// for such a header.
    pub(crate) has_grh: bool,
    /// Service level of the message (0 to 15).
    pub(crate) sl: u8,
    /// Bytes for a global route header at the beginning of the message.
    pub(crate) header: u32,
    /// Bytes of payload behind the header.
    pub(crate) len: u32,
    /// Number of the work request in the sending QP.
    pub(crate) number: u64,
    /// The SRQ that an XRC message names. The message goes to the process that owns the SRQ, which may
    /// differ from the process that owns the QP `to`.
    pub(crate) srqn: Option<u32>,
}

impl Delivery {
    pub(crate) fn to_words(self) -> [u64; 6] {
        let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let (operand, word) = match self.operand {
            SendOperand::None => (0, 0),
            SendOperand::Imm(imm) => (HAS_IMM, imm),
            SendOperand::InvalidatedKey(rkey) => (HAS_IMM | INVALIDATES, u32::from_be(rkey)),
        };
        let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        let sl = u32::from(self.sl) << SL_AT;
        let flags = operand | bit(self.solicited, SOLICITED) | bit(self.has_grh, HAS_GRH) | sl;
        [
            two(self.to, self.generation),
            two(self.from, flags),
            two(word, self.header),
            self.len.into(),
            self.number,
            self.srqn.map_or(0, |srqn| u64::from(srqn) + 1),
        ]
    }

    pub(crate) fn from_words(words: [u64; 6]) -> Delivery {
        let [low, high] = [|word: u64| word as u32, |word: u64| (word >> 32) as u32];
        let flags = high(words[1]);
        Delivery {
            to: low(words[0]),
            generation: high(words[0]),
            from: low(words[1]),
            operand: match flags & (HAS_IMM | INVALIDATES) {
                0 => SendOperand::None,
                HAS_IMM => SendOperand::Imm(low(words[2])),
                _ => SendOperand::InvalidatedKey(low(words[2]).to_be()),
            },
            solicited: flags & SOLICITED != 0,
            has_grh: flags & HAS_GRH != 0,
            sl: (flags >> SL_AT) as u8 & 0xf,
            header: high(words[2]),
            len: low(words[3]),
            number: words[4],
            srqn: words[5].checked_sub(1).map(|srqn| srqn as u32),
        }
    }
}

/// A connection to the service thread of another process.
#[derive(Debug)]
pub(crate) struct Link {
    /// The connected socket; `None` after the other process has exited.
    socket: Mutex<Option<Arc<OwnedFd>>>,
    asked: Mutex<LinkRequests>,
}

/// Requests and answers of a link.
#[derive(Debug, Default)]
struct LinkRequests {
    /// Number of the last request that was sent.
    sequence: u64,
    /// The outstanding request that no caller waits for any more; `None` without such a request.
    left: Option<Name>,
    /// Answers that arrived after their callers had stopped waiting.
    late: VecDeque<(Name, WireMessage)>,
}

/// A process that was asked to identify itself and may not have answered yet.
#[derive(Debug)]
pub(crate) struct Meeting {
    socket: OwnedFd,
    /// The expected entry of the registry. If the process identifies itself as another member, the meeting
    /// fails.
    member: FabricMember,
    waited: bool,
}

/// A process that has identified itself.
#[derive(Debug)]
pub(crate) struct Met {
    pub(crate) link: Link,
    /// The file of the process's segment.
    pub(crate) segment: File,
    /// The process's pidfd, which becomes readable when the process exits. `None` if the process could not
    /// open one.
    pub(crate) process: Option<OwnedFd>,
}

impl Meeting {
    /// Connects to the socket of the registry's `slot` in `folder`, and asks the listening process to
    /// identify itself. `None` if no process listens, or if its connection queue is full.
    pub(crate) fn begin(folder: &File, slot: u32, member: FabricMember) -> io::Result<Option<Meeting>> {
        let socket = match wire::connect(folder, slot) {
            Ok(socket) => socket,
            Err(error) => {
                return match error.raw_os_error() {
                    // No process listens, or the connection queue of a stopped process is full.
                    Some(libc::ENOENT | libc::ECONNREFUSED | libc::EAGAIN) => Ok(None),
                    _ => Err(error),
                };
            }
        };
        let words = [wire::VERSION, slot.into(), member.start_time, 0, 0, 0];
        let head = Head::of_request(RequestKind::Hello, 1, words);
        wire::send(&socket, head, &[], &[])?;
        Ok(Some(Meeting { socket, member, waited: false }))
    }

    /// Whether this is a meeting with `member`.
    pub(crate) fn is_with(&self, member: &FabricMember) -> bool {
        self.member == *member
    }

    /// Receives the answer. Returns `Err(Ok(self))` if the answer has not arrived yet. The first call waits
    /// at most 50 ms for the answer, and later calls do not wait.
    pub(crate) fn end(mut self) -> Result<Met, io::Result<Meeting>> {
        let time = if std::mem::replace(&mut self.waited, true) { Duration::ZERO } else { GIVE_UP };
        wire::wait(&self.socket, time);
        let Some(received) = wire::receive(&self.socket).map_err(Err)? else { return Err(Ok(self)) };
        let is_it = received.head.answer() == Some(AnswerKind::Done)
            && received.head.words[..2] == [wire::VERSION, self.member.start_time];
        let mut files = received.files.into_iter();
        match (is_it, files.next()) {
            (true, Some(segment)) => {
                let asked = Mutex::new(LinkRequests { sequence: 1, ..LinkRequests::default() });
                let link = Link { socket: Mutex::new(Some(Arc::new(self.socket))), asked };
                Ok(Met { link, segment: segment.into(), process: files.next() })
            }
            _ => Err(Err(io::Error::other("the process uses another version of Doorbell's library"))),
        }
    }
}

impl Link {
    /// Closes the connection to a process that has exited.
    pub(crate) fn close(&self) {
        *lock(&self.socket) = None;
    }

    fn socket(&self) -> Option<Arc<OwnedFd>> {
        lock(&self.socket).clone()
    }

    /// Writes the pieces to a region of the peer. The last piece becomes visible after all others.
    pub(crate) fn write(
        &self,
        ticket: Ticket,
        pieces: &[Piece],
        bytes: ServedBytes,
    ) -> Result<(), Unreachable> {
        self.bring(ticket, pieces, |at| (RequestKind::Write, bytes.words(at, [0, 0])))
    }

    /// Reads bytes of a peer's region into the pieces.
    pub(crate) fn read(
        &self,
        ticket: Ticket,
        pieces: &[Piece],
        bytes: ServedBytes,
    ) -> Result<(), Unreachable> {
        let len = length(pieces);
        let mut at = 0;
        while at < len {
            let part = wire::part(pieces, at, MAX_PART);
            let part_len = length(&part);
            let words = bytes.words(at, [part_len as u64, 0]);
            let received = self.ask((ticket, at), RequestKind::Read, words, &[])?;
            if received.bytes.len() != part_len {
                return Err(Unreachable::Memory);
            }
            // SAFETY: the pieces lie within regions of this process, which the program keeps mapped (as in
            // `transfer::read`).
            unsafe { split(received.bytes.as_ptr(), &part) };
            at += part_len;
        }
        Ok(())
    }

    /// Carries out an atomic on a word of a peer's region; returns the old value.
    pub(crate) fn atomic(
        &self,
        ticket: Ticket,
        op: AtomicOp,
        bytes: ServedBytes,
    ) -> Result<u64, Unreachable> {
        let (kind, first, second) = match op {
            AtomicOp::CompareSwap { compare, swap } => (RequestKind::CompareSwap, compare, swap),
            AtomicOp::FetchAdd { add } => (RequestKind::FetchAdd, add, 0),
        };
        Ok(self.ask((ticket, 0), kind, bytes.words(0, [first, second]), &[])?.head.words[0])
    }

    /// Sends the message of a work request in parts, and delivers it. Returns the reason if the peer refuses
    /// the message.
    pub(crate) fn deliver(
        &self,
        ticket: Ticket,
        pieces: &[Piece],
        delivery: Delivery,
    ) -> Result<Option<u64>, Unreachable> {
        let len = length(pieces);
        // If an earlier attempt already sent the DELIVER, the peer has all parts.
        if self.reached(ticket).is_none_or(|at| at < len) {
            self.bring(ticket, pieces, |at| {
                (RequestKind::Part, [at as u64, ticket.qpn.into(), ticket.number, 0, 0, 0])
            })?;
        }
        let head = self.ask((ticket, len), RequestKind::Deliver, delivery.to_words(), &[])?.head;
        Ok((head.answer() == Some(AnswerKind::Refused)).then_some(head.words[0]))
    }

    /// Asks the peer to write an event to one of its pipes. This request has no answer.
    pub(crate) fn wake(&self, fd: u32, event: EventRecord) -> io::Result<()> {
        let words = [fd.into(), event.event_type.into(), event.index.into(), event.generation.into(), 0, 0];
        let Some(socket) = self.socket() else { return Ok(()) };
        wire::send(&socket, Head::of_request(RequestKind::Wake, 0, words), &[], &[])
    }

    /// Sends the bytes of the pieces, one request for each part of at most [`MAX_PART`] bytes. Continues
    /// where an earlier attempt stopped.
    fn bring(
        &self,
        ticket: Ticket,
        pieces: &[Piece],
        request: impl Fn(usize) -> (RequestKind, [u64; 6]),
    ) -> Result<(), Unreachable> {
        let len = length(pieces);
        let mut at = self.reached(ticket).unwrap_or(0);
        while at < len {
            let part = wire::part(pieces, at, MAX_PART);
            let (kind, words) = request(at);
            self.ask((ticket, at), kind, words, &part)?;
            at += length(&part);
        }
        Ok(())
    }

    /// Whether the link still waits for an answer whose caller has stopped waiting.
    pub(crate) fn waits(&self) -> bool {
        lock(&self.asked).left.is_some()
    }

    /// Whether an earlier attempt of this work request has left an outstanding request, or a late answer.
    #[cold]
    pub(crate) fn has_asked(&self, ticket: Ticket) -> bool {
        self.reached(ticket).is_some()
    }

    /// Whether an earlier work request of the ticket's QP still waits for an answer. The ticket's work
    /// request must then wait, because the work requests of a QP are carried out in order.
    #[cold]
    pub(crate) fn is_behind(&self, ticket: Ticket) -> bool {
        let mut asked = lock(&self.asked);
        let other = asked.left.is_some_and(|(of, _)| of.qpn == ticket.qpn && of != ticket);
        other && self.take_left(&mut asked, None).is_err()
    }

    /// The byte of the message at which a retried work request continues: the offset of its request that is
    /// outstanding or has a late answer. `None` without such a request.
    fn reached(&self, ticket: Ticket) -> Option<usize> {
        let asked = lock(&self.asked);
        let left = asked.left.iter().chain(asked.late.iter().map(|(name, _)| name));
        left.filter(|(of, _)| *of == ticket).map(|(_, at)| *at).next()
    }

    /// Sends a request and waits at most 50 ms for the answer. If an earlier attempt has sent this
    /// request and its answer came late, `ask` returns the late answer and sends nothing.
    ///
    /// Fails with `Gone` in three cases: the answer does not arrive in time, an earlier request is still
    /// outstanding, or the peer has exited.
    fn ask(
        &self,
        name: Name,
        kind: RequestKind,
        words: [u64; 6],
        pieces: &[Piece],
    ) -> Result<WireMessage, Unreachable> {
        let mut asked = lock(&self.asked);
        self.take_left(&mut asked, Some(name))?;
        if let Some(at) = asked.late.iter().position(|(late, _)| *late == name)
            && let Some((_, received)) = asked.late.remove(at)
        {
            return judged(received);
        }
        let head = Head::of_request(kind, asked.sequence + 1, words);
        let socket = self.socket().ok_or(Unreachable::Gone)?;
        match wire::send(&socket, head, pieces, &[]) {
            Ok(()) => asked.sequence += 1,
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => return Err(Unreachable::Local),
            Err(_) => return Err(Unreachable::Gone),
        }
        reach(Point::Asked);
        let answer = self.answer(asked.sequence, GIVE_UP);
        if answer.is_err() {
            asked.left = Some(name);
        }
        answer.and_then(judged)
    }

    /// Receives the answer to the outstanding request that no caller waits for. Does nothing without such a
    /// request. Fails with `Gone` if the answer has not arrived.
    ///
    /// An answer is kept for a later call, unless it has the data of a READ. The data is kept only if the
    /// caller is about to repeat this READ (`name`). A dropped READ is sent again later.
    fn take_left(&self, asked: &mut LinkRequests, name: Option<Name>) -> Result<(), Unreachable> {
        let Some(left) = asked.left else { return Ok(()) };
        let received = self.answer(asked.sequence, Duration::ZERO)?;
        asked.left = None;
        if received.bytes.is_empty() || Some(left) == name {
            asked.late.truncate(LATE - 1);
            asked.late.push_front((left, received));
        }
        Ok(())
    }

    /// Waits for the answer to a request; `Gone` if it does not arrive within `time`.
    fn answer(&self, sequence: u64, time: Duration) -> Result<WireMessage, Unreachable> {
        let socket = self.socket().ok_or(Unreachable::Gone)?;
        let until = Instant::now() + time;
        loop {
            match wire::receive(&socket) {
                Ok(Some(received)) if received.head.sequence == sequence => return Ok(received),
                Ok(Some(_)) => {}
                Err(_) => return Err(Unreachable::Gone),
                Ok(None) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() || !wire::wait(&socket, left) && Instant::now() >= until {
                        return Err(Unreachable::Gone);
                    }
                }
            }
        }
    }
}

/// Returns an answer, or the error that the answer reports.
fn judged(received: WireMessage) -> Result<WireMessage, Unreachable> {
    match received.head.answer() {
        Some(AnswerKind::Done | AnswerKind::Refused) => Ok(received),
        Some(AnswerKind::Memory) => Err(Unreachable::Memory),
        Some(AnswerKind::Again) | None => Err(Unreachable::Gone),
    }
}

fn length(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_survives_its_words() {
        use SendOperand::{Imm, InvalidatedKey};
        for (operand, solicited) in [
            (SendOperand::None, false),
            (Imm(7), true),
            (InvalidatedKey(0x1ff), false),
            (SendOperand::None, true),
        ] {
            let has_grh = operand == SendOperand::None;
            let all = Delivery {
                to: 1,
                generation: 2,
                from: 0xff_fffe,
                operand,
                solicited,
                has_grh,
                sl: if solicited { 15 } else { 0 },
                header: 40,
                len: u32::MAX,
                number: 1 << 40,
                srqn: has_grh.then_some(0),
            };
            assert_eq!(Delivery::from_words(all.to_words()), all);
        }
    }
}
