//! The marks that tell whether the record of a slot is there.

/// Bits of a mark's value for its writer. Above them are the void bit, then the lap.
const WRITER_BITS: u32 = 17;
const VOID: u64 = 1 << WRITER_BITS;

/// Largest number of engines of a log.
pub const ENGINES: u32 = 1 << 16;

/// The stamp: the highest bit of each byte of a mark. The other bits are the mark's value.
const STAMP: u64 = 0x8080_8080_8080_8080;
/// Bits of the value in each byte.
const OF_A_BYTE: u32 = 7;

/// The state of a marked position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// The whole record is there.
    Written,
    /// The record will never be there, so readers skip the position.
    Void,
}

/// The mark of a slot. As a word it is never 0.
///
/// A word may be loaded while a NIC writes it byte by byte. So each byte of a mark has a stamp, which tells
/// whether the lap is even. A slot is marked once in each lap. So a word with bytes of a mark and of the mark
/// before has both stamps, and is no mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The lap of the position: the position divided by the number of slots. Below 2^38.
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
        let value = self.lap << (WRITER_BITS + 1) | void | u64::from(self.writer);
        let byte = |n: u32| (value >> (OF_A_BYTE * n) & 0x7f) << (8 * n);
        (0..8).fold(stamp(self.lap), |bits, n| bits | byte(n))
    }

    /// Reads a mark from a word. `None` for 0, the word of a slot that was never marked, and for a torn word.
    pub(super) fn of(bits: u64) -> Option<Mark> {
        let byte = |n: u32| (bits >> (8 * n) & 0x7f) << (OF_A_BYTE * n);
        let value = (0..8).fold(0, |value, n| value | byte(n));
        let lap = value >> (WRITER_BITS + 1);
        let kind = if value & VOID == 0 { MarkKind::Written } else { MarkKind::Void };
        let mark = Mark { lap, writer: (value & (VOID - 1)) as u32, kind };
        (bits & STAMP == stamp(lap)).then_some(mark)
    }
}

/// The stamp of a lap's marks. Laps begin with a set stamp, because the word of an unmarked slot is 0.
fn stamp(lap: u64) -> u64 {
    if lap.is_multiple_of(2) { STAMP } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAPS: [u64; 6] = [0, 1, 127, 128, (1 << 37) - 1, (1 << 38) - 1];

    #[test]
    fn a_mark_is_what_was_written() {
        assert_eq!(Mark::of(0), None);
        for lap in LAPS {
            for writer in [0, 7, ENGINES] {
                for kind in [MarkKind::Written, MarkKind::Void] {
                    let mark = Mark { lap, writer, kind };
                    assert_eq!(Mark::of(mark.bits()), Some(mark));
                }
            }
        }
    }

    /// Words that are loaded while a device has written some bytes of a mark over the mark before.
    #[test]
    fn a_torn_mark_is_no_mark() {
        let some_bytes =
            |written: u64| (0..8).filter(move |n| written >> n & 1 == 1).map(|n| 0xff << (8 * n));
        let masks: Vec<u64> = (1..=254).map(|written| some_bytes(written).sum()).collect();
        let of_lap = |lap: u64| {
            [0, 7, 300, ENGINES].into_iter().flat_map(move |writer| {
                [MarkKind::Written, MarkKind::Void].map(|kind| Mark { lap, writer, kind }.bits())
            })
        };
        for lap in LAPS {
            let before: Vec<u64> = lap.checked_sub(1).map_or(vec![0], |lap| of_lap(lap).collect());
            for (new, old) in of_lap(lap).flat_map(|new| before.iter().map(move |old| (new, *old))) {
                for mask in &masks {
                    let torn = new & mask | old & !mask;
                    assert_eq!(Mark::of(torn), None, "{new:#x} over {old:#x} by {mask:#x}");
                }
            }
        }
    }
}
