//! Bytes of lines in the caches, where memory may have others: what devices do is not coherent with the caches.

use super::cache::LineId;
use crate::host::memory::{LineBytes, MemPlace};
use std::collections::HashMap;

/// Lines that the caches hold and of which memory has, or may have, other bytes. Of all others they are memory's.
#[derive(Default)]
pub(super) struct Copies {
    /// Each with where it begins.
    lines: HashMap<LineId, (MemPlace, LineBytes)>,
    /// Those that have left the caches changed, on their way to memory.
    leaving: Vec<(MemPlace, LineBytes)>,
}

impl Copies {
    pub(super) fn get(&self, line: LineId) -> Option<&LineBytes> {
        self.lines.get(&line).map(|(_, bytes)| bytes)
    }

    /// The caches' bytes of a line; `memory` are those that it begins with.
    pub(super) fn of(
        &mut self,
        line: LineId,
        begins: MemPlace,
        memory: impl FnOnce() -> LineBytes,
    ) -> &mut LineBytes {
        &mut self.lines.entry(line).or_insert_with(|| (begins, memory())).1
    }

    /// A line has left the caches.
    pub(super) fn left(&mut self, line: LineId, modified: bool) {
        let copy = self.lines.remove(&line);
        self.leaving.extend(copy.filter(|_| modified));
    }

    /// What goes to memory.
    pub(super) fn take_leaving(&mut self) -> Vec<(MemPlace, LineBytes)> {
        std::mem::take(&mut self.leaving)
    }
}
