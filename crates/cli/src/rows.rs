//! Rows of a table that are printed as soon as they are known.

use crate::exit::Exit;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// Prints rows in order. A row is printed as soon as it and all rows before it are known.
pub(crate) struct Rows<'a, T> {
    state: Mutex<PrintState<'a, T>>,
}

struct PrintState<'a, T> {
    /// Rows that wait for a row before them.
    waiting: BTreeMap<usize, T>,
    /// Number of the next row.
    next: usize,
    /// Prints a row.
    print: Box<dyn FnMut(T) -> Result<(), Exit> + Send + 'a>,
    /// The first error.
    failed: Option<Exit>,
}

impl<'a, T> Rows<'a, T> {
    /// Rows that `print` prints.
    pub(crate) fn new(print: impl FnMut(T) -> Result<(), Exit> + Send + 'a) -> Rows<'a, T> {
        let state = PrintState { waiting: BTreeMap::new(), next: 0, print: Box::new(print), failed: None };
        Rows { state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, PrintState<'a, T>> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds the row with this number, from 0 on. May be called from several threads.
    pub(crate) fn put(&self, number: usize, row: T) {
        let mut state = self.lock();
        if number >= state.next {
            state.waiting.insert(number, row);
        }
        while let Some(row) = state.take() {
            state.print(row);
        }
    }

    /// Prints the remaining rows, of which some may be missing.
    ///
    /// # Errors
    /// The first error of all rows.
    pub(crate) fn finish(&self, rows: impl IntoIterator<Item = (usize, T)>) -> Result<(), Exit> {
        let mut state = self.lock();
        let next = state.next;
        for (_, row) in rows.into_iter().filter(|(number, _)| *number >= next) {
            state.print(row);
        }
        state.next = usize::MAX;
        state.failed.take().map_or(Ok(()), Err)
    }
}

impl<T> PrintState<'_, T> {
    /// Removes the next row if it is known.
    fn take(&mut self) -> Option<T> {
        let row = self.waiting.remove(&self.next)?;
        self.next += 1;
        Some(row)
    }

    fn print(&mut self, row: T) {
        // Each row is tried, because a row may also be written elsewhere.
        let failed = (self.print)(row).err();
        self.failed = self.failed.take().or(failed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_printed_in_order_and_once() {
        let printed = Mutex::new(Vec::new());
        let so_far = || printed.lock().unwrap().clone();
        let rows = Rows::new(|row: u32| {
            printed.lock().unwrap().push(row);
            Ok(())
        });
        rows.put(1, 11);
        assert!(so_far().is_empty());
        rows.put(0, 10);
        assert_eq!(so_far(), [10, 11]);
        rows.put(3, 13);
        assert_eq!(so_far(), [10, 11]);
        // Row 2 is missing.
        assert!(rows.finish([(0, 10), (1, 11), (3, 13), (4, 14)]).is_ok());
        rows.put(2, 12);
        assert_eq!(so_far(), [10, 11, 13, 14]);
    }

    #[test]
    fn the_first_error_is_returned() {
        let rows = Rows::new(|row: u32| Err(Exit::failed(row)));
        rows.put(0, 10);
        let error = rows.finish([(0, 10), (1, 11)]).err().and_then(|exit| exit.message);
        assert_eq!(error.as_deref(), Some("10"));
    }
}
