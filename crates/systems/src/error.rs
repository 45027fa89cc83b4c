//! Why a thread of a system gives up.

use doorbell_verbs::{PostError, SocketError, VerbsError, WcStatus};
use thiserror::Error;

/// Why a thread of a system gives up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SystemError {
    /// A verb was refused.
    #[error("{0}")]
    Verbs(#[from] VerbsError),
    /// A post was refused.
    #[error("{0}")]
    Post(#[from] PostError),
    /// A call on a socket failed.
    #[error("{0}")]
    Socket(#[from] SocketError),
    /// A work request failed.
    #[error("a work request completed with {0:?}")]
    Completion(WcStatus),
    /// Parameters do not fit together.
    #[error("{0}")]
    Config(String),
    /// A peer sent something that the protocol forbids.
    #[error("{0}")]
    Protocol(String),
    /// The thread was asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// An expected event did not happen in time.
    #[error("{0}")]
    Timeout(String),
}

impl SystemError {
    pub(crate) fn config<T>(text: impl Into<String>) -> Result<T, SystemError> {
        Err(SystemError::Config(text.into()))
    }
}
