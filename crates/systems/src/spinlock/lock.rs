//! The interface of all designs.

use crate::{Interval, SystemError};
use doorbell_verbs::Provider;

/// A design of locks. Each client gets a clone.
pub trait Design: Clone + std::fmt::Debug + Send + 'static {
    /// A client's access to the locks.
    type Lock<P: Provider>: Lock;

    /// Opens the locks for client `number`. Returns when the server is ready.
    ///
    /// # Errors
    /// If a verb fails.
    fn open<P: Provider>(&self, cpu: &P, number: u32) -> Result<Self::Lock<P>, SystemError>;
}

/// A client's access to the locks. When `interval` ends, a call gives up its outstanding operation and
/// returns false.
pub trait Lock {
    /// Tries once to acquire a lock. Returns whether this client holds it now.
    ///
    /// # Errors
    /// If a verb fails.
    fn attempt(&mut self, lock: u32, interval: &Interval) -> Result<bool, SystemError>;

    /// Reads the data of a lock that this client holds. Returns whether it read the data.
    ///
    /// # Errors
    /// If a verb fails.
    fn read(&mut self, lock: u32, into: &mut [u8], interval: &Interval) -> Result<bool, SystemError>;

    /// Writes the data of a lock, if there is any, and releases the lock. Returns false if another client has
    /// taken the lock over.
    ///
    /// # Errors
    /// If a verb fails, or another client has this lock although it has no lease.
    fn release(&mut self, lock: u32, data: &[u8], interval: &Interval) -> Result<bool, SystemError>;
}
