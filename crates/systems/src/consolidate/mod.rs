//! IO consolidation: small writes to a remote region are held back and posted block by block (CLUSTER'21,
//! III-C, its "remote burst buffer").
//!
//! [`Consolidator`] is the component for other programs, and [`Consolidate`] is a benchmark of it.
//!
//! Terms:
//! - A *modification* is a small write of the program.
//! - A *block* has S bytes of the remote region, and is aligned to S.
//! - A *held* modification is in the writer's memory only.
//! - A *span* is a run of written bytes in a block.
//!
//! A block is posted when it has been modified theta times, or has been held for the time-out.
//!
//! **Posted bytes** depend on the block's other writers ([`Holding`]).
//! - A writer that holds a block exclusively may post the whole block.
//! - If a block is shared, only the written bytes are posted. Each span is a WRITE of its own, and all WRITEs
//!   go with one doorbell. The reason is that 16 random modifications of 32 bytes renew only 40% of a block
//!   of 1 kB, and another writer may have changed the rest.
//!
//! SGEs would not help: they gather at one end, but spans are scattered at both ends.
//!
//! **Visibility.** A writer reads its own writes. Other machines see a modification once its block has been
//! posted. If bytes are modified several times before their block is posted, other machines see only the last
//! modification. Blocks are posted in the order in which they became full or timed out. So of two
//! modifications in different blocks, the later one may reach the target first. [`Consolidator::flush`] makes
//! an order: all writes before the call reach the target before all writes after the call. The reason is that
//! the device places WRITEs of a QP in the order of posting.
//!
//! **Loss.** If the writer's machine stops, each block loses everything written since its last completed
//! post:
//! - held modifications. A block has at most theta - 1 of them, for at most the time-out (if the program's
//!   loop polls);
//! - posted modifications that had not completed. Everything posted before [`Consolidator::fence`] returned
//!   is at the target.
//!
//! Other blocks lose nothing, and no block is left with bytes that nobody wrote.

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
