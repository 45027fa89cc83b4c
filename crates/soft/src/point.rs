//! Points in the code at which a test may stop or kill a process, or remove its files or memory, while an
//! operation is half done. The soak test (`tests/soak`) uses them. In builds other than tests, a point has no
//! effect.

/// A point, named by the step that was just done or is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    // Points of the process that posts.
    /// The send queue is locked, and nothing is posted yet.
    PostBegun,
    /// A copy has begun, and its rights are not checked yet.
    CopyBegun,
    /// The responder's state is checked, but not the region.
    ResponderChecked,
    /// The region is checked, but the payloads that wait for their place in it are not placed yet.
    RegionChecked,
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
    /// A RECV is done, but the turn has not passed on.
    Done,
    /// The turn has passed on.
    TurnPassed,
    /// The cell of the notice is written, but the ring's tail has not moved.
    CellWritten,
    /// The CQ has the notice, but its program is not notified.
    Announced,
    /// The CQ is disarmed, but its event is not written.
    Disarmed,
    /// The event is written, but the CQ's record does not show that.
    EventWritten,
    /// A list of work requests ends, and its gathered requests are not carried out yet.
    ListEnds,
    /// The responder is in Err. Its program is not notified and no RECV is flushed yet, or some RECVs are
    /// flushed.
    Failed,
    Flushing,
    /// A peer is opened but not watched yet.
    PeerOpened,
    /// A request was sent to the service thread of another process, which has not answered yet.
    Asked,

    // Points of the process that receives.
    /// A RECV is written but not published.
    RecvWritten,
    /// The queue's tail has moved, but the RECV's slot is not posted.
    RecvCounted,
    /// A RECV is published but not yet in the ring that orders the slots.
    RecvUnordered,
    /// A RECV is posted, but the state of its QP is not read again.
    RecvPosted,
    /// A poll has the CQ's lock, and has not read anything.
    PollBegun,
    /// A poll has determined which sends are done, and takes a RECV's completion next.
    SendsSought,
    /// A notice is taken from the ring, but the completion that it names is not.
    NoticeTaken,
    /// The copy of a payload that a completion carries has been announced.
    TakingBegun,
    /// The payload is in the RECV's buffers, but the completion is not marked as taken.
    PayloadPlaced,
    /// The completion is marked as taken, but the end of the copy is not announced.
    MarkedTaken,
    /// A completion is read, but its slot is not free yet.
    Taking,
    /// A RECV's completion is taken, and the sends are not sought again.
    RecvTaken,
    /// A send's completion is taken, but the send queue does not have the room yet.
    SendTaken,
    /// The CQ forgets destroyed QPs without completions.
    Sweeping,
    /// The CQ's lock is about to be released, but polls without the lock still see the CQ as it was before.
    PollEnds,
    /// A region's record is being changed.
    MrOdd,
    /// A region's record is changed, but copies of the region in caches of this process are still valid.
    RegionChanged,
    /// Rights to memory are revoked, but copies may still use them.
    Revoked,
    /// The fence of a revocation is passed, but no copy record is read.
    Fenced,
    /// A revocation waits for a copy.
    CopyAwaited,
    /// All copies that a revocation waits for have ended.
    CopiesEnded,
    /// A QP's record shows Err, but copies may still run.
    ErrShown,
    /// The payloads of the RECVs of a QP in Err are placed, but no work request is flushed.
    Settled,
    /// A QP is half created, or half modified.
    QpHalfMade,
    QpHalfChanged,
    /// An attachment to a multicast group is written but not published.
    GroupHalfShown,
    /// An XRC domain is not yet recorded as open. Its lock of creation is held, or its shared lock.
    DomainAlone,
    DomainLocked,
    /// A QP is being reset. Its state is Reset but its receive queue is unchanged, or the queue has only a
    /// new generation.
    Resetting,
    QueueClearing,
    /// A receive queue is being destroyed.
    QueueEnding,
    /// The windows of a destroyed QP are gone, but the QP's record does not show the end of the QP.
    WindowsEnded,
    /// The receive queue of a destroyed QP is closed, but waiting requests still have entered completions.
    QueueClosed,
    /// The send queue of a destroyed QP is unlocked, but both CQs still use the QP.
    SendsEnded,
    /// The CQ of a destroyed QP's RECVs does not use the QP any more, but the CQ of its sends does.
    ReceiverEnded,
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
    const POINTS: usize = 128;
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
