//! Tracing of a run: operations, resources and packets.
//!
//! The dispatcher shows events and MMIO writes to a [`Tracer`], and the provider shows it posts and polls.
//! The tracer reads state and changes nothing. `events` handles events, `operations` holds the work requests
//! in flight, `way` the stages of each. `follower` joins the messages of an operation. `tracks` lays out the
//! trace, `perfetto` and `pcapng` write the formats, and `file` keeps errors of files.

mod events;
mod file;
mod follower;
mod operations;
mod pcapng;
mod perfetto;
mod tracer;
mod tracks;
mod way;

pub use follower::PathsOf;
pub(crate) use tracer::Tracer;
pub use tracer::{Traced, Tracing};
pub use way::{KeptPath, OperationStage, PathStage, StageKind, Wait as StageWait};
