//! What is seen of a run: a trace of operations and resources, and the packets.
//!
//! A [`Tracer`] is told of events and MMIOs by the dispatcher, and of posts and polls by the provider; it looks and
//! changes nothing. `events` has what it sees of each event, `operations` knows which work requests are under way, `way` what each goes through, `tracks`
//! where that is shown, `perfetto` and `pcapng` how files are written, `file` what becomes of their errors.

mod events;
mod file;
mod operations;
mod pcapng;
mod perfetto;
mod tracer;
mod tracks;
mod way;

pub(crate) use tracer::Tracer;
pub use tracer::{Traced, Tracing};
