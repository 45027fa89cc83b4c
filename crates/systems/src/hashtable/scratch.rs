//! The scratch memory of an operation: bytes that the operation posts, and bytes that arrive.

use super::config::Hashtable;
use super::table::TableLayout;

/// Offset of the result of an atomic in an operation's scratch.
const ANSWER: u64 = 0;
/// Offset of a word that the operation WRITEs.
const WORD: u64 = 8;
/// Offset of the head of a record. Body and entry follow the head.
const HEAD: u64 = 64;

/// A part of an operation's scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScratchPart {
    Answer,
    Word,
    Head,
    /// Slots of a record, or a block.
    Body,
    /// An entry that the operation WRITEs.
    Entry,
}

impl ScratchPart {
    /// The part with this number.
    pub(super) fn of(number: u64) -> Option<ScratchPart> {
        use ScratchPart::{Answer, Body, Entry, Head, Word};
        [Answer, Word, Head, Body, Entry].into_iter().find(|part| *part as u64 == number)
    }

    /// Offset of the part in an operation's scratch.
    pub(super) fn at(self, table: &TableLayout) -> u64 {
        match self {
            ScratchPart::Answer => ANSWER,
            ScratchPart::Word => WORD,
            ScratchPart::Head => HEAD,
            ScratchPart::Body => HEAD + table.slots(),
            ScratchPart::Entry => bytes(table) - table.entry(),
        }
    }
}

/// Bytes of an operation's scratch.
pub(super) fn bytes(table: &TableLayout) -> u64 {
    let body = table.block().max(table.slots_bytes());
    (HEAD + table.slots() + body + table.entry()).next_multiple_of(64)
}

/// Bytes of the scratch of all operations of a front-end.
pub(super) fn all_bytes(config: &Hashtable) -> u64 {
    u64::from(config.operations()) * bytes(&config.table())
}
