//! The parts of the biased lock and of the copy records that depend on the system: the running thread's
//! number, and pairs of fences of unequal cost.
//!
//! The fences keep two threads from missing each other. Each thread stores to a word of its own, passes its
//! fence, and loads the other thread's word. At least one of the two loads sees the other thread's store. The
//! thread that needs its fence often passes [`light_fence`], which is no instruction. The other thread passes
//! [`heavy_fence`], a system call.

use rustix::thread::MembarrierCommand;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering::SeqCst, compiler_fence, fence};

/// All thread numbers are multiples of this.
pub(crate) const THREAD_UNIT: usize = 64;

/// The number of the running thread, which no other running thread of this process has; not 0.
#[inline(always)]
pub(crate) fn this_thread() -> usize {
    let pointer: usize;
    // SAFETY: the instruction reads the first word of the thread control block. In the x86-64 ABI, this word
    // contains its own address, which glibc aligns to 64 bytes.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, pure, readonly));
    }
    pointer
}

/// The cheap side of the pair of fences.
///
/// The compiler keeps the store before this fence ahead of the load after it. The processor may still run the
/// load first; the other thread's [`heavy_fence`] makes up for that. membarrier(2) returns after every
/// running thread of the process has passed a full barrier. A thread that does not run has passed one since
/// it last ran. In program order, this barrier is before the load or after the store, because the store comes
/// before the load. A barrier before the load makes the load see everything that the other thread stored
/// before its `heavy_fence`. A barrier after the store makes the other thread see the store after its
/// `heavy_fence`.
///
/// Two `SeqCst` fences give this guarantee too. One fence comes first in their total order. The thread of the
/// second fence sees everything that the thread of the first fence stored before. The models
/// (`crates/soft-models`) therefore have a `SeqCst` fence on both sides. Such fences promise two more things.
/// Nothing may rely on these, and the models cannot show whether something does:
/// - They order two light fences. The biased lock has no use for that: the words that two favourites store to
///   are distinct, and neither favourite loads the other favourite's word.
/// - A relaxed store after such a fence publishes everything that was stored before the fence. The biased
///   lock's stores after a fence are `Release` if they publish.
#[inline(always)]
pub(crate) fn light_fence() {
    compiler_fence(SeqCst);
}

/// The costly side of the pair of fences. See [`light_fence`].
pub(crate) fn heavy_fence() {
    // A child of fork(2) may have to register again.
    let ordered = membarrier(MembarrierCommand::PrivateExpedited)
        || membarrier(MembarrierCommand::RegisterPrivateExpedited)
            && membarrier(MembarrierCommand::PrivateExpedited);
    assert!(ordered, "membarrier(2) was there when it was first asked for");
}

/// The costly side of a pair of fences between processes. The other process passes [`light_fence`]. The other
/// process must have called [`takes_global_fence`] before, and the call must have returned `true`.
pub(crate) fn global_fence() {
    if !membarrier(MembarrierCommand::GlobalExpedited) {
        fence(SeqCst);
    }
}

/// Whether this process can pass [`global_fence`].
pub(crate) fn has_global_fence() -> bool {
    membarrier(MembarrierCommand::GlobalExpedited)
}

/// Registers this process, so that the [`global_fence`] of any process acts on this process's threads;
/// returns whether the registration succeeded. Only the first call is costly, for the reason given at
/// [`has_heavy_fence`].
pub(crate) fn takes_global_fence() -> bool {
    membarrier(MembarrierCommand::RegisterGlobalExpedited)
}

/// Whether this system has [`heavy_fence`]. The first call registers this process for it.
///
/// The registration is cheap as long as the process has one thread. With several threads the kernel waits
/// until all processors have been through its scheduler, which takes milliseconds. The device therefore
/// registers when it is first used, and not amid a program's messages.
pub(crate) fn has_heavy_fence() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited))
}

fn membarrier(command: MembarrierCommand) -> bool {
    rustix::thread::membarrier(command).is_ok()
}
