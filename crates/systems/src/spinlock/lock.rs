//! The interface of all designs.

use crate::{Interval, SystemError};
use doorbell_verbs::Provider;

/// A design of locks, as it is passed to clients.
pub trait Design: Clone + std::fmt::Debug + Send + 'static {
    /// A client's access to the locks.
    type Lock<P: Provider>: Lock;

    /// Opens the locks for client `number`. Returns when the server is ready.
    ///
    /// # Errors
    /// If a verb fails.
    fn open<P: Provider>(&self, cpu: &P, number: u32) -> Result<Self::Lock<P>, SystemError>;
}

/// A client's access to the locks. An operation that is outstanding when `interval` ends is given up, and
/// returns a failure.
pub trait Lock {
    /// Tries once to acquire a lock. Returns whether this client holds it now.
    ///
    /// # Errors
    /// If a verb fails.
    fn attempt(&mut self, lock: u32, interval: &Interval) -> Result<bool, SystemError>;

    /// Reads the data of a lock that this client holds. Returns whether it could.
    ///
    /// # Errors
    /// If a verb fails.
    fn read(&mut self, lock: u32, into: &mut [u8], interval: &Interval) -> Result<bool, SystemError>;

    /// Writes the data of a lock, if there is any, and releases the lock. Returns whether both succeeded:
    /// another client may have taken the lock over.
    ///
    /// # Errors
    /// If a verb fails, or another client has this lock although it has no lease.
    fn release(&mut self, lock: u32, data: &[u8], interval: &Interval) -> Result<bool, SystemError>;
}
