//! What says of a slot whether its record is there.

/// Bits of who wrote a mark; above them are the void bit, then the lap.
const WRITER_BITS: u32 = 23;
const VOID: u64 = 1 << WRITER_BITS;

/// Engines at most.
pub const ENGINES: u32 = 1 << 16;

/// What a mark says of the record before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// It is there, whole.
    Written,
    /// It never will be: readers pass it.
    Void,
}

/// The mark of a slot: of which lap over the slots it is, and who wrote it. As a word it is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The position of the record, divided by slots: below 2^39.
    pub lap: u64,
    /// The engine that the position is of; of a void that the warden has written, [`ENGINES`].
    pub writer: u32,
    /// What it says.
    pub kind: MarkKind,
}

impl Mark {
    /// As the word that is written.
    pub(super) fn bits(self) -> u64 {
        let void = if self.kind == MarkKind::Void { VOID } else { 0 };
        (self.lap + 1) << (WRITER_BITS + 1) | void | u64::from(self.writer)
    }

    /// From a word; of 0, which a new log has, there is none.
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
