//! Errors of verbs.

use thiserror::Error;

/// The reason why a call was refused. Each has the errno that libibverbs returns for it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VerbsError {
    /// An argument is out of range or does not fit the object's state (EINVAL).
    #[error("invalid: {0}")]
    Invalid(String),
    /// A queue is full, or an allocation failed (ENOMEM).
    #[error("no room: {0}")]
    NoRoom(String),
    /// The device does not offer this (EOPNOTSUPP).
    #[error("not supported: {0}")]
    Unsupported(String),
    /// The device or port does not exist (ENODEV).
    #[error("no such device: {0}")]
    NoDevice(String),
    /// Any other errno of the provider.
    #[error("{what} failed: {}", std::io::Error::from_raw_os_error(*errno))]
    Errno {
        /// The verb that failed.
        what: &'static str,
        /// The errno it returned.
        errno: i32,
    },
}

/// A posted list was refused from work request `index` on. The earlier work requests were posted (`bad_wr` of
/// ibv_post_send(3)).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("work request {index}: {cause}")]
pub struct PostError {
    /// Index in the list of the first work request that was not posted; 0 if the provider does not know.
    pub index: usize,
    /// The reason.
    pub cause: VerbsError,
}
