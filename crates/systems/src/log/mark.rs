//! The marks that tell whether the record of a slot is there.

/// Bits of a mark for its writer. The void bit and then the lap follow above these bits.
const WRITER_BITS: u32 = 23;
const VOID: u64 = 1 << WRITER_BITS;

/// Largest number of engines of a log.
pub const ENGINES: u32 = 1 << 16;

/// The state of a marked position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// The whole record is there.
    Written,
    /// The record will never be there, so readers skip the position.
    Void,
}

/// The mark of a slot. As a word it is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The lap of the position: the position divided by the number of slots. Below 2^39.
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
