//! Events that were delivered to the program.

use crate::sync::lock;
use std::sync::{Condvar, Mutex};

/// Counts events that were delivered to the program and not acknowledged (ibv_ack_cq_events(3)). An object
/// cannot be destroyed while it has such events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    open: Mutex<u32>,
    none: Condvar,
}

impl Events {
    pub(crate) fn delivered(&self) {
        *lock(&self.open) += 1;
    }

    pub(crate) fn acknowledged(&self, n: u32) {
        let mut open = lock(&self.open);
        *open = open.saturating_sub(n);
        self.none.notify_all();
    }

    pub(crate) fn wait_for_all(&self) {
        let open = lock(&self.open);
        let waited = self.none.wait_while(open, |open| *open > 0);
        drop(waited);
    }
}
