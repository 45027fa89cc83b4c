//! The layout of the log machine's memory.

use super::mark::Mark;

/// The name under which the log machine publishes its connections and the log.
pub const SERVICE: &str = "log";

/// Bytes of a line. Each word that different machines write has a line to itself.
const LINE: u64 = 64;

/// Offsets of the tail and of the head.
pub(super) const TAIL: u64 = 0;
pub(super) const HEAD: u64 = LINE;
/// Bytes of the lines of tail and head.
pub(super) const ENDS: u32 = 2 * LINE as u32;

/// The layout of a log: its tail and head, a word for each engine, marks, slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Engines that may append.
    pub engines: u32,
    /// Records that the log holds.
    pub slots: u64,
    /// Bytes of a record, a multiple of 8.
    pub record: u32,
}

/// Consecutive positions in consecutive slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotRun {
    /// The first position.
    pub(super) position: u64,
    pub(super) records: u64,
}

impl Layout {
    /// Bytes of the whole log.
    pub fn bytes(&self) -> u64 {
        self.bodies() + self.slots * u64::from(self.record)
    }

    /// Offset of an engine's word.
    pub(super) fn word(&self, engine: u32) -> u64 {
        u64::from(ENDS) + u64::from(engine) * LINE
    }

    fn marks(&self) -> u64 {
        self.word(self.engines)
    }

    fn bodies(&self) -> u64 {
        self.marks() + (self.slots * 8).next_multiple_of(LINE)
    }

    /// Offset of a position's mark.
    pub(super) fn mark(&self, position: u64) -> u64 {
        self.marks() + position % self.slots * 8
    }

    /// Offset of a position's record.
    pub(super) fn body(&self, position: u64) -> u64 {
        self.bodies() + position % self.slots * u64::from(self.record)
    }

    /// The lap of a position: how often all slots were used before this position.
    pub(super) fn lap(&self, position: u64) -> u64 {
        position / self.slots
    }

    /// The mark in `word`, if it is a mark for `position`; `None` if the mark has another lap.
    pub(super) fn mark_of(&self, position: u64, word: u64) -> Option<Mark> {
        Mark::of(word).filter(|mark| mark.lap == self.lap(position))
    }

    /// Splits `records` positions from `position` on into runs: two runs if the positions go beyond the last
    /// slot, else one.
    pub(super) fn runs(&self, position: u64, records: u64) -> impl Iterator<Item = SlotRun> + use<> {
        let first = records.min(self.slots - position % self.slots);
        let runs = [
            SlotRun { position, records: first },
            SlotRun { position: position + first, records: records - first },
        ];
        runs.into_iter().filter(|run| run.records > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lies_where_something_else_does() {
        let layout = Layout { engines: 3, slots: 13, record: 24 };
        let mut all = vec![(TAIL, 8), (HEAD, 8)];
        all.extend((0..3).map(|engine| (layout.word(engine), 8)));
        all.extend((0..13).map(|position| (layout.mark(position), 8)));
        all.extend((0..13).map(|position| (layout.body(position), 24)));
        assert!(all.iter().all(|(at, len)| at % 8 == 0 && at + len <= layout.bytes()));
        all.sort_unstable();
        assert!(all.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "{all:?}");
    }

    #[test]
    fn runs_end_with_the_slots() {
        let layout = Layout { engines: 1, slots: 10, record: 8 };
        let runs = |position, records| -> Vec<(u64, u64)> {
            layout.runs(position, records).map(|run| (run.position, run.records)).collect()
        };
        assert_eq!(runs(20, 10), [(20, 10)]);
        assert_eq!(runs(27, 3), [(27, 3)]);
        assert_eq!(runs(27, 5), [(27, 3), (30, 2)]);
        assert_eq!(layout.mark(27), layout.mark(7));
        assert_eq!((layout.lap(29), layout.lap(30)), (2, 3));
    }
}
