//! Steps of operations, which programs mark for a tracer.

use crate::Time;

/// The number by which threads of several machines name one operation. Operations that are outstanding at one
/// time have different numbers. 0 names no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationKey(pub u64);

/// A step of an operation that consists of messages and of work of threads. Each message follows from the
/// thread's steps before it, so the steps connect the messages that cause each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationStep {
    /// The thread begins to prepare the operation's first message.
    Begins,
    /// The next call that posts work requests posts one for this operation. If a list has work requests for
    /// several operations, the thread marks a step for each work request, in their order.
    Posts,
    /// The thread has found the message that was posted last for the operation.
    Finds,
    /// The thread has polled the completion of the work request that was posted last for the operation.
    Completes,
    /// The operation has ended.
    Ends {
        /// When the operation's latency began.
        since: Time,
    },
}
