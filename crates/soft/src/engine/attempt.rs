//! What a try to carry a work request out comes to.

use doorbell_verbs::WcStatus;

/// What became of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is complete.
    Done(WcStatus),
    /// It is complete with success, as nobody hears otherwise on UC and UD, but its message was not taken.
    Undelivered,
    /// It is to be tried again.
    Wait(Obstacle),
}

/// What a try to carry a work request out came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It is over.
    Over(Outcome),
    /// It is gathered, with others of its list.
    Gathered,
    /// Nothing was done: what is gathered comes first.
    AfterGathered,
}

/// Why a work request could not be carried out yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The responder had no RECV; it asks to wait as long as its timer code says.
    NoRecv(u8),
    /// Nobody answers.
    Silence,
}
