//! What a run showed, by spans of time.

/// What was seen within a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Operations that completed.
    pub(crate) completed: u64,
    /// Operations whose time was taken.
    pub(crate) timed: u64,
    /// The sum of these times in picoseconds.
    pub(crate) latency: u64,
}

impl Batch {
    /// Both together.
    pub(crate) fn joined(self, other: Batch) -> Batch {
        Batch {
            completed: self.completed + other.completed,
            timed: self.timed + other.timed,
            latency: self.latency.saturating_add(other.latency),
        }
    }

    /// All of them together.
    pub(crate) fn all(some: &[Batch]) -> Batch {
        some.iter().fold(Batch::default(), |all, one| all.joined(*one))
    }
}

/// Batches that are kept: where there would be more, they are joined two by two, and last twice as long.
const MOST: usize = 512;
/// With fewer, nothing is said of the warm-up.
const LEAST: usize = 64;

/// Batches of equal length, one after another.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    start: u64,
    /// The length of a batch is 2 to this power, in picoseconds.
    log_length: u32,
    batches: Vec<Batch>,
}

impl Series {
    /// From `start` on, in batches that last 2^`log_length` at first, in picoseconds.
    pub(crate) fn new(start: u64, log_length: u32) -> Series {
        Series { start, log_length, batches: Vec::with_capacity(MOST) }
    }

    /// What was seen at `at`; of what comes before the start nothing is kept.
    #[inline]
    pub(crate) fn add(&mut self, at: u64, seen: Batch) {
        let Some(since) = at.checked_sub(self.start) else { return };
        let number = (since >> self.log_length) as usize;
        match self.batches.get_mut(number) {
            Some(batch) => *batch = batch.joined(seen),
            None => self.extend(since, seen),
        }
    }

    #[cold]
    fn extend(&mut self, since: u64, seen: Batch) {
        while since >> self.log_length >= MOST as u64 {
            self.batches = self.batches.chunks(2).map(Batch::all).collect();
            self.log_length += 1;
        }
        let number = (since >> self.log_length) as usize;
        if self.batches.len() <= number {
            self.batches.resize(number + 1, Batch::default());
        }
        self.batches[number] = self.batches[number].joined(seen);
    }

    /// Puts what another saw at the same times to it.
    ///
    /// # Panics
    /// If its batches begin or end at other times.
    pub(crate) fn add_all(&mut self, other: &Series) {
        assert_eq!(
            (self.start, self.log_length),
            (other.start, other.log_length),
            "batches of the same times"
        );
        self.batches.resize(self.batches.len().max(other.batches.len()), Batch::default());
        for (batch, seen) in self.batches.iter_mut().zip(&other.batches) {
            *batch = batch.joined(*seen);
        }
    }

    /// The batches that ended by `at`, up to which all was seen.
    pub(crate) fn until(&self, at: u64) -> Series {
        let ended = at.saturating_sub(self.start) >> self.log_length;
        let mut series = self.clone();
        series.batches.resize(ended.min(MOST as u64) as usize, Batch::default());
        series
    }

    /// Picoseconds of a batch.
    pub(crate) fn length(&self) -> u64 {
        1 << self.log_length
    }

    /// Those there are.
    pub(crate) fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// When the warm-up is over, in picoseconds; see [`Series::warm_from`].
    pub(crate) fn warm_until(&self) -> Option<u64> {
        self.warm_from().map(|batch| self.begin_of(batch))
    }

    pub(super) fn begin_of(&self, batch: usize) -> u64 {
        self.start + ((batch as u64) << self.log_length)
    }

    /// The first batch after the warm-up, by MSER on the completed operations; `None` where there are too few
    /// batches, or the least error is that of a rest shorter than half, as it is while the rate still changes.
    fn warm_from(&self) -> Option<usize> {
        let all = &self.batches;
        if all.len() < LEAST {
            return None;
        }
        // Of the batches from `first` on: how many, the sum, the sum of the squares. The squared standard error of
        // their mean is (n squares - sum^2) / n^3.
        let (mut n, mut sum, mut squares) = (0u128, 0u128, 0u128);
        let mut least: Option<(usize, f64)> = None;
        for (first, batch) in all.iter().enumerate().rev() {
            let x = u128::from(batch.completed);
            (n, sum, squares) = (n + 1, sum + x, squares + x * x);
            // The error of a few says nothing.
            if n < LEAST as u128 / 4 {
                continue;
            }
            let error = (n * squares - sum * sum) as f64 / (n * n * n) as f64;
            // Of rests that are equally good the longest.
            if least.is_none_or(|(_, least)| error <= least) {
                least = Some((first, error));
            }
        }
        least.map(|(first, _)| first).filter(|first| *first <= all.len() / 2)
    }
}
