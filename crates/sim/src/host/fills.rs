//! The fill buffers of a core, through which prefetched lines come.

use crate::core::ps::Ps;

/// The fill buffers of a core.
#[derive(Clone, Default)]
pub(super) struct FillBuffers {
    /// When each line in flight will be there.
    there: Vec<Ps>,
}

impl FillBuffers {
    /// When one of `buffers` buffers is free for a request at `at`. The caller must then `put` the line.
    pub(super) fn free_at(&mut self, at: Ps, buffers: usize) -> Ps {
        self.there.retain(|there| *there > at);
        if self.there.len() < buffers {
            return at;
        }
        let (first, free) = self
            .there
            .iter()
            .copied()
            .enumerate()
            .min_by_key(|(_, there)| *there)
            .expect("all fill buffers are in use, and a core has at least one");
        self.there.swap_remove(first);
        free
    }

    pub(super) fn put(&mut self, there: Ps) {
        self.there.push(there);
    }
}
