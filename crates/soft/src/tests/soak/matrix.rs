//! The matrix of the soak: a row for each point at which a process is caught. Each row is tested with every
//! harm that is possible there.

use super::harm::Harm;
use super::traffic::Way;
use crate::point::Point;

/// The role of the caught process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The process sends to a server, as two other clients do.
    Poster,
    /// The process sends a request that the server refuses. It then flushes the server's receive queue.
    Faulter,
    /// The process receives from two clients, as another server does.
    Receiver,
    /// The process sends requests of [`super::pair`], or answers them.
    Asker,
    Owner,
    /// The process is the first to join its fabric.
    Joiner,
    /// The process is the last to leave its fabric.
    Leaver,
}

/// A row of the matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) role: Role,
    pub(super) point: Point,
    /// The process is caught the nth time that it reaches the point. n is random, from 1 to this number.
    pub(super) passes: u32,
    /// Whether all processes are closed. Then a thread of each process accesses its private memory for peers.
    pub(super) closed: bool,
}

/// A process gets slow only at points that it passes often, with a range of passes of at least this number.
const OFTEN: u32 = 100;

impl Row {
    /// The reason why a harm makes no sense in this row, or `None` if it makes sense.
    pub(super) fn skips(&self, harm: Harm) -> Option<&'static str> {
        match (self.role, harm) {
            (Role::Asker | Role::Owner, Harm::Idle) if self.passes < OFTEN => {
                Some("is tested at other points")
            }
            (Role::Asker | Role::Owner, Harm::Stop | Harm::Hold | Harm::Idle) => None,
            (Role::Asker | Role::Owner, _) => Some("Poster and Receiver test it"),
            (_, Harm::Hold | Harm::Idle) => Some("Asker and Owner test it"),
            (Role::Poster | Role::Faulter | Role::Receiver, Harm::FullShm) => Some("writes nothing there"),
            (Role::Poster | Role::Faulter | Role::Joiner | Role::Leaver, Harm::Hostile) => {
                Some("no process reads its segment")
            }
            (Role::Leaver, Harm::NoFiles | Harm::NoMemory) => Some("needs neither files nor memory"),
            _ => None,
        }
    }

    /// Whether requests on this way wait for the process that is caught at this point, because it holds a
    /// lock.
    pub(super) fn holds_up(&self, way: Way) -> bool {
        let is_its_own = self.closed;
        way == Way::Rc
            && !is_its_own
            && matches!(
                self.point,
                Point::LockHeld | Point::AtomicRead | Point::BeforeForeign | Point::AfterForeign
            )
    }
}

const fn row(role: Role, point: Point, passes: u32) -> Row {
    Row { role, point, passes, closed: false }
}

const fn closed(role: Role, point: Point, passes: u32) -> Row {
    Row { closed: true, ..row(role, point, passes) }
}

