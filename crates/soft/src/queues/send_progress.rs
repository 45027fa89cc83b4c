//! How far the requests of a QP are. Threads that poll a CQ read this while another thread posts.

use crate::fabric::peer::{Owner, Peer};
use crate::fabric::process::Process;
use crate::rings::recvs::Receipt;
use crate::sync::lock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};

/// The numbers of a QP's requests, and where their receipts are.
#[derive(Debug, Default)]
pub(crate) struct SendProgress {
    /// The completions of all signalled requests up to this number were entered into the CQ. Only the thread
    /// that posts uses it.
    entered: AtomicU64,
    /// All requests up to this number are done.
    done: AtomicU64,
    /// The peer whose receive queue took the last message; null for this process. Only the thread that posts
    /// uses it.
    receiver: AtomicPtr<Peer>,
    /// The same peer. A poll holds the lock while it reads the peer's segment.
    kept: Mutex<Option<Arc<Peer>>>,
}

impl SendProgress {
    /// Whether the completion of a signalled request was entered.
    #[inline(always)]
    pub(crate) fn has_entered(&self, number: u64) -> bool {
        // Relaxed: see the field.
        number <= self.entered.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set_entered(&self, number: u64) {
        // Relaxed: see the field.
        self.entered.store(number, Relaxed);
    }

    /// Marks all requests up to this number as done.
    #[inline(always)]
    pub(crate) fn mark_done(&self, number: u64) {
        // Release: a poll that gives the completion sees the data that the request has fetched, and its
        // program may write to the buffers that the request has read.
        self.done.store(number, Release);
    }

    /// Keeps the process whose receive queue takes the next message, before a poll needs it for the receipt.
    #[inline(always)]
    pub(crate) fn set_receiver(&self, owner: Owner<'_>) {
        let peer = match owner {
            Owner::This => std::ptr::null(),
            Owner::Peer(peer) => Arc::as_ptr(peer),
        };
        // Relaxed: see the field.
        if self.receiver.load(Relaxed).cast_const() != peer {
            self.change_receiver(owner, peer);
        }
    }

    #[cold]
    fn change_receiver(&self, owner: Owner<'_>, peer: *const Peer) {
        let kept = match owner {
            Owner::This => None,
            Owner::Peer(peer) => Some(peer.clone()),
        };
        let before = std::mem::replace(&mut *lock(&self.kept), kept);
        // This may unmap the old peer. The lock is released by now, so no poll waits for that.
        drop(before);
        self.receiver.store(peer.cast_mut(), Relaxed);
    }

    /// Whether a request is done. `receipt` names the RECV that its message took, if it took one.
    #[inline(always)]
    pub(crate) fn is_done(&self, number: u64, receipt: Option<Receipt>, process: &Process) -> bool {
        // Acquire: see `mark_done`.
        self.done.load(Acquire) >= number || self.is_received(number, receipt, process)
    }

    /// The posting thread has not marked the request as done, and may have been preempted. Finds out by
    /// itself whether the receiver's program has the message.
    #[cold]
    fn is_received(&self, number: u64, receipt: Option<Receipt>, process: &Process) -> bool {
        let Some(receipt) = receipt else { return false };
        let kept = lock(&self.kept);
        // The peer changes only for a later request, after this one was marked as done.
        self.done.load(Acquire) >= number
            || receipt.is_taken(kept.as_ref().map_or(process.segment, |peer| &peer.segment))
    }

    /// Begins again, because the QP is reset. Its completions are forgotten.
    pub(crate) fn reset(&self) {
        self.set_entered(0);
        self.done.store(0, Release);
        self.set_receiver(Owner::This);
    }
}
