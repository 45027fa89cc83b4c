//! Ping-pong, like perftest's latency tests (`ib_write_lat`, `ib_send_lat`, `ib_read_lat`). Each side waits
//! for the peer's message, and answers with a message of equal length.
//!
//! A WRITTEN message has arrived when its last byte has. Such programs rely on a WRITE's last byte to become
//! visible last, which no specification promises. Times are half a round trip. READs are not answered, so
//! their times are a whole round trip. A message that UC or UD loses is not sent again, so it is the last
//! message.

mod config;
mod deployment;
mod protocol;

pub use config::{Message, PingPong};
pub use protocol::{PingPongClient, PingPongServer};
