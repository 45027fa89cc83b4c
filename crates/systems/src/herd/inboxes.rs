//! QPs that share a CQ for inbound messages. Each QP has RECVs of its own.

use crate::SystemError;
use crate::device::check;
use crate::recv_ring::RecvRing;
use doorbell_verbs::{Cq, Provider, Qp, Wc, WcStatus};
use std::collections::HashMap;

/// QPs that share a CQ for inbound messages, numbered from 0.
pub(super) struct Inboxes<P: Provider> {
    cq: Cq<P>,
    boxes: Vec<(Qp<P>, RecvRing<P>)>,
    by_qpn: HashMap<u32, usize>,
    /// The QPs to which slots were returned since the last [`Inboxes::post`].
    touched: Vec<usize>,
}

impl<P: Provider> Inboxes<P> {
    /// No QPs yet; inbound messages will complete in `cq`.
    pub(super) fn new(cq: Cq<P>) -> Inboxes<P> {
        Inboxes { cq, boxes: Vec::new(), by_qpn: HashMap::new(), touched: Vec::new() }
    }

    /// Adds a QP that may receive, and posts all its RECVs.
    pub(super) fn add(&mut self, qp: Qp<P>, mut ring: RecvRing<P>) -> Result<(), SystemError> {
        ring.post(&qp, true)?;
        self.by_qpn.insert(qp.qp_num(), self.boxes.len());
        self.boxes.push((qp, ring));
        Ok(())
    }

    /// The CQ in which inbound messages complete.
    pub(super) fn cq(&self) -> &Cq<P> {
        &self.cq
    }

    /// Polls completions into `wc`. Returns each completion with the number of its QP.
    pub(super) fn poll(&self, wc: &mut [Wc]) -> Result<Vec<(usize, Wc)>, SystemError> {
        self.poll_without(&[], wc)
    }

    /// Polls as [`Inboxes::poll`] does, but leaves out flushed RECVs. The peer of such a QP has left: a reply
    /// to it has failed. If the peer ended with an error, the peer reports it.
    pub(super) fn poll_present(&self, wc: &mut [Wc]) -> Result<Vec<(usize, Wc)>, SystemError> {
        self.poll_without(&[WcStatus::WrFlushErr], wc)
    }

    fn poll_without(&self, left: &[WcStatus], wc: &mut [Wc]) -> Result<Vec<(usize, Wc)>, SystemError> {
        let found = self.cq.poll(wc)?.iter().filter(|wc| !left.contains(&wc.status));
        let numbered = |wc: &Wc| match check(wc) {
            Ok(()) => self.by_qpn.get(&wc.qp_num).map(|number| Ok((*number, *wc))),
            Err(error) => Some(Err(error)),
        };
        found.filter_map(numbered).collect()
    }

    /// The RECVs of a QP.
    pub(super) fn ring(&self, number: usize) -> &RecvRing<P> {
        &self.boxes[number].1
    }

    /// Returns the slot of a message that has been handled.
    pub(super) fn give(&mut self, number: usize, slot: u64) {
        self.boxes[number].1.give(slot);
        if !self.touched.contains(&number) {
            self.touched.push(number);
        }
    }

    /// Posts the RECVs of returned slots if there are enough of them.
    pub(super) fn post(&mut self) -> Result<(), SystemError> {
        self.touched.sort_unstable();
        for number in self.touched.drain(..) {
            let (qp, ring) = &mut self.boxes[number];
            ring.post(qp, false)?;
        }
        Ok(())
    }
}
