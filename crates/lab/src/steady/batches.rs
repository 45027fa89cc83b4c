//! How sure the means of batches are.

use super::{Batch, Precision};

/// A mean, and half the width of the interval that holds the true one in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// In the middle.
    pub mean: f64,
    /// To each side.
    pub half: f64,
}

/// Student's t of 97.5%, squared, in millionths, for 1 to 31 degrees of freedom.
const T_SQUARED: [u64; 31] = [
    161_447_639, 18_512_821, 10_127_964, 7_708_647, 6_607_891, 5_987_378, 5_591_448, 5_317_655, 5_117_355,
    4_964_603, 4_844_336, 4_747_225, 4_667_193, 4_600_110, 4_543_077, 4_493_998, 4_451_322, 4_413_873,
    4_380_750, 4_351_244, 4_324_794, 4_300_950, 4_279_344, 4_259_677, 4_241_699, 4_225_201, 4_210_008,
    4_195_972, 4_182_964, 4_170_877, 4_159_615,
];
/// Batches that an interval is taken from, at most and at least.
const MOST: usize = 32;
const LEAST: usize = 8;
/// Von Neumann's ratio, in thousandths, below which neighbours depend on each other, for 8, 16 and 32 batches: the
/// 5% point of its distribution where they do not (2 - 1.645 * sqrt(4 (n - 2) / (n^2 - 1)), its normal
/// approximation).
const DEPENDENT: [(usize, u64); 3] = [(8, 985), (16, 1229), (32, 1437)];

/// Sums over batches of equal length, in which neighbours do not depend on each other.
#[derive(Clone, Debug)]
pub struct Means {
    batches: Vec<Batch>,
}

impl Means {
    /// Joins batches until there are at most 32, and then until neighbours do not depend on each other. `None`
    /// where fewer than 8 would be left.
    pub fn of(batches: &[Batch]) -> Option<Means> {
        let mut each = batches.len().div_ceil(MOST).max(1);
        loop {
            // Of those that are left over, the first go: they are nearest to the warm-up.
            let rest = &batches[batches.len() % each..];
            let joined: Vec<Batch> =
                rest.chunks(each).map(|some| some.iter().fold(Batch::default(), |a, b| a.joined(*b))).collect();
            if joined.len() < LEAST {
                return None;
            }
            if !depend(&joined) {
                return Some(Means { batches: joined });
            }
            each *= 2;
        }
    }
}
