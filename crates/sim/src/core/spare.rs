//! What a run has had from the system, for the next run of the process.
//!
//! The system gives memory without pages behind it, and each page takes a fault when it is first used: as long as
//! some events. Runs of an experiment are short, many, and need alike.

use std::sync::{Mutex, MutexGuard};

/// Things that were used and can be used again, up to so many.
pub(crate) struct Spare<T> {
    most: usize,
    things: Mutex<Vec<T>>,
}

impl<T> Spare<T> {
    pub(crate) const fn new(most: usize) -> Spare<T> {
        Spare { most, things: Mutex::new(Vec::new()) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.things.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// One that fits, of which the last is the most likely to be in caches.
    pub(crate) fn take(&self, fits: impl Fn(&T) -> bool) -> Option<T> {
        let mut things = self.lock();
        let at = things.iter().rposition(fits)?;
        Some(things.swap_remove(at))
    }

    /// Keeps a thing, if there are not enough.
    pub(crate) fn give(&self, thing: T) {
        let mut things = self.lock();
        if things.len() < self.most {
            things.push(thing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_kept_than_said_and_only_what_fits_is_taken() {
        let spare = Spare::new(2);
        [1, 5, 3].into_iter().for_each(|thing| spare.give(thing));
        assert_eq!(spare.take(|&thing| thing == 3), None);
        assert_eq!(spare.take(|&thing| thing < 5), Some(1));
        assert_eq!(spare.take(|_| true), Some(5));
        assert_eq!(spare.take(|_| true), None);
    }
}
