//! Counting while the program runs: as little as possible.

use doorbell_verbs::{Opcode, QpType, SendFlags, SendWr};
use std::collections::{BTreeMap, HashMap};

/// What decides the cost of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) opcode: Opcode,
    pub(crate) payload: u32,
    pub(crate) sges: u32,
    pub(crate) inline: bool,
    pub(crate) signaled: bool,
}

/// What a QP has posted and received.
#[derive(Clone, Debug)]
pub(crate) struct QpCounts {
    pub(crate) qp_num: u32,
    pub(crate) qp_type: QpType,
    /// Work requests by shape and by the length of the list that they were posted in.
    pub(crate) sends: HashMap<(Shape, u32), u64>,
    /// Lists by length: doorbells.
    pub(crate) doorbells: BTreeMap<u32, u64>,
    /// Sum and greatest of the work requests outstanding when one was posted, with that one.
    pub(crate) outstanding_sum: u64,
    pub(crate) outstanding_max: u64,
    pub(crate) recvs: RecvCounts,
    /// Threads that have posted.
    pub(crate) threads: Vec<u32>,
    /// Processes that it has sent to.
    pub(crate) peers: Vec<u32>,
    /// The list being posted: runs of like work requests.
    list: Vec<(Shape, u32)>,
    /// Where the last list, of one shape, was counted.
    last: Option<((Shape, u32), u64)>,
}

/// RECVs, and the messages that came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecvCounts {
    /// Calls that posted RECVs, by number of RECVs and most SGEs of one.
    pub(crate) posts: BTreeMap<(u32, u32), u64>,
    /// Messages by payload bytes, and whether they were WRITEs with immediate.
    pub(crate) messages: BTreeMap<(u32, bool), u64>,
}

impl QpCounts {
    pub(crate) fn new(qp_num: u32, qp_type: QpType) -> QpCounts {
        QpCounts {
            qp_num,
            qp_type,
            sends: HashMap::new(),
            doorbells: BTreeMap::new(),
            outstanding_sum: 0,
            outstanding_max: 0,
            recvs: RecvCounts::default(),
            threads: Vec::new(),
            peers: Vec::new(),
            list: Vec::new(),
            last: None,
        }
    }

    /// A work request of a list is posted, as the `outstanding`-th that waits for its completion.
    pub(crate) fn posted(
        &mut self,
        wr: &SendWr<'_>,
        payload: u32,
        inline: bool,
        signaled: bool,
        outstanding: u64,
    ) {
        let shape = Shape {
            opcode: wr.op.opcode(),
            payload,
            sges: wr.sg_list.len() as u32,
            inline: inline || wr.flags.contains(SendFlags::INLINE),
            signaled,
        };
        match self.list.last_mut() {
            Some((last, run)) if *last == shape => *run += 1,
            _ => self.list.push((shape, 1)),
        }
        self.outstanding_sum += outstanding;
        self.outstanding_max = self.outstanding_max.max(outstanding);
    }

    /// The list ends: it took one doorbell.
    pub(crate) fn list_ends(&mut self, peer: u32) {
        let length: u32 = self.list.iter().map(|(_, run)| run).sum();
        if length == 0 {
            return;
        }
        remember(&mut self.threads, crate::lock::thread_id());
        remember(&mut self.peers, peer);
        if let [(shape, run)] = self.list[..] {
            self.list.clear();
            // Most lists are like the one before; those are added up apart from the tables.
            match &mut self.last {
                Some((key, lists)) if *key == (shape, run) => *lists += 1,
                _ => {
                    self.settle();
                    self.last = Some(((shape, run), 1));
                }
            }
            return;
        }
        for (shape, run) in std::mem::take(&mut self.list) {
            *self.sends.entry((shape, length)).or_default() += u64::from(run);
        }
        *self.doorbells.entry(length).or_default() += 1;
    }

    /// Puts what was added up apart into the tables.
    pub(crate) fn settle(&mut self) {
        if let Some(((shape, length), lists)) = self.last.take() {
            *self.sends.entry((shape, length)).or_default() += lists * u64::from(length);
            *self.doorbells.entry(length).or_default() += lists;
        }
    }
}

/// Adds a number that is not there yet; few are expected.
fn remember(known: &mut Vec<u32>, number: u32) {
    if known.last() != Some(&number) && !known.contains(&number) {
        known.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_verbs::{RemoteAddr, SendOp, Sge};

    #[test]
    fn lists_are_counted_by_shape_and_length() {
        let mut counts = QpCounts::new(2, QpType::Rc);
        let sges = [Sge::default()];
        let write = SendWr::new(0, SendOp::Write(RemoteAddr::default()), &sges);
        for _ in 0..3 {
            counts.posted(&write, 8, false, false, 1);
            counts.posted(&write, 8, false, false, 2);
            counts.list_ends(0);
        }
        counts.posted(&write, 8, true, true, 5);
        counts.posted(&write, 8, false, false, 6);
        counts.list_ends(1);
        counts.list_ends(1);
        counts.settle();
        let plain = Shape { opcode: Opcode::Write, payload: 8, sges: 1, inline: false, signaled: false };
        let inline = Shape { inline: true, signaled: true, ..plain };
        assert_eq!(counts.sends[&(plain, 2)], 7);
        assert_eq!(counts.sends[&(inline, 2)], 1);
        assert_eq!(counts.doorbells, BTreeMap::from([(2, 4)]));
        assert_eq!((counts.outstanding_sum, counts.outstanding_max), (20, 6));
        assert_eq!(counts.peers, [0, 1]);
    }
}
