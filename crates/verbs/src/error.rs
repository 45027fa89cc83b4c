//! What a verb can refuse.

use thiserror::Error;

/// Why a verb was refused at the call; each has the errno that libibverbs returns for it.
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

/// A posted list was refused from work request `index` on; those before it were posted
/// (`bad_wr` of ibv_post_send(3)).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("work request {index}: {cause}")]
pub struct PostError {
    /// Index in the list of the first work request that was not posted; 0 where the provider does
    /// not tell.
    pub index: usize,
    /// Why.
    pub cause: VerbsError,
}
