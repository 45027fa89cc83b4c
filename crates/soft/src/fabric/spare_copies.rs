//! Copy records that this process holds and no copier uses.

use crate::sync::lock;
use std::sync::Mutex;

/// Indices of the copy records in one process's segment that this process holds and no copier uses.
#[derive(Debug, Default)]
pub(crate) struct SpareCopies(Mutex<Vec<usize>>);

impl SpareCopies {
    pub(crate) fn take(&self) -> Option<usize> {
        lock(&self.0).pop()
    }

    pub(crate) fn give_back(&self, index: usize) {
        lock(&self.0).push(index);
    }
}
