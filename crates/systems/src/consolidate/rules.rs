//! Rules of consolidation: which writes are held back, for how long, and how they are posted.

use crate::SystemError;
use crate::device::Device;
use crate::names::named;
use doorbell_verbs::{Provider, QpCap, Span};
use std::ops::Range;

named! {
    /// Whether other writers write to a writer's blocks.
    Holding {
        /// No other writer: a block is posted whole, by one WRITE. Two writers of a block that both choose
        /// this undo each other's modifications.
        Exclusive = "exclusive",
        /// Other writers may write other bytes of the blocks. Only written bytes are posted, each span by a
        /// WRITE, with one doorbell.
        Shared = "shared",
    }
}

/// Rules of consolidation: which writes are held back, for how long, and how they are posted.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Bytes of a block, the paper's S. The first block begins at the start of the region.
    pub block: u32,
    /// A block is posted after this many modifications, the paper's theta. With 1, nothing is held back.
    pub theta: u32,
    /// Time for which a block with fewer modifications is held before it is posted.
    pub timeout: Span,
    /// Whether other writers write to the blocks.
    pub holding: Holding,
    /// Maximum number of held blocks. Before one more block is held, the block that was held longest is
    /// posted.
    pub held: u32,
    /// Maximum number of blocks and direct writes that are posted and have not completed.
    pub outstanding: u32,
    /// The hint: bytes of the region whose writes are consolidated; empty for all. A block with a marked byte
    /// is consolidated as a whole, and writes to other blocks go direct.
    pub marked: Vec<Range<u64>>,
}

impl Rules {
    /// Maximum number of WRITEs in a post.
    pub(super) fn writes(&self) -> u32 {
        match self.holding {
            Holding::Exclusive => 1,
            Holding::Shared => self.theta.min(self.block.div_ceil(2)).max(1),
        }
    }

    /// Capacities that a connected QP needs for these rules and for WRITEs of up to `inline` bytes inline.
    /// The QP's CQ needs room for `outstanding` completions.
    pub fn cap<P: Provider>(&self, device: &Device<P>, inline: u32) -> QpCap {
        let most = device.attr.max_qp_wr.max(1);
        QpCap {
            max_send_wr: self.writes().saturating_mul(self.outstanding).min(most),
            max_recv_wr: 1,
            max_inline_data: device.inline(inline),
            ..QpCap::default()
        }
    }

    /// Checks that a consolidator with these rules can write to a region of `region` bytes over a send queue
    /// of `queue` work requests.
    ///
    /// # Errors
    /// One sentence if it cannot.
    pub(super) fn check(&self, region: u64, queue: u32) -> Result<(), SystemError> {
        let Rules { block, theta, held, outstanding, .. } = self;
        if [*block, *theta, *held, *outstanding].contains(&0) {
            return SystemError::config(
                "block, theta, held and outstanding of a consolidator must be at least 1",
            );
        }
        if region == 0 || !region.is_multiple_of(u64::from(*block)) {
            return SystemError::config(format!(
                "a region of {region} bytes does not consist of blocks of {block} bytes"
            ));
        }
        if self.writes() > queue {
            return SystemError::config(format!(
                "a block may need {} WRITEs, but the send queue has {queue} slots",
                self.writes()
            ));
        }
        Ok(())
    }

    /// Whether writes to a block are held back.
    pub(super) fn holds(&self, block: u64) -> bool {
        let (begin, end) = (block * u64::from(self.block), (block + 1) * u64::from(self.block));
        let marked = self.marked.iter().any(|range| range.start.max(begin) < range.end.min(end));
        self.theta > 1 && (self.marked.is_empty() || marked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_with_a_marked_byte_is_consolidated() {
        let rules = |theta, marked| Rules {
            block: 100,
            theta,
            timeout: Span::from_us(1),
            holding: Holding::Shared,
            held: 1,
            outstanding: 1,
            marked,
        };
        let held = |rules: Rules| -> Vec<u64> { (0..6).filter(|block| rules.holds(*block)).collect() };
        assert_eq!(held(rules(2, vec![150..151, 299..401])), [1, 2, 3, 4]);
        assert_eq!(held(rules(2, vec![200..300, 450..450])), [2]);
        assert_eq!(held(rules(2, Vec::new())), [0, 1, 2, 3, 4, 5]);
        assert!(held(rules(1, Vec::new())).is_empty());
    }
}
