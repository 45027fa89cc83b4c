//! Parameters of IO consolidation.

use super::rules::{Holding, Rules};
use crate::config::{Clients, Timing};
use doorbell_schema::{Duration, Field, schema};

/// Maximum number of a client's blocks, and maximum bytes of all clients' blocks.
const MOST_BLOCKS: u64 = 1 << 16;
const LARGEST: u64 = 1 << 28;

schema! {
    /// Small writes that are held back.
    pub struct Consolidate {
        groups {
            /// Clients, each a thread with a QP and blocks of its own. Their outstanding operations are
            /// posts.
            clients: Clients,
            /// When the run measures.
            timing: Timing,
        }
        /// Bytes of an aligned block whose writes are held back together, the paper's S.
        block: u32 = Field::bytes(8, 1 << 20),
        /// Modifications of a block after which it is posted; with 1 each write is posted at once.
        theta: u32 = Field::count(1, 4096),
        /// Age of the oldest modification at which a block with fewer modifications is posted.
        time_out: Duration = Field::positive_time(),
        /// Bytes of a write, which is aligned to its size.
        modification: u32 = Field::bytes(1, 1 << 20),
        /// Blocks of a client. Each write goes to a random one.
        blocks: u32 = Field::count(1, MOST_BLOCKS),
        /// Other writers of a block: none, so that it is posted whole; or some, so that only written bytes
        /// are posted.
        holding: Holding = Field::name(Holding::NAMES),
        /// A hint: the first blocks, this many, are consolidated, and writes to other blocks go direct; 0 for
        /// all.
        marked: u32 = Field::count(0, MOST_BLOCKS),
    }
}

impl Consolidate {
    /// Bytes of a client's blocks.
    pub(super) fn region(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.block)
    }

    /// Rules for a client's writes.
    pub(super) fn rules(&self) -> Rules {
        let marked = u64::from(self.marked) * u64::from(self.block);
        Rules {
            block: self.block,
            theta: self.theta,
            timeout: self.time_out.span(),
            holding: self.holding,
            held: self.blocks,
            outstanding: self.clients.outstanding,
            marked: if self.marked == 0 { Vec::new() } else { std::iter::once(0..marked).collect() },
        }
    }

    /// Returns one sentence if parameters do not go together.
    pub(super) fn refuse(&self) -> Result<(), String> {
        let Consolidate { block, theta, modification, blocks, marked, clients, .. } = self;
        if !block.is_multiple_of(*modification) {
            return Err(format!(
                "block is {block}, but must be a multiple of a write's {modification} bytes (modification)"
            ));
        }
        if marked > blocks {
            return Err(format!("{marked} blocks are marked, but there are only {blocks}"));
        }
        if *theta == 1 && *marked > 0 {
            return Err(format!(
                "{marked} blocks are marked for consolidation, but with theta 1 each write is posted at \
                 once: use a theta of at least 2"
            ));
        }
        let all = self.region().saturating_mul(clients.clients.into());
        if all > LARGEST {
            return Err(format!(
                "the blocks of all clients take {all} bytes, but at most {LARGEST} are possible"
            ));
        }
        if clients.windows {
            return Err("consolidate has no windows: a client writes as soon as there is room".into());
        }
        Ok(())
    }
}
