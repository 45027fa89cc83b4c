//! Bytes of cached lines that may differ from memory's, if devices are not coherent with the caches.

use super::cache::LineId;
use crate::host::memory::{LineBytes, MemPlace};
use std::collections::HashMap;

/// Cached lines whose bytes may differ from memory's. All other lines have memory's bytes.
#[derive(Default)]
pub(super) struct Copies {
    /// Each line's beginning in memory, and its bytes.
    lines: HashMap<LineId, (MemPlace, LineBytes)>,
    /// Changed lines that have left the caches, on their way to memory.
    leaving: Vec<(MemPlace, LineBytes)>,
}

impl Copies {
    pub(super) fn get(&self, line: LineId) -> Option<&LineBytes> {
        self.lines.get(&line).map(|(_, bytes)| bytes)
    }

    /// The caches' bytes of a line. They start as the bytes that `memory` returns.
    pub(super) fn of(
        &mut self,
        line: LineId,
        begins: MemPlace,
        memory: impl FnOnce() -> LineBytes,
    ) -> &mut LineBytes {
        &mut self.lines.entry(line).or_insert_with(|| (begins, memory())).1
    }

    /// Removes a line that has left the caches. If it is modified, it goes to memory.
    pub(super) fn left(&mut self, line: LineId, modified: bool) {
        let copy = self.lines.remove(&line);
        self.leaving.extend(copy.filter(|_| modified));
    }

    /// Takes the lines that go to memory.
    pub(super) fn take_leaving(&mut self) -> Vec<(MemPlace, LineBytes)> {
        std::mem::take(&mut self.leaving)
    }
}
