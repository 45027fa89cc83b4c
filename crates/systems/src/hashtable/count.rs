//! The word of a record that counts versions, marks and moves.

/// Bits of each part, from the lowest on. At the rate of an atomic unit, the numbers are used up after five
/// days.
const NUMBER: u32 = 40;
const MARKS: u32 = 12;
const MOVES: u32 = 12;

/// Added to the word to draw a number.
pub(super) const DRAW: u64 = 1;
/// Added to the word to mark a key, because the key is to leave its record. Each front-end has at most one
/// mark on a key at a time, and there are far fewer front-ends than `MARKS` bits can count.
pub(super) const MARK: u64 = 1 << NUMBER;

/// The word in its parts. At first all parts are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// The number that was drawn last. It is meaningless while the key is marked, because numbers that are
    /// drawn then are void.
    pub(super) number: u64,
    /// How many front-ends have marked the key.
    marks: u64,
    /// How often the key has moved into its block or out of it, modulo 4096.
    moves: u64,
}

impl Count {
    pub(super) fn of(word: u64) -> Count {
        let part = |at: u32, bits: u32| word >> at & ((1 << bits) - 1);
        Count { number: part(0, NUMBER), marks: part(NUMBER, MARKS), moves: part(NUMBER + MARKS, MOVES) }
    }

    pub(super) fn bits(self) -> u64 {
        (self.moves << MARKS | self.marks) << NUMBER | self.number
    }

    /// The count of a key that is hot from the start.
    pub(super) fn hot() -> Count {
        Count { marks: 1, ..Count::default() }
    }

    /// Whether the key is in its block, or is moving into its block or out of it.
    pub(super) fn is_marked(self) -> bool {
        self.marks > 0
    }

    /// Whether the key is marked and has not moved since then. `then` is an earlier count, at which the key
    /// was marked.
    pub(super) fn is_same_mark(self, then: Count) -> bool {
        self.is_marked() && self.moves == then.moves
    }

    /// The count after the key has moved into its block.
    pub(super) fn moved(self) -> Count {
        Count { moves: (self.moves + 1) % (1 << MOVES), ..self }
    }

    /// The count after the key has become cold with this version.
    pub(super) fn cold(self, version: u64) -> Count {
        Count { marks: 0, number: version, ..self.moved() }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_count_says_what_was_put_into_it(word: u64) {
            let count = Count::of(word);
            prop_assert_eq!(count.bits(), word);
            prop_assert_eq!(Count::of(count.moved().bits()), count.moved());
            prop_assert!(count.moved().moves != count.moves && !count.cold(7).is_marked());
            prop_assert_eq!((count.cold(7).number, count.cold(7).moves), (7, count.moved().moves));
        }

        #[test]
        fn marks_and_numbers_are_added(number in 0..1u64 << 39, moves in 0..4096u64, marks in 0..600u64, draws in 0..600u64) {
            let count = Count { number, marks: 0, moves };
            let added = Count::of(count.bits() + marks * MARK + draws * DRAW);
            prop_assert_eq!(added, Count { number: number + draws, marks, moves });
            prop_assert_eq!(added.is_marked(), marks > 0);
        }
    }
}
