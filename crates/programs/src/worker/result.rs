//! Measurements of a thread, and the errors that stop it.

use doorbell_verbs::{PostError, VerbsError, Wc, WcStatus};
use thiserror::Error;

/// Why a thread gave up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProgramError {
    /// A verb was refused.
    #[error("{0}")]
    Verbs(#[from] VerbsError),
    /// A post was refused.
    #[error("{0}")]
    Post(#[from] PostError),
    /// A work request failed.
    #[error("a work request completed with {0:?}")]
    Completion(WcStatus),
}

/// Measurements of one thread in the measured time, in addition to the series that all threads share.
#[derive(Clone, Debug, Default)]
pub struct ThreadResult {
    /// Number of completed operations of this thread, without SENDs.
    pub completed: u64,
    /// Messages received by this thread.
    pub received: u64,
    /// Account of all operations that this thread posted.
    pub accounts: Accounts,
}

/// Account of the operations that a thread posted, and of the messages sent to it, over the whole run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accounts {
    /// Operations that the thread posted.
    pub posted: u64,
    /// Payload of the posted operations in bytes.
    pub posted_bytes: u64,
    /// Payload of the completed operations in bytes.
    pub completed_bytes: u64,
    /// Operations that completed, by their own completion or a later one.
    pub completed: u64,
    /// Operations that were outstanding at the end.
    pub outstanding: u64,
    /// Messages that the thread received.
    pub received: u64,
    /// Sum over signalled operations: the part of the measured time in which the operation was outstanding,
    /// in picoseconds.
    pub under_way: u128,
}

/// Refuses a completion that reports a failed work request.
pub(super) fn check(wc: &Wc) -> Result<(), ProgramError> {
    if wc.status == WcStatus::Success { Ok(()) } else { Err(ProgramError::Completion(wc.status)) }
}
