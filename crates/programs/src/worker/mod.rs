//! The programs of a workload: one poll loop per thread, written on verbs alone.

mod mailboxes;
mod pacing;
mod program;
mod requester;
mod responder;
mod result;
mod ring;
mod session;
mod slots;
mod tally;
mod thread;

pub use mailboxes::Mailboxes;
pub use pacing::Due;
pub use result::{Accounts, ProgramError, ThreadResult};
pub use session::buffers;
pub use tally::{OfKind, Tally};
pub use thread::Worker;
