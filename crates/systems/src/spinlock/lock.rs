//! What all designs have in common.

use crate::{Interval, SystemError};
use doorbell_verbs::Provider;

/// A way to lock, as threads are told of it.
pub trait Design: Clone + std::fmt::Debug + Send + 'static {
    /// A thread's way to the locks.
    type Lock<P: Provider>: Lock;

    /// That of client `number`; returns when the server is ready.
    ///
    /// # Errors
    /// If a verb fails.
    fn open<P: Provider>(&self, cpu: &P, number: u32) -> Result<Self::Lock<P>, SystemError>;
}

/// A thread's way to the locks. What is under way when `interval` ends is given up: its answer is then that of a failure.
pub trait Lock {
    /// Asks once for a lock; whether this thread has it now.
    ///
    /// # Errors
    /// If a verb fails.
    fn attempt(&mut self, lock: u32, interval: &Interval) -> Result<bool, SystemError>;

    /// Reads what a lock guards that this thread has; whether it did.
    ///
    /// # Errors
    /// If a verb fails.
    fn read(&mut self, lock: u32, into: &mut [u8], interval: &Interval) -> Result<bool, SystemError>;

    /// Writes what a lock guards, where that is anything, and gives it back; whether both hold: another may have taken it over.
    ///
    /// # Errors
    /// If a verb fails, or the lock is another's that has no lease.
    fn release(&mut self, lock: u32, data: &[u8], interval: &Interval) -> Result<bool, SystemError>;
}
