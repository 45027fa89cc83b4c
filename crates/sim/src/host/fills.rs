//! The buffers of a core through which lines come to it that instructions have prefetched.

use crate::core::ps::Ps;

/// The buffers of a core through which lines come to it.
#[derive(Clone, Default)]
pub(super) struct FillBuffers {
    /// When each line that is on its way will be there.
    there: Vec<Ps>,
}

impl FillBuffers {
    /// When one of so many is free for who asks at `at`; it is then taken until the line is `put`.
    pub(super) fn free_at(&mut self, at: Ps, buffers: usize) -> Ps {
        self.there.retain(|there| *there > at);
        if self.there.len() < buffers {
            return at;
        }
        let (first, free) =
            self.there.iter().copied().enumerate().min_by_key(|(_, there)| *there).expect("there are some");
        self.there.swap_remove(first);
        free
    }

    pub(super) fn put(&mut self, there: Ps) {
        self.there.push(there);
    }
}
