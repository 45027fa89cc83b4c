//! Memory that a run got from the system, kept for the next run of the process.
//!
//! The first use of each new page takes a page fault, which lasts as long as several events. Experiments
//! consist of many short runs, which need about equally much memory.

use std::sync::{Mutex, MutexGuard};

/// Used values that can be used again, up to `most` of them.
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

    /// Takes a value that fits. Prefers the last one given, because it is the most likely to be in caches.
    pub(crate) fn take(&self, fits: impl Fn(&T) -> bool) -> Option<T> {
        let mut things = self.lock();
        let at = things.iter().rposition(fits)?;
        Some(things.swap_remove(at))
    }

    /// Keeps a value, unless `most` are kept already.
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
