//! Windows: how many operations may be outstanding, of a thread or of each of its QPs.

/// Operations that may be outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// On all QPs of a thread together.
    PerThread(u32),
    /// On each QP.
    PerQp(u32),
}

impl Window {
    /// How many these are, of a thread or of a QP.
    pub fn operations(self) -> u32 {
        match self {
            Window::PerThread(operations) | Window::PerQp(operations) => operations,
        }
    }

    /// How many these are of a thread, if it is a thread's.
    pub(crate) fn per_thread(self) -> Option<u32> {
        match self {
            Window::PerThread(operations) => Some(operations),
            Window::PerQp(_) => None,
        }
    }

    /// How many these are of a QP, if it is a QP's.
    pub(crate) fn per_qp(self) -> Option<u32> {
        match self {
            Window::PerThread(_) => None,
            Window::PerQp(operations) => Some(operations),
        }
    }

    /// QPs that a thread posts to, as far as they share the window.
    pub(crate) fn sharing(self, lanes: u32) -> u32 {
        match self {
            Window::PerThread(_) => lanes,
            Window::PerQp(_) => 1,
        }
    }

    /// The least that lets a whole batch be posted beside what no completion has covered yet, which may be
    /// all but one of `signal_every` on each QP.
    pub(crate) fn least(self, signal_every: u32, batch: u32, lanes: u32) -> u64 {
        let uncovered = u64::from(self.sharing(lanes)) * u64::from(signal_every.saturating_sub(1));
        uncovered + u64::from(batch)
    }

    /// The most of `usual` that this window lets `signal_every` be: two operations on each QP are signalled
    /// where there is room for that.
    pub(crate) fn usual_signal(self, usual: u32, batch: u32, lanes: u32) -> u32 {
        let (operations, sharing) = (self.operations(), self.sharing(lanes).max(1));
        let two_signalled = operations / sharing / 2;
        let beside_a_batch = operations.saturating_sub(batch) / sharing + 1;
        usual.min(two_signalled).min(beside_a_batch).max(1)
    }
}
