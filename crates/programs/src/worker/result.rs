//! What a thread measured, and why it gave up.

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

/// What a thread measured from the end of the warm-up to the end of the run, beside what all saw together.
#[derive(Clone, Debug, Default)]
pub struct ThreadResult {
    /// Operations that this thread posted and saw completed, SENDs excepted.
    pub completed: u64,
    /// Messages it received.
    pub received: u64,
    /// What became of all that it posted.
    pub accounts: Accounts,
}

/// What became of the operations that a thread posted, and of the messages that came to it: whole run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accounts {
    /// Operations that it posted.
    pub posted: u64,
    /// Their payload in bytes.
    pub posted_bytes: u64,
    /// The payload in bytes of those that completed.
    pub completed_bytes: u64,
    /// Those that completed, as their own or a later completion said.
    pub completed: u64,
    /// Those of which nothing is known at the end.
    pub outstanding: u64,
    /// Messages that it received.
    pub received: u64,
    /// How long signalled operations were under way within the measured time, all together, in picoseconds.
    pub under_way: u128,
}

/// Refuses a completion that says that its work request failed.
pub(super) fn check(wc: &Wc) -> Result<(), ProgramError> {
    if wc.status == WcStatus::Success { Ok(()) } else { Err(ProgramError::Completion(wc.status)) }
}
