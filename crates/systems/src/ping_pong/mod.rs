//! Ping-pong, as the latency tests of perftest have it (`ib_write_lat`, `ib_send_lat`, `ib_read_lat`): each side waits for the
//! other's message and answers with one as long.
//!
//! A message that is WRITTEN has come when its last byte has; that a WRITE becomes visible with its last byte last is what such
//! programs rely on, and no specification promises it. Times are half a round trip, of READs, which nobody answers, a whole
//! one. Of what UC or UD loses nothing is sent again: it would be the last message.

mod config;
mod deployment;
mod protocol;

pub use config::{Message, PingPong};
pub use protocol::{PingPongClient, PingPongServer};
