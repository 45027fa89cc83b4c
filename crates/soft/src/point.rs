//! Points in the code where a process may be caught: stopped, killed, or left without files or memory, with something
//! begun and not ended. The soak test (`tests/soak`) catches it there; otherwise nothing is left of them.

/// What has just been done, or is about to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    // Of who posts.
    /// Memory that is mapped is about to be written to.
    BeforeCopy,
    /// All but the last word of a message has been copied.
    BeforeLastWord,
    /// Bytes are about to be moved to or from another process, or have been.
    BeforeForeign,
    AfterForeign,
    /// A word of another process's has been read, and not written.
    AtomicRead,
    /// The lock of an atomic is held.
    LockHeld,
    /// A RECV is claimed: in the turn, or in its slot.
    TurnClaimed,
    SlotClaimed,
    /// What came of a RECV is written and not shown.
    Filled,
    /// A RECV is done: the turn has not passed on, its CQ is not told, its event is not written.
    Done,
    TurnPassed,
    CellWritten,
    Disarmed,
    /// The responder is in Err: its program is not told, its RECVs are not flushed, or one of them is being.
    Failed,
    Flushing,
    /// A peer is opened and not watched.
    PeerOpened,
    /// The thread of another process has been asked, whose answer is not here.
    Asked,

    // Of who receives.
    /// A RECV is written and not shown, or shown and not in the ring that orders the slots.
    RecvWritten,
    RecvUnordered,
    /// A completion is read and its slot not free.
    Taking,
    /// A region's record is being changed.
    MrOdd,
    /// A QP is half made, or half changed.
    QpHalfMade,
    QpHalfChanged,
    /// An attachment to a multicast group is written and not shown.
    GroupHalfShown,
    /// An XRC domain is locked, as by its only process or as by one of several, and not known to be open.
    DomainAlone,
    DomainLocked,
    /// A QP is being reset: its state is, its receive queue is not; or that has another generation and nothing else.
    Resetting,
    QueueClearing,
    /// A receive queue is being destroyed.
    QueueEnding,
    /// A ring is made and not shown.
    RingMade,
    /// Another process's request is read, and not carried out; or is carried out, and not answered.
    RequestRead,
    RequestDone,

    // Of who joins a fabric or leaves it.
    /// The folder is made, and has no file.
    FolderMade,
    /// The fabric is joined, its registry is not open.
    AliveLocked,
    /// A slot is locked and not written.
    SlotLocked,
    /// The slot is given back, the fabric is not removed.
    SlotFreed,
    /// Nobody may join: no file is removed yet, one is, all are but for the folder.
    AliveAlone,
    FileRemoved,
    FilesRemoved,
}

/// Nothing, but in tests.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn reach(_: Point) {}

#[cfg(test)]
pub(crate) use armed::{arm, reach};

#[cfg(test)]
mod armed {
    use super::Point;
    use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

    /// The point, plus 1, at which something is done, and how often it is passed before.
    static POINT: AtomicU32 = AtomicU32::new(0);
    static LEFT: AtomicU32 = AtomicU32::new(0);
    /// What is done: a function without arguments.
    static WHAT: AtomicUsize = AtomicUsize::new(0);

    /// From now on `what` is done once, when the point is reached for the `nth` time.
    pub(crate) fn arm(point: Point, nth: u32, what: fn()) {
        WHAT.store(what as usize, SeqCst);
        LEFT.store(nth, SeqCst);
        POINT.store(point as u32 + 1, SeqCst);
    }

    pub(crate) fn reach(point: Point) {
        if POINT.load(Relaxed) != point as u32 + 1 || LEFT.fetch_sub(1, SeqCst) != 1 {
            return;
        }
        POINT.store(0, SeqCst);
        // SAFETY: stored from a function of this type before the point was.
        let what: fn() = unsafe { std::mem::transmute(WHAT.load(SeqCst)) };
        what();
    }
}
