//! A thread that posts RECVs.

use super::result::{ProgramError, ThreadResult, check};
use super::session::Session;
use super::slots::{from_wr_id, wr_id};
use super::tally::Tally;
use doorbell_systems::Measurement;
use doorbell_systems::series::SeriesPoint;
use doorbell_verbs::{Cq, Provider, Qp, RecvWr, Sge, Wc};
use doorbell_workload::RECV_BATCH;

/// RECVs of one QP, which its messages take in order.
#[derive(Clone, Copy, Default)]
struct RecvQueue {
    /// Place of the next RECV to post.
    next: u32,
    /// Messages taken whose RECVs are not yet posted anew.
    taken: u32,
}

/// Takes messages and posts RECVs anew, in batches.
pub(super) struct Responder<'a, P: Provider> {
    qps: &'a [Qp<P>],
    cq: &'a Cq<P>,
    queues: Vec<RecvQueue>,
    depth: u32,
    sges: &'a [Sge],
    list: Vec<RecvWr<'a>>,
    /// Which kind of operation a message of each length is, by their lengths as completions have them.
    lengths: Vec<(u32, usize)>,
    tally: &'a Tally,
    wc: [Wc; RECV_BATCH as usize],
}

impl<'a, P: Provider> Responder<'a, P> {
    /// Fills the receive queues.
    pub(super) fn start(
        session: &'a Session<'_, P>,
        sges: &'a [Sge],
    ) -> Result<Responder<'a, P>, ProgramError> {
        let depth = session.recv_depth();
        let mut responder = Responder {
            qps: &session.qps,
            cq: &session.recv_cq,
            queues: vec![RecvQueue::default(); session.qps.len()],
            depth,
            sges,
            list: Vec::with_capacity(RECV_BATCH as usize),
            lengths: session.lengths(),
            tally: session.tally(),
            wc: [Wc::default(); RECV_BATCH as usize],
        };
        for k in 0..responder.qps.len() {
            for first in (0..depth).step_by(RECV_BATCH as usize) {
                responder.post(k, RECV_BATCH.min(depth - first))?;
            }
        }
        Ok(responder)
    }

    /// Posts `n` RECVs to QP `k` with one doorbell.
    fn post(&mut self, k: usize, n: u32) -> Result<(), ProgramError> {
        let queue = &mut self.queues[k];
        self.list.clear();
        for _ in 0..n {
            let place = k * self.depth as usize + queue.next as usize;
            let sge = std::slice::from_ref(&self.sges[place]);
            let sg_list = if sge[0].length == 0 { &[] } else { sge };
            self.list.push(RecvWr { wr_id: wr_id(k, queue.next as usize), sg_list });
            queue.next = if queue.next + 1 == self.depth { 0 } else { queue.next + 1 };
        }
        Ok(self.qps[k].post_recv(&self.list)?)
    }

    /// A message of so many bytes.
    fn count(&self, length: u32) {
        if let Some((_, kind)) = self.lengths.iter().find(|(known, _)| *known == length) {
            self.tally.received(*kind);
        }
    }

    /// One pass of the poll loop; tells whether it found anything.
    pub(super) fn pass(
        &mut self,
        cpu: &P,
        measurement: &Measurement,
        result: &mut ThreadResult,
    ) -> Result<bool, ProgramError> {
        let found = self.cq.poll(&mut self.wc)?.len();
        if found == 0 {
            return Ok(false);
        }
        let now = cpu.now();
        measurement.saw(SeriesPoint { at: now, completed: found as u64, since: None, latency: None });
        result.accounts.received += found as u64;
        // Posting RECVs lets others go on, who may decide on the measured time: whether these count is said once.
        let counts = measurement.contains(now);
        if counts {
            result.received += found as u64;
        }
        for i in 0..found {
            check(&self.wc[i])?;
            if counts {
                self.count(self.wc[i].byte_len);
            }
            let (k, _) = from_wr_id(self.wc[i].wr_id);
            self.queues[k].taken += 1;
            if self.queues[k].taken == RECV_BATCH.min(self.depth) {
                self.post(k, self.queues[k].taken)?;
                self.queues[k].taken = 0;
            }
        }
        Ok(true)
    }
}
