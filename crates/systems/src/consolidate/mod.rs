//! IO consolidation: small writes of a remote region that are held back, and posted block by block (CLUSTER'21, III-C, its "remote burst
//! buffer").
//!
//! [`Consolidator`] is the piece for other programs; [`Consolidate`] a benchmark of it. An aligned block of S bytes is posted once it has
//! been modified theta times, or held for the time-out. The modifications are in the writer's memory until then.
//!
//! **What is posted** follows from who else writes the block ([`Holding`]). Only who holds a block exclusively may write all of it: of 16
//! random modifications of 32 bytes only 40% of 1 kB are new, and the rest may be another's by now. Of a shared block only the bytes that were
//! written are posted, each span a WRITE of its own, all with one doorbell. SGEs would be of no use: they gather at one end, and spans lie apart at both.
//!
//! **What is seen.** A writer reads what it wrote. Others see a modification when its block has been posted, and of several modifications of
//! the same bytes in between the last one only. Blocks are posted in the order in which they became full or timed out: of modifications of
//! two blocks, the later may be at the target without the earlier. [`Consolidator::flush`] is where order is made: the device places WRITEs
//! of a QP in the order in which they were posted, so what is written after it is at the target after all that was written before.
//!
//! **What is lost** when the writer's machine stops: of each block all that was written since its last post that has completed. That is what it
//! holds, at most theta - 1 modifications for at most the time-out (if the program's loop polls), and what was posted and had not completed. What
//! [`Consolidator::fence`] has returned for is at the target. Other blocks lose nothing by it, and no block is left with bytes that nobody wrote.

mod config;
mod consolidator;
mod deployment;
mod frames;
mod protocol;
mod rules;
mod spans;

pub use config::Consolidate;
pub use consolidator::{Completed, Consolidator, Polled};
pub use protocol::{ConsolidateClient, SERVICE};
pub use rules::{Holding, Rules};
