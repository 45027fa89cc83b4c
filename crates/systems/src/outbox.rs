//! A send queue that signals one of many work requests.

use crate::SystemError;
use crate::device::Failure;
use doorbell_verbs::{Cq, OperationKey, OperationStep, Provider, Qp, SendFlags, SendWr, Time, Wc};

/// One in this many work requests is signalled.
pub(crate) const SIGNAL_EVERY: u64 = 64;

/// A QP to post to, with a CQ of its own for sends.
pub struct Outbox<P: Provider> {
    /// The QP that lists are posted to.
    pub qp: Qp<P>,
    cq: Cq<P>,
    depth: u64,
    posted: u64,
    completed: u64,
    failed: Failure,
}

/// Send queue entries that an outbox needs for lists of up to `batch`.
pub fn depth(batch: u32) -> u32 {
    2 * SIGNAL_EVERY as u32 + batch
}

/// CQ entries that an outbox needs.
pub fn cqe(batch: u32) -> u32 {
    depth(batch) / SIGNAL_EVERY as u32 + 1
}

impl<P: Provider> Outbox<P> {
    /// An outbox with this QP and its CQ for sends. The send queue must have [`depth`] entries and the CQ
    /// [`cqe`] entries, for this `batch`.
    pub fn new(qp: Qp<P>, cq: Cq<P>, batch: u32) -> Outbox<P> {
        Outbox { qp, cq, depth: depth(batch).into(), posted: 0, completed: 0, failed: Failure::default() }
    }

    /// Waits until the first `completed` of all posted work requests have completed.
    fn wait(&mut self, completed: u64) -> Result<(), SystemError> {
        while self.completed < completed {
            self.failed.check()?;
            if let Some(wc) = self.cq.wait(Time::NEVER)? {
                self.has_completed(&wc)?;
            }
        }
        Ok(())
    }

    fn has_completed(&mut self, wc: &Wc) -> Result<(), SystemError> {
        self.failed.note(wc)?;
        self.completed = wc.wr_id;
        Ok(())
    }

    /// Posts `list`, and waits until it and all earlier work requests have completed. Then their payload may
    /// change.
    pub(crate) fn post_and_wait(&mut self, list: &mut [SendWr<'_>]) -> Result<(), SystemError> {
        self.post_signalled(list)?;
        self.wait(self.posted)
    }

    /// Posts `list` with its last work request signalled. Its completion reports all earlier work requests,
    /// too.
    ///
    /// # Errors
    /// As [`Outbox::post`].
    pub fn post_signalled(&mut self, list: &mut [SendWr<'_>]) -> Result<(), SystemError> {
        if let Some(last) = list.last_mut() {
            last.flags |= SendFlags::SIGNALED;
        }
        self.post(list)
    }

    /// Waits until all posted work requests have completed. The last one must have been signalled.
    ///
    /// # Errors
    /// If one of them has failed. Later calls return the error again.
    pub fn settle(&mut self) -> Result<(), SystemError> {
        self.wait(self.posted)
    }

    /// Number of work requests posted so far.
    pub fn posted(&self) -> u64 {
        self.posted
    }

    /// Number of posted work requests that are known to have completed, after a poll of the CQ.
    ///
    /// # Errors
    /// If one of them has failed. Later calls return the error again.
    pub fn completed(&mut self) -> Result<u64, SystemError> {
        self.failed.check()?;
        let mut wc = [Wc::default(); 16];
        let found = self.cq.poll(&mut wc)?.len();
        for wc in &wc[..found] {
            self.has_completed(wc)?;
        }
        Ok(self.completed)
    }

    /// Posts `list` with one doorbell, setting `wr_id` and `SIGNALED`. Waits for free send queue entries. A
    /// `wr_id` that is not 0 is the key of the operation that the work request belongs to. Either all work
    /// requests of a list have a key, or none has.
    ///
    /// # Errors
    /// If the device refuses the list, or an earlier work request has failed.
    pub fn post(&mut self, list: &mut [SendWr<'_>]) -> Result<(), SystemError> {
        self.wait((self.posted + list.len() as u64).saturating_sub(self.depth))?;
        for wr in list.iter_mut() {
            if wr.wr_id != 0 {
                self.qp.mark(OperationKey(wr.wr_id), OperationStep::Posts);
            }
            self.posted += 1;
            wr.wr_id = self.posted;
            if self.posted.is_multiple_of(SIGNAL_EVERY) {
                wr.flags |= SendFlags::SIGNALED;
            }
        }
        Ok(self.qp.post_send(list)?)
    }
}