pub(super) const CELLS: [Row; 141] = [
    row(Role::Poster, Point::BeforeCopy, 40),
    row(Role::Poster, Point::CopyBegun, 40),
    row(Role::Poster, Point::WithinCopy, 20),
    row(Role::Poster, Point::CopyEnding, 40),
    row(Role::Poster, Point::BeforeForeign, 20),
    row(Role::Poster, Point::AfterForeign, 20),
    row(Role::Poster, Point::AtomicRead, 4),
    row(Role::Poster, Point::LockHeld, 4),
    row(Role::Poster, Point::TurnClaimed, 20),
    row(Role::Poster, Point::SlotClaimed, 20),
    row(Role::Poster, Point::Entered, 40),
    row(Role::Poster, Point::Filled, 40),
    row(Role::Poster, Point::Done, 40),
    row(Role::Poster, Point::TurnPassed, 40),
    row(Role::Poster, Point::CellWritten, 20),
    row(Role::Poster, Point::CarriedOut, 40),
    row(Role::Poster, Point::MarkedDone, 40),
    row(Role::Poster, Point::Disarmed, 4),
    row(Role::Poster, Point::PeerOpened, 1),
    row(Role::Faulter, Point::Failed, 1),
    row(Role::Faulter, Point::Flushing, 8),
    row(Role::Faulter, Point::SlotClaimed, 8),
    row(Role::Faulter, Point::Done, 8),
    row(Role::Receiver, Point::RecvWritten, 40),
    row(Role::Receiver, Point::RecvUnordered, 20),
    row(Role::Receiver, Point::SendsSought, 40),
    row(Role::Receiver, Point::TakingBegun, 40),
    row(Role::Receiver, Point::Taking, 40),
    row(Role::Receiver, Point::MrOdd, 6),
    row(Role::Receiver, Point::Revoked, 6),
    row(Role::Receiver, Point::QpHalfMade, 4),
    row(Role::Receiver, Point::QpHalfChanged, 8),
    row(Role::Receiver, Point::Resetting, 6),
    row(Role::Receiver, Point::QueueClearing, 6),
    row(Role::Receiver, Point::QueueEnding, 4),
    row(Role::Receiver, Point::RingMade, 4),
    row(Role::Receiver, Point::GroupHalfShown, 4),
    row(Role::Receiver, Point::DomainAlone, 2),
    row(Role::Receiver, Point::DomainLocked, 4),
    row(Role::Joiner, Point::FolderMade, 1),
    row(Role::Joiner, Point::AliveLocked, 1),
    row(Role::Joiner, Point::SlotLocked, 1),
    row(Role::Leaver, Point::SlotFreed, 1),
    row(Role::Leaver, Point::AliveAlone, 1),
    row(Role::Leaver, Point::FileRemoved, 1),
    row(Role::Leaver, Point::FilesRemoved, 1),
    closed(Role::Poster, Point::PeerOpened, 1),
    closed(Role::Poster, Point::Asked, 40),
    closed(Role::Poster, Point::Filled, 40),
    closed(Role::Faulter, Point::Failed, 1),
    closed(Role::Receiver, Point::RequestRead, 40),
    closed(Role::Receiver, Point::RequestDone, 40),
    closed(Role::Receiver, Point::LockHeld, 4),
    closed(Role::Receiver, Point::Filled, 20),
    closed(Role::Receiver, Point::Taking, 40),
    closed(Role::Receiver, Point::CopyBegun, 40),
    closed(Role::Receiver, Point::MrOdd, 6),
    // These rows repeat points where many requests are outstanding, with a wider range of passes.
    row(Role::Poster, Point::SlotClaimed, 200),
    row(Role::Poster, Point::BeforeCopy, 200),
    row(Role::Poster, Point::Filled, 200),
    row(Role::Receiver, Point::Taking, 200),
    // Further steps of a post, a poll, a revocation and a destroy.
    row(Role::Poster, Point::PostBegun, 40),
    row(Role::Poster, Point::ResponderChecked, 40),
    row(Role::Poster, Point::RegionChecked, 20),
    row(Role::Poster, Point::Announced, 20),
    row(Role::Poster, Point::EventWritten, 4),
    row(Role::Poster, Point::ListEnds, 40),
    row(Role::Poster, Point::PollBegun, 40),
    row(Role::Poster, Point::SendTaken, 40),
    row(Role::Poster, Point::PollEnds, 40),
    row(Role::Receiver, Point::RecvCounted, 40),
    row(Role::Receiver, Point::RecvPosted, 40),
    row(Role::Receiver, Point::PollBegun, 40),
    row(Role::Receiver, Point::NoticeTaken, 20),
    row(Role::Receiver, Point::PayloadPlaced, 40),
    row(Role::Receiver, Point::MarkedTaken, 40),
    row(Role::Receiver, Point::RecvTaken, 40),
    row(Role::Receiver, Point::PollEnds, 40),
    row(Role::Receiver, Point::RegionChanged, 6),
    row(Role::Receiver, Point::Fenced, 6),
    row(Role::Receiver, Point::CopiesEnded, 6),
    row(Role::Receiver, Point::WindowsEnded, 4),
    row(Role::Receiver, Point::QueueClosed, 4),
    row(Role::Receiver, Point::SendsEnded, 4),
    row(Role::Receiver, Point::ReceiverEnded, 4),
    row(Role::Receiver, Point::Sweeping, 4),
    // Pairs.
    row(Role::Asker, Point::PostBegun, 200),
    row(Role::Asker, Point::CopyBegun, 200),
    row(Role::Asker, Point::ResponderChecked, 20),
    row(Role::Asker, Point::RegionChecked, 100),
    row(Role::Asker, Point::BeforeCopy, 100),
    row(Role::Asker, Point::WithinCopy, 100),
    row(Role::Asker, Point::CopyEnding, 200),
    row(Role::Asker, Point::BeforeForeign, 40),
    row(Role::Asker, Point::AfterForeign, 40),
    row(Role::Asker, Point::LockHeld, 10),
    row(Role::Asker, Point::AtomicRead, 10),
    row(Role::Asker, Point::TurnClaimed, 20),
    row(Role::Asker, Point::Entered, 100),
    row(Role::Asker, Point::PlacingBegun, 4),
    row(Role::Asker, Point::PlacingEnds, 4),
    row(Role::Asker, Point::Filled, 20),
    row(Role::Asker, Point::Done, 20),
    row(Role::Asker, Point::TurnPassed, 20),
    row(Role::Asker, Point::CarriedOut, 100),
    row(Role::Asker, Point::MarkedDone, 100),
    row(Role::Asker, Point::ListEnds, 200),
    row(Role::Asker, Point::PollBegun, 100),
    row(Role::Asker, Point::SendsSought, 100),
    row(Role::Asker, Point::TakingBegun, 20),
    row(Role::Asker, Point::RecvTaken, 20),
    row(Role::Asker, Point::SendTaken, 100),
    row(Role::Asker, Point::PollEnds, 100),
    row(Role::Asker, Point::QueueClosed, 2),
    row(Role::Owner, Point::RecvWritten, 20),
    row(Role::Owner, Point::RecvCounted, 20),
    row(Role::Owner, Point::RecvPosted, 20),
    row(Role::Owner, Point::PollBegun, 100),
    row(Role::Owner, Point::SendsSought, 100),
    row(Role::Owner, Point::PayloadPlaced, 20),
    row(Role::Owner, Point::MarkedTaken, 20),
    row(Role::Owner, Point::Taking, 20),
    row(Role::Owner, Point::RecvTaken, 20),
    row(Role::Owner, Point::SendTaken, 40),
    row(Role::Owner, Point::PollEnds, 200),
    row(Role::Owner, Point::MrOdd, 10),
    row(Role::Owner, Point::RegionChanged, 10),
    row(Role::Owner, Point::Revoked, 10),
    row(Role::Owner, Point::Fenced, 10),
    row(Role::Owner, Point::CopiesEnded, 10),
    row(Role::Owner, Point::ErrShown, 2),
    row(Role::Owner, Point::Settled, 2),
    row(Role::Owner, Point::Resetting, 2),
    row(Role::Owner, Point::WindowsEnded, 2),
    row(Role::Owner, Point::QueueEnding, 2),
    row(Role::Owner, Point::QueueClosed, 2),
    row(Role::Owner, Point::SendsEnded, 2),
    row(Role::Owner, Point::ReceiverEnded, 2),
    row(Role::Owner, Point::Sweeping, 2),
    row(Role::Owner, Point::AtomicRead, 10),
    row(Role::Owner, Point::LockHeld, 10),
];
