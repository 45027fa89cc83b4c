//! Random draws, all from one seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::ops::RangeInclusive;

/// The random generator of a thread or case.
pub(crate) struct Draw(Xoshiro256PlusPlus);

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        Draw(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Any number, also usable as a seed.
    pub(crate) fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 to `n - 1`; `n` is at least 1.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.any() % n
    }

    /// An index into `n` things.
    pub(crate) fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    pub(crate) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// True with a probability of `percent` percent.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// A value with a probability of `percent` percent.
    pub(crate) fn maybe<T>(&mut self, percent: u64, value: impl FnOnce(&mut Draw) -> T) -> Option<T> {
        self.percent(percent).then(|| value(self))
    }

    /// The length of a message: mostly short and around the sizes of lines and packets, rarely long.
    pub(crate) fn length(&mut self) -> u64 {
        match self.below(100) {
            0..60 => self.of(&[0, 1, 4, 7, 8, 8, 8, 16, 28, 32, 60, 63, 64, 65, 100, 128, 200]),
            60..85 => self.of(&[255, 256, 257, 400, 512, 900, 1000, 1024, 1025, 1500]),
            85..97 => self.of(&[2047, 2048, 2049, 4056, 4095, 4096, 4097, 5000, 8192]),
            _ => self.within(8192..=300_000),
        }
    }
}
