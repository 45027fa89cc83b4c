//! Results of an attempt to carry out a work request.

use doorbell_launch::counts::drops::DropCause;
use doorbell_verbs::WcStatus;

/// The result of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The work request is complete.
    Done(WcStatus),
    /// The message was not received. The work request completes with success, because UC and UD report no
    /// such failure. The cause is `Unknown` if no QP took the message: the failed check is found afterwards.
    Undelivered(DropCause),
    /// The work request must be retried.
    Wait(Obstacle),
}

/// The result of an attempt to carry out a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The attempt has ended with this result of the work request.
    Over(Outcome),
    /// The work request is gathered with others of its post list.
    Gathered,
    /// Nothing was done: the work requests that were gathered before must be carried out first.
    AfterGathered,
}

/// Why a work request could not be carried out yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The responder had no RECV. The value is its RNR timer code (`min_rnr_timer`, 0 to 31), which sets the
    /// wait.
    NoRecv(u8),
    /// No answer comes, because no responder takes the message.
    Silence,
    /// No answer comes, for a reason that a NIC does not have: another process is changing a record, does not
    /// serve its memory now, or holds a lock. The request may succeed before its time-out.
    Delay,
    /// The responder's program is taking an earlier message, which the request must not overtake. This wait
    /// has no limit and uses up no retry, because a NIC would answer.
    Taking,
}
