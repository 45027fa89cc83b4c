//! The responder: the half of a thread that posts RECVs.

use super::result::{ProgramError, ThreadResult, check};
use super::session::Session;
use super::slots::{from_wr_id, wr_id};
use super::tally::Tally;
use doorbell_systems::Measurement;
use doorbell_systems::series::SeriesPoint;
use doorbell_verbs::{Cq, Provider, Qp, RecvWr, Sge, Wc};
use doorbell_workload::RECV_BATCH;

/// The RECVs of one QP. Messages consume them in order.
#[derive(Clone, Copy, Default)]
struct RecvQueue {
    /// Index of the next RECV to post.
    next: u32,
    /// Number of messages received since RECVs were last reposted.
    taken: u32,
}

/// Receives messages and reposts RECVs, in batches.
pub(super) struct Responder<'a, P: Provider> {
    qps: &'a [Qp<P>],
    cq: &'a Cq<P>,
    queues: Vec<RecvQueue>,
    depth: u32,
    sges: &'a [Sge],
    list: Vec<RecvWr<'a>>,
    /// Pairs of a message length, as completions report it, and the operation kind with this length.
    lengths: Vec<(u32, usize)>,
    tally: &'a Tally,
    wc: [Wc; RECV_BATCH as usize],
}

impl<'a, P: Provider> Responder<'a, P> {
    /// Makes the responder, and fills the receive queues.
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

    /// Counts a message of `length` bytes for its operation kind.
    fn count(&self, length: u32) {
        if let Some((_, kind)) = self.lengths.iter().find(|(known, _)| *known == length) {
            self.tally.received(*kind);
        }
    }

    /// Makes one pass of the poll loop. Returns whether it found anything.
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
        // While RECVs are posted, other threads run, and these may change the measured time. So whether
        // messages count is decided once for all messages of this poll.
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
