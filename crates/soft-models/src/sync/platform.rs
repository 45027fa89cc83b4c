//! Stands in for the system: thread numbers of loom's threads, and a `SeqCst` fence for each side of the pair
//! of fences.
//!
//! `crates/soft/src/sync/platform.rs` explains why `SeqCst` fences give the guarantee of membarrier(2) and
//! the compiler's fence.

use loom::sync::atomic::fence;
use std::sync::atomic::{AtomicUsize, Ordering::*};

/// All thread numbers are multiples of this.
pub(crate) const THREAD_UNIT: usize = 64;

loom::thread_local! {
    static NUMBER: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(1);
        THREADS.fetch_add(1, Relaxed) * THREAD_UNIT
    };
}

/// The number of the running thread.
pub(crate) fn this_thread() -> usize {
    NUMBER.with(|number| *number)
}

/// Stands in for the compiler's fence.
pub(crate) fn light_fence() {
    fence(SeqCst);
}

/// Stands in for membarrier(2) within a process.
pub(crate) fn heavy_fence() {
    fence(SeqCst);
}

/// Stands in for membarrier(2) between processes.
pub(crate) fn global_fence() {
    fence(SeqCst);
}

/// Whether the system has [`heavy_fence`]. loom always has it.
pub(crate) fn has_heavy_fence() -> bool {
    true
}
