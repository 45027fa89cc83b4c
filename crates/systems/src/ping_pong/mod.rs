//! Ping-pong, like perftest's latency tests (`ib_write_lat`, `ib_send_lat`, `ib_read_lat`). Each side waits
//! for the peer's message, and answers with a message of equal length.
//!
//! A WRITTEN message counts as arrived when its last byte is visible. This relies on the last byte of a WRITE
//! becoming visible last. No specification promises this. Latencies are half a round trip. The latency of a
//! READ is a whole round trip, because the peer does not answer. If UC or UD loses a message, the exchange
//! stops, because messages are not repeated.

mod config;
mod deployment;
mod protocol;

pub use config::{Message, PingPong};
pub use protocol::{PingPongClient, PingPongServer};
