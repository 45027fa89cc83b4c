//! Points in the code where a test may stop or kill a process, or take its files or memory away, while an
//! operation is half done. The soak test (`tests/soak`) does so; other builds contain nothing of them.

/// A point, named by the step that was just done or is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    // Points of the process that posts.
    /// A copy has begun, and its rights are not checked yet.
    CopyBegun,
    /// Mapped memory is about to be written.
    BeforeCopy,
    /// Some bytes of a message have been copied, and not all.
    WithinCopy,
    /// A copy is done, and has not ended for processes that wait for it.
    CopyEnding,
    /// Bytes are about to be moved to or from another process, or have been.
    BeforeForeign,
    AfterForeign,
    /// A word of another process has been read, and not yet written.
    AtomicRead,
    /// The lock of an atomic is held.
    LockHeld,
    /// A RECV is claimed: in the turn, or in its slot.
    TurnClaimed,
    SlotClaimed,
    /// The completion of a request is in its CQ, and the responder sees nothing of the request yet.
    Entered,
    /// The request is carried out and not marked as done, or marked and its CQ's program not notified.
    CarriedOut,
    MarkedDone,
    /// A carried payload is being placed: nothing of it is in the RECV's buffers yet, or all of it is.
    PlacingBegun,
    PlacingEnds,
    /// The result of a RECV is written and not yet published.
    Filled,
    /// A RECV is done: the turn has not passed on, its CQ is not notified, its event is not written.
    Done,
    TurnPassed,
    CellWritten,
    Disarmed,
    /// The responder is in Err: its program is not notified, and its RECVs are not flushed or only partly.
    Failed,
    Flushing,
    /// A peer is opened and not yet watched.
    PeerOpened,
    /// A request was sent to the thread of another process, which has not answered yet.
    Asked,

    // Points of the process that receives.
    /// A RECV is written and not published, or published and not in the ring that orders the slots.
    RecvWritten,
    RecvUnordered,
    /// A poll has found out which sends are done, and takes a RECV next.
    SendsSought,
    /// The copy of a payload that a completion carries is announced.
    TakingBegun,
    /// A completion is read, and its slot is not free yet.
    Taking,
    /// A region's record is being changed.
    MrOdd,
    /// Rights to memory are withdrawn, and copies may still use them. A copy is being waited for.
    Revoked,
    CopyAwaited,
    /// A QP is half created, or half modified.
    QpHalfMade,
    QpHalfChanged,
    /// An attachment to a multicast group is written and not published.
    GroupHalfShown,
    /// An XRC domain is locked, exclusively or shared, and not yet known to be open.
    DomainAlone,
    DomainLocked,
    /// A QP is being reset. Its state is reset but its receive queue is not, or the queue only has a new
    /// generation.
    Resetting,
    QueueClearing,
    /// A receive queue is being destroyed.
    QueueEnding,
    /// A ring is made and not published.
    RingMade,
    /// The request of another process is read and not carried out, or carried out and not answered.
    RequestRead,
    RequestDone,

    // Points of a process that joins or leaves a fabric.
    /// The folder is made, and has no file yet.
    FolderMade,
    /// The fabric is joined, and its registry is not open yet.
    AliveLocked,
    /// A slot is locked and not yet written.
    SlotLocked,
    /// The slot is released, and the fabric is not removed yet.
    SlotFreed,
    /// No process may join: no file is removed yet, one file is, or all are except the folder.
    AliveAlone,
    FileRemoved,
    FilesRemoved,
}

/// Does nothing outside tests.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn reach(_: Point) {}

#[cfg(test)]
pub(crate) use armed::{arm, reach};

#[cfg(test)]
mod armed {
    use super::Point;
    use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

    /// More than there are points.
    const POINTS: usize = 64;
    const _: () = assert!((Point::FilesRemoved as usize) < POINTS, "the last point");
    /// For each point: how many times it is still to be reached, 0 if it is not armed, and the armed action:
    /// a function without arguments.
    static LEFT: [AtomicU32; POINTS] = [const { AtomicU32::new(0) }; POINTS];
    static WHAT: [AtomicUsize; POINTS] = [const { AtomicUsize::new(0) }; POINTS];

    /// Arms `what`, which runs once, when the point is reached for the `nth` time.
    pub(crate) fn arm(point: Point, nth: u32, what: fn()) {
        WHAT[point as usize].store(what as usize, SeqCst);
        LEFT[point as usize].store(nth, SeqCst);
    }

    pub(crate) fn reach(point: Point) {
        let left = &LEFT[point as usize];
        if left.load(Relaxed) == 0 || left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)) != Ok(1) {
            return;
        }
        // SAFETY: `arm` stored a function of this type before it stored the number.
        let what: fn() = unsafe { std::mem::transmute(WHAT[point as usize].load(SeqCst)) };
        what();
    }
}
