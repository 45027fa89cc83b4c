//! Tracks which send work requests of a QP are done. Threads that poll a CQ read this state while another
//! thread posts.

use crate::fabric::peer::{Owner, Peer};
use crate::fabric::process::Process;
use crate::rings::recvs::Receipt;
use crate::sync::lock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};

/// The progress of a QP's send work requests, and the peer whose RECVs their messages take.
#[derive(Debug, Default)]
pub(crate) struct SendProgress {
    /// The completions of all signalled requests up to this number were entered into the CQ. Only the posting
    /// thread uses this field.
    entered: AtomicU64,
    /// All requests up to this number are done.
    done: AtomicU64,
    /// The peer whose receive queue takes the latest message; null if this process receives it. Only the
    /// posting thread uses this field.
    receiver: AtomicPtr<Peer>,
    /// Keeps the peer of `receiver` mapped. A poll holds this lock while it reads the peer's segment.
    kept: Mutex<Option<Arc<Peer>>>,
}

impl SendProgress {
    /// Whether the completion of signalled request `number` was entered into the CQ.
    #[inline(always)]
    pub(crate) fn has_entered(&self, number: u64) -> bool {
        // Relaxed: only the posting thread uses this field.
        number <= self.entered.load(Relaxed)
    }

    /// Number of the last signalled request whose completion was entered into the CQ.
    pub(crate) fn last_entered(&self) -> u64 {
        // Relaxed: the caller holds the lock of the posting thread.
        self.entered.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set_entered(&self, number: u64) {
        // Relaxed: only the posting thread uses this field.
        self.entered.store(number, Relaxed);
    }

    /// Marks all requests up to this number as done.
    #[inline(always)]
    pub(crate) fn mark_done(&self, number: u64) {
        // Release: a poll that returns the completion sees the data that the request has fetched. The program
        // may then write to the buffers that the request has read.
        self.done.store(number, Release);
    }

    /// Stores the process whose receive queue takes the next message. The caller does this before a poll can
    /// check the message's receipt.
    #[inline(always)]
    pub(crate) fn set_receiver(&self, owner: Owner<'_>) {
        let peer = match owner {
            Owner::This => std::ptr::null(),
            Owner::Peer(peer) => Arc::as_ptr(peer),
        };
        // Relaxed: only the posting thread uses this field.
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
        // This drop may unmap the old peer's segment. The lock is released before, so that no poll waits for
        // the unmapping.
        drop(before);
        // Relaxed: only the posting thread uses this field.
        self.receiver.store(peer.cast_mut(), Relaxed);
    }

    /// Whether a request is done. `receipt` names the RECV that the request's message took, if it took one.
    #[inline(always)]
    pub(crate) fn is_done(&self, number: u64, receipt: Option<Receipt>, process: &Process) -> bool {
        // Acquire: see `mark_done`.
        self.done.load(Acquire) >= number || self.is_received(number, receipt, process)
    }

    /// Checks by the receipt whether the receiver's program has the message. Called if the posting thread has
    /// not marked the request as done, because that thread may have been preempted.
    #[cold]
    fn is_received(&self, number: u64, receipt: Option<Receipt>, process: &Process) -> bool {
        let Some(receipt) = receipt else { return false };
        let kept = lock(&self.kept);
        // `kept` changes only for a later request, after this request was marked as done. So if this request
        // is not done, `kept` is its receiver.
        self.done.load(Acquire) >= number
            || receipt.is_taken(kept.as_ref().map_or(process.segment, |peer| &peer.segment))
    }

    /// Resets the progress together with the QP. The CQs have forgotten the QP's completions.
    pub(crate) fn reset(&self) {
        self.set_entered(0);
        // Release only as in `mark_done`: without the QP's completions, no poll loads this number.
        self.done.store(0, Release);
        self.set_receiver(Owner::This);
    }
}
