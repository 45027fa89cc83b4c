//! The interface of both stacks to the two programs. A request consists of its number, and a response is a
//! buffer.

use crate::{Interval, SystemError};

/// Bytes of a request.
pub(super) const REQUEST: u32 = 8;

/// The server's end of a connection.
pub(super) trait Serving {
    /// Waits for the next request and returns its number. Returns `None` if the interval ends or the client
    /// leaves.
    fn next(&mut self, interval: &Interval) -> Result<Option<u64>, SystemError>;

    /// Sends the buffer. The buffer must not change until the next request has arrived.
    fn respond(&mut self) -> Result<(), SystemError>;
}

/// The client's end of a connection.
pub(super) trait Asking {
    /// Sends the request with this number.
    fn ask(&mut self, number: u64) -> Result<(), SystemError>;

    /// Waits for the whole response. Returns whether it arrived within the interval.
    fn answered(&mut self, interval: &Interval) -> Result<bool, SystemError>;
}
