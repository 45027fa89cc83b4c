//! Gathers WRITEs, or READs, of one post list to the private memory of one other process. *Private memory* is
//! mapped in that process alone, so only system calls can move bytes to it or from it.
//!
//! One system call moves the bytes of many gathered requests. One system call for each request would take
//! most of the time.
//!
//! Gathered work requests keep the order of the list. They have passed all checks except the kernel's check
//! of the page tables. Their bytes are moved when the list ends, and before the QP does anything else.

use super::attempt::{Attempt, Outcome};
use super::request::{Request, RequestOp};
use crate::fabric::copier::{Copier, Copying, KeptCopying};
use crate::memory::copy::Piece;
use crate::memory::transfer::{Direction, Unreachable, Vectors};
use doorbell_verbs::{SendFlags, SendOp, Sge};
use std::ops::Range;
use std::sync::Arc;

/// The gathered work requests.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    direction: Direction,
    pid: u32,
    vectors: Vectors,
    requests: Vec<Gathered>,
    sges: Vec<Sge>,
    /// Index of the first work request that is neither completely moved nor skipped.
    next: usize,
    /// Number of bytes of the work request `next` that are moved.
    moved: usize,
    /// The marks in copy records, which show that copies run. They were set before the first work request was
    /// checked.
    copying: Vec<KeptCopying>,
}

/// A gathered work request. It outlives the borrow of the posted work request, but not the post.
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
    /// The direction of the bytes of a work request; `None` if it cannot be gathered.
    fn of(op: &RequestOp) -> Option<Direction> {
        match op {
            RequestOp::Verb(SendOp::Write(_)) | RequestOp::AtomicWrite(_) => Some(Direction::Write),
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

    /// Whether a work request may join the gathered ones. All gathered requests have one direction. Otherwise
    /// a READ could fetch bytes that an earlier WRITE has not moved yet. Or a WRITE could send bytes that an
    /// earlier READ has not fetched yet.
    #[inline]
    pub(crate) fn goes_with(&self, op: &RequestOp) -> bool {
        self.is_empty() || Direction::of(op) == Some(self.direction)
    }

    /// Adds a WRITE or READ, which moves bytes between these pieces and `addr` in process `pid`. Returns
    /// `false` if the request cannot join the gathered ones.
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

    /// Moves the bytes of all gathered work requests, up to the first request that cannot be moved. Returns
    /// the indices of the requests that this call has moved. If it could not move a request, also returns the
    /// reason.
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

    /// Whether the gathered requests are READs.
    pub(crate) fn reads(&self) -> bool {
        self.direction == Direction::Read
    }

    /// Prepares to move the bytes of all gathered work requests again. Returns `false` if this is impossible,
    /// because a call has moved or skipped only a part of a piece.
    pub(crate) fn rewind(&mut self) -> bool {
        let can_be = self.vectors.rewind();
        if can_be {
            (self.next, self.moved) = (0, 0);
        }
        can_be
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

    /// Skips the first work request that is neither moved nor skipped. Returns its index as a range.
    pub(crate) fn give_up(&mut self) -> Range<usize> {
        let first = self.next;
        if let Some(request) = self.requests.get(first) {
            let left = request.len as usize - self.moved;
            self.vectors.skip(left);
            self.advance(left);
        }
        first..self.next
    }

    /// Indices of the work requests that have been neither moved nor skipped.
    pub(crate) fn left(&self) -> Range<usize> {
        self.next..self.requests.len()
    }

    /// The first work request that has been neither moved nor skipped.
    pub(crate) fn first_left(&self) -> Option<Request<'_>> {
        self.requests(self.left()).next()
    }

    /// The sequence number, in its QP, of the first work request that is neither moved nor skipped.
    pub(crate) fn first_number(&self) -> Option<u64> {
        self.requests.get(self.next).map(|request| request.number)
    }

    /// The work requests with these indices.
    pub(crate) fn requests(&self, range: Range<usize>) -> impl Iterator<Item = Request<'_>> {
        self.requests[range].iter().map(|request| Request {
            wr_id: request.wr_id,
            op: request.op,
            sg_list: &self.sges[request.sges.clone()],
            flags: request.flags,
            dest: None,
            len: request.len,
            // SAFETY: no request stays gathered when the `Posting` ends, and the payload outlives the
            // `Posting`. Its lifetime ensures this, or the program promises it to ibv_post_send(3).
            inline: request
                .inline
                .map(|piece| unsafe { std::slice::from_raw_parts(piece.addr as *const u8, piece.len) }),
            number: request.number,
            srqn: request.srqn,
        })
    }

    /// The end of a work request that has had no effect. If other requests are gathered, the result is that
    /// they must be carried out first.
    pub(super) fn in_turn(&self, outcome: Outcome) -> Attempt {
        if self.is_empty() { Attempt::Over(outcome) } else { Attempt::AfterGathered }
    }

    /// Marks that a copy runs, for a work request. Returns `None` if requests are gathered, because their
    /// mark is still set.
    #[inline(always)]
    pub(super) fn begin<'a>(&self, copier: Option<&'a Arc<Copier>>) -> Option<Copying<'a>> {
        copier.filter(|_| self.is_empty()).map(Copier::begin)
    }

    /// Takes over the mark of a copy that a gathered work request has begun. [`Batch::clear`] removes the
    /// mark.
    pub(super) fn keep(&mut self, copying: Option<Copying<'_>>) {
        self.copying.extend(copying.map(Copying::keep));
    }

    /// Removes all gathered work requests, and the marks that copies run.
    pub(crate) fn clear(&mut self) {
        self.copying.clear();
        self.vectors.clear();
        self.requests.clear();
        self.sges.clear();
        (self.next, self.moved) = (0, 0);
    }
}
