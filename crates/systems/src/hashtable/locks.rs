//! A front-end's view of the locks of the blocks.

use super::table::TableLayout;
use crate::spinlock::Leased;
use crate::spinlock::word::Word;

/// A front-end's view of the locks: each block's word as it was seen last, or left.
pub(super) struct BlockLocks {
    pub(super) leased: Leased,
    /// This front-end, as words name it.
    pub(super) holder: u32,
    pub(super) known: Vec<Word>,
    /// Whether something of this front-end asks for a block's lock, or has it: what is late of one would else be WRITTEN
    /// where the other has published.
    asked: Vec<bool>,
}

impl BlockLocks {
    /// As all are at first, of so many blocks.
    pub(super) fn new(leased: Leased, holder: u32, blocks: u32) -> BlockLocks {
        let (known, asked) = (vec![Word::default(); blocks as usize], vec![false; blocks as usize]);
        BlockLocks { leased, holder, known, asked }
    }

    /// Whether a block's lock may be asked for.
    pub(super) fn may_ask(&self, block: u32) -> bool {
        !self.asked[block as usize]
    }

    /// A block's lock is asked for.
    ///
    /// # Panics
    /// If this front-end asks for it already.
    pub(super) fn ask(&mut self, block: u32) {
        let asked = std::mem::replace(&mut self.asked[block as usize], true);
        assert!(!asked, "the lock of block {block} is asked for twice");
    }

    /// A block's lock is not asked for any more.
    pub(super) fn end(&mut self, block: u32) {
        self.asked[block as usize] = false;
    }

    /// Where in its area the block is that a word names.
    pub(super) fn data(table: &TableLayout, block: u32, word: Word) -> u64 {
        table.locks().data(table.lock(block).1, word.slot)
    }
}
