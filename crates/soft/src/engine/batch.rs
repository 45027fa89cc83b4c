//! WRITEs, or READs, of one post list to the private memory of one other process: they are moved
//! together, as a system call for each would cost most of the time.
//!
//! What is gathered is in the order of the list, and all checks but that of the page tables have
//! passed. It is moved before anything else of the QP is done, and when the list ends.

use super::request::{Request, RequestOp};
use crate::memory::transfer::{Direction, Piece, Unreachable, Vectors};
use doorbell_verbs::{SendFlags, SendOp, Sge};
use std::ops::Range;

/// What is gathered.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    direction: Direction,
    pid: u32,
    vectors: Vectors,
    requests: Vec<Gathered>,
    sges: Vec<Sge>,
    /// The first that has not been moved, and how much of it has.
    next: usize,
    moved: usize,
}

/// A work request that is gathered. It outlives the borrow of what the program posted, but not the
/// post.
#[derive(Debug)]
struct Gathered {
    wr_id: u64,
    op: RequestOp,
    flags: SendFlags,
    len: u32,
    number: u64,
    sges: Range<usize>,
    inline: Option<Piece>,
    srqn: u32,
}

impl Direction {
    /// That of the bytes of a work request that can be gathered.
    fn of(op: &RequestOp) -> Option<Direction> {
        match op {
            RequestOp::Verb(SendOp::Write(_)) => Some(Direction::Write),
            RequestOp::Verb(SendOp::Read(_)) => Some(Direction::Read),
            _ => None,
        }
    }
}

impl Batch {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether a work request may go along with what is gathered: WRITEs do with WRITEs, so that
    /// no READ fetches what an earlier WRITE has still to bring, nor a WRITE sends what an earlier
    /// READ has.
    #[inline]
    pub(crate) fn goes_with(&self, op: &RequestOp) -> bool {
        self.is_empty() || Direction::of(op) == Some(self.direction)
    }

    /// Adds a WRITE or READ between these pieces and `addr` in process `pid`; `false` where it does
    /// not go along.
    pub(crate) fn add(&mut self, request: &Request<'_>, pieces: &[Piece], pid: u32, addr: u64) -> bool {
        let Some(direction) = Direction::of(&request.op) else { return false };
        if self.is_empty() {
            (self.direction, self.pid) = (direction, pid);
        } else if self.direction != direction || self.pid != pid || !self.vectors.has_room(pieces.len()) {
            return false;
        }
        self.vectors.push(direction, pieces, addr);
        let first = self.sges.len();
        for sge in request.sg_list {
            self.sges.push(*sge);
        }
        self.requests.push(Gathered {
            wr_id: request.wr_id,
            op: request.op,
            flags: request.flags,
            len: request.len,
            number: request.number,
            sges: first..self.sges.len(),
            inline: request.inline.map(|bytes| Piece { addr: bytes.as_ptr() as u64, len: bytes.len() }),
            srqn: request.srqn,
        });
        true
    }

    /// Moves all, or up to the work request that cannot be moved; returns which were, by index, and
    /// why the next was not.
    pub(crate) fn transfer(&mut self) -> (Range<usize>, Option<Unreachable>) {
        let first = self.next;
        while !self.vectors.is_done() {
            match self.vectors.call(self.direction, self.pid) {
                Ok(bytes) => self.advance(bytes),
                Err(cause) => return (first..self.next, Some(cause)),
            }
        }
        (first..self.next, None)
    }

    fn advance(&mut self, bytes: usize) {
        self.moved += bytes;
        while let Some(request) = self.requests.get(self.next)
            && self.moved >= request.len as usize
        {
            self.moved -= request.len as usize;
            self.next += 1;
        }
    }

    /// Gives up the first work request that has not been moved; returns its index, as a range.
    pub(crate) fn give_up(&mut self) -> Range<usize> {
        let first = self.next;
        if let Some(request) = self.requests.get(first) {
            let left = request.len as usize - self.moved;
            self.vectors.skip(left);
            self.advance(left);
        }
        first..self.next
    }

    /// The indices of those that have been neither moved nor given up.
    pub(crate) fn left(&self) -> Range<usize> {
        self.next..self.requests.len()
    }

    /// The first that has been neither moved nor given up.
    pub(crate) fn first_left(&self) -> Option<Request<'_>> {
        self.requests(self.left()).next()
    }

    /// The work requests of these indices.
    pub(crate) fn requests(&self, range: Range<usize>) -> impl Iterator<Item = Request<'_>> {
        self.requests[range].iter().map(|request| Request {
            wr_id: request.wr_id,
            op: request.op,
            sg_list: &self.sges[request.sges.clone()],
            flags: request.flags,
            dest: None,
            len: request.len,
            // SAFETY: nothing stays gathered when the `Posting` ends, which the payload outlives: by its
            // lifetime, or where ibv_post_send(3) was called by the program's promise to it.
            inline: request
                .inline
                .map(|piece| unsafe { std::slice::from_raw_parts(piece.addr as *const u8, piece.len) }),
            number: request.number,
            srqn: request.srqn,
        })
    }

    pub(crate) fn clear(&mut self) {
        self.vectors.clear();
        self.requests.clear();
        self.sges.clear();
        (self.next, self.moved) = (0, 0);
    }
}
