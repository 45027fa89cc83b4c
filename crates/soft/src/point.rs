//! Points in the code at which a test may stop or kill a process, or remove its files or memory, while an
//! operation is half done. The soak test (`tests/soak`) uses them. In builds other than tests, a point has no
//! effect.

/// A point, named by the step that was just done or is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    // Points of the process that posts.
    /// A copy has begun, and its rights are not checked yet.
    CopyBegun,
    /// Mapped memory is about to be written.
    BeforeCopy,
    /// Some bytes of a message have been copied, but not all.
    WithinCopy,
    /// A copy is done, but its copy record still shows it as running.
    CopyEnding,
    /// Bytes are about to be moved to or from another process, or have been moved.
    BeforeForeign,
    AfterForeign,
    /// An atomic has read a word of another process, and has not written it yet.
    AtomicRead,
    /// The lock of an atomic is held.
    LockHeld,
    /// A RECV is claimed, in the turn or in the RECV's slot.
    TurnClaimed,
    SlotClaimed,
    /// The completion of a request is in the requester's CQ, and the responder does not see the request yet.
    Entered,
    /// The request is carried out but not marked as done, or it is marked but the program of its CQ is not
    /// notified yet.
    CarriedOut,
    MarkedDone,
    /// A payload that a completion carried is being placed: none of it is in the RECV's buffers yet, or all
    /// of it is.
    PlacingBegun,
    PlacingEnds,
    /// The result of a RECV is written but not published yet.
    Filled,
    /// A RECV is done. From this point on, in order of the points: The turn has not passed on yet. The turn
    /// has passed on. The completion's cell is written, but the tail has not moved. The CQ is disarmed, but
    /// its event is not written.
    Done,
    TurnPassed,
    CellWritten,
    Disarmed,
    /// The responder is in Err. Its program is not notified and no RECV is flushed yet, or some RECVs are
    /// flushed.
    Failed,
    Flushing,
    /// A peer is opened but not watched yet.
    PeerOpened,
    /// A request was sent to the service thread of another process, which has not answered yet.
    Asked,

    // Points of the process that receives.
    /// A RECV is written but not published, or published but not yet in the ring that orders the slots.
    RecvWritten,
    RecvUnordered,
    /// A poll has determined which sends are done, and takes a RECV's completion next.
    SendsSought,
    /// The copy of a payload that a completion carries has been announced.
    TakingBegun,
    /// A completion is read, but its slot is not free yet.
    Taking,
    /// A region's record is being changed.
    MrOdd,
    /// Rights to memory are revoked, but copies may still use them. At the second point, the process waits
    /// for a copy.
    Revoked,
    CopyAwaited,
    /// A QP is half created, or half modified.
    QpHalfMade,
    QpHalfChanged,
    /// An attachment to a multicast group is written but not published.
    GroupHalfShown,
    /// An XRC domain is locked, exclusively or shared, but not yet recorded as open.
    DomainAlone,
    DomainLocked,
    /// A QP is being reset. Its state is Reset but its receive queue is unchanged, or the queue has only a
    /// new generation.
    Resetting,
    QueueClearing,
    /// A receive queue is being destroyed.
    QueueEnding,
    /// A ring is created but not published.
    RingMade,
    /// The request of another process is read but not carried out, or carried out but not answered.
    RequestRead,
    RequestDone,

    // Points of a process that joins or leaves a fabric.
    /// The fabric's folder is created, but has no file yet.
    FolderMade,
    /// The fabric's folder is locked, but the registry is not open yet.
    AliveLocked,
    /// A slot of the registry is locked but not written yet.
    SlotLocked,
    /// The process's slots are free, but the fabric is not removed yet.
    SlotFreed,
    /// The folder is locked exclusively, so that no process can join. No file is removed yet, or the registry
    /// is removed, or all files are removed but not the folder.
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

    /// An upper bound on the number of points.
    const POINTS: usize = 64;
    const _: () = assert!((Point::FilesRemoved as usize) < POINTS, "the last point");
    /// `LEFT` has, for each point, how many more times the point must be reached until its action runs; 0 if
    /// the point is not armed. `WHAT` has the action, a function without arguments. SeqCst, because these
    /// words are for tests alone. The Relaxed load only saves time at points that are not armed.
    static LEFT: [AtomicU32; POINTS] = [const { AtomicU32::new(0) }; POINTS];
    static WHAT: [AtomicUsize; POINTS] = [const { AtomicUsize::new(0) }; POINTS];

    /// Arms a point: `what` runs once, when the point is reached for the `nth` time from now on.
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
