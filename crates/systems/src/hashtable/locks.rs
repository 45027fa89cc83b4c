//! A front-end's view of the locks of the blocks.

use super::table::TableLayout;
use crate::spinlock::Leased;
use crate::spinlock::word::Word;

/// A front-end's view of the locks: for each block, the lock's word as the front-end last saw it or wrote it.
pub(super) struct BlockLocks {
    pub(super) leased: Leased,
    /// The number, from 1, by which words of locks name this front-end as holder.
    pub(super) holder: u32,
    pub(super) known: Vec<Word>,
    /// For each block, whether an operation of this front-end asks for the lock, or holds it. A second
    /// operation must not ask: its late WRITE could go to the slot that the first operation has published.
    asked: Vec<bool>,
}

impl BlockLocks {
    /// Locks of `blocks` blocks that no front-end has acquired yet.
    pub(super) fn new(leased: Leased, holder: u32, blocks: u32) -> BlockLocks {
        let (known, asked) = (vec![Word::default(); blocks as usize], vec![false; blocks as usize]);
        BlockLocks { leased, holder, known, asked }
    }

    /// Whether an operation may ask for a block's lock.
    pub(super) fn may_ask(&self, block: u32) -> bool {
        !self.asked[block as usize]
    }

    /// Notes that an operation asks for a block's lock.
    ///
    /// # Panics
    /// If another operation of this front-end already asks for this lock.
    pub(super) fn ask(&mut self, block: u32) {
        let asked = std::mem::replace(&mut self.asked[block as usize], true);
        assert!(!asked, "the lock of block {block} is requested twice");
    }

    /// Notes that no operation asks for a block's lock any more.
    pub(super) fn end(&mut self, block: u32) {
        self.asked[block as usize] = false;
    }

    /// The offset of the slot that `word` names. The offset is in the block's area.
    pub(super) fn data(table: &TableLayout, block: u32, word: Word) -> u64 {
        table.locks().data(table.lock(block).1, word.slot)
    }
}
