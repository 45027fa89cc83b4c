//! Windows: the number of operations that a thread or a QP may have outstanding.

use doorbell_nic::limits::gcd;

/// A limit of outstanding operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Operations on all QPs of a thread together.
    PerThread(u32),
    /// Operations on each QP.
    PerQp(u32),
}

impl Window {
    /// The number of operations, of a thread or of a QP.
    pub fn operations(self) -> u32 {
        match self {
            Window::PerThread(operations) | Window::PerQp(operations) => operations,
        }
    }

    /// The number of operations, if the window belongs to a thread.
    pub(crate) fn per_thread(self) -> Option<u32> {
        match self {
            Window::PerThread(operations) => Some(operations),
            Window::PerQp(_) => None,
        }
    }

    /// The number of operations, if the window belongs to a QP.
    pub(crate) fn per_qp(self) -> Option<u32> {
        match self {
            Window::PerThread(_) => None,
            Window::PerQp(operations) => Some(operations),
        }
    }

    /// Number of a thread's QPs that share one window.
    pub(crate) fn sharing(self, lanes: u32) -> u32 {
        match self {
            Window::PerThread(_) => lanes,
            Window::PerQp(_) => 1,
        }
    }

    /// The smallest window that lets a thread post a whole batch. The operations of each QP after its last
    /// signalled one may still be outstanding, because no completion covers them yet. A QP gets whole
    /// batches, so their number is a multiple of the greatest common divisor of `signal_every` and `batch`:
    /// it is 0 if each batch ends with a signalled operation.
    pub fn least(self, signal_every: u32, batch: u32, lanes: u32) -> u64 {
        let (every, batch) = (u64::from(signal_every.max(1)), u64::from(batch));
        let uncovered = every - gcd(every, batch);
        u64::from(self.sharing(lanes)) * uncovered + batch
    }

    /// The largest `signal_every` up to `usual` that fits this window. If possible, two operations on each QP
    /// are signalled.
    pub(crate) fn usual_signal(self, usual: u32, batch: u32, lanes: u32) -> u32 {
        let (operations, sharing) = (self.operations(), self.sharing(lanes).max(1));
        let two_signalled = operations / sharing / 2;
        let beside_a_batch = operations.saturating_sub(batch) / sharing + 1;
        usual.min(two_signalled).min(beside_a_batch).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_window_lets_every_batch_be_posted() {
        for (every, batch) in (1..=24).flat_map(|every| (1..=24).map(move |batch| (every, batch))) {
            // The operations of a QP that no completion covers before each of its batches.
            let uncovered = (0..u64::from(every)).map(|posts| posts * u64::from(batch) % u64::from(every));
            let least = uncovered.max().unwrap_or(0) + u64::from(batch);
            assert_eq!(Window::PerQp(0).least(every, batch, 7), least, "{every} {batch}");
            let shared = 7 * (least - u64::from(batch)) + u64::from(batch);
            assert_eq!(Window::PerThread(0).least(every, batch, 7), shared, "{every} {batch}");
        }
    }
}
