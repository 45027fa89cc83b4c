//! The marks that say whether the record of a slot is there.

/// Bits of a mark for its writer. Above them are the void bit, then the lap.
const WRITER_BITS: u32 = 23;
const VOID: u64 = 1 << WRITER_BITS;

/// Most engines of a log.
pub const ENGINES: u32 = 1 << 16;

/// The state of the position that a mark belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// The record is there, whole.
    Written,
    /// The record will never be there: readers pass the position.
    Void,
}

/// The mark of a slot: the lap that it is about, and its writer. As a word it is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The position of the record, divided by the number of slots: below 2^39.
    pub lap: u64,
    /// The engine that owns the position; [`ENGINES`] for a void mark of the warden.
    pub writer: u32,
    /// The state of the position.
    pub kind: MarkKind,
}

impl Mark {
    /// The mark as a word.
    pub(super) fn bits(self) -> u64 {
        let void = if self.kind == MarkKind::Void { VOID } else { 0 };
        (self.lap + 1) << (WRITER_BITS + 1) | void | u64::from(self.writer)
    }

    /// Reads a mark from a word; `None` for 0, the word of a slot that was never marked.
    pub(super) fn of(bits: u64) -> Option<Mark> {
        let lap = (bits >> (WRITER_BITS + 1)).checked_sub(1)?;
        let kind = if bits & VOID == 0 { MarkKind::Written } else { MarkKind::Void };
        Some(Mark { lap, writer: (bits & (VOID - 1)) as u32, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_what_was_written() {
        assert_eq!(Mark::of(0), None);
        for lap in [0, 1, 1 << 38] {
            for writer in [0, 7, ENGINES] {
                for kind in [MarkKind::Written, MarkKind::Void] {
                    let mark = Mark { lap, writer, kind };
                    assert_eq!(Mark::of(mark.bits()), Some(mark));
                }
            }
        }
    }
}
