//! The counts of a QP: as little work as possible while the program runs.

use super::tally::Tally;
use crate::memory::records::PROCESSES;
use doorbell_verbs::{Opcode, QpType, SendFlags, SendWr};
use std::collections::BTreeMap;

/// What decides the cost of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub(crate) opcode: Opcode,
    pub(crate) payload: u32,
    pub(crate) sges: u32,
    pub(crate) inline: bool,
    pub(crate) signaled: bool,
}

/// A shape and the length of a list in one word, from the lowest bit on: payload, length, SGEs,
/// opcode, inline, signalled.
const LIST_AT: u32 = 32;
const SGES_AT: u32 = 48;
const OPCODE_AT: u32 = 56;
const INLINE_AT: u32 = 60;
const SIGNALED_AT: u32 = 61;

const _: () = assert!(crate::device::MAX_WR < 1 << 16 && crate::device::MAX_SGE < 1 << 8);

impl Shape {
    #[inline]
    fn key(&self) -> u64 {
        u64::from(self.payload)
            | u64::from(self.sges) << SGES_AT
            | (self.opcode as u64) << OPCODE_AT
            | u64::from(self.inline) << INLINE_AT
            | u64::from(self.signaled) << SIGNALED_AT
    }

    /// The shape, and the length of the list that it was posted in.
    fn from_key(key: u64) -> (Shape, u32) {
        let shape = Shape {
            opcode: Opcode::ALL[(key >> OPCODE_AT) as usize & 0xf],
            payload: key as u32,
            sges: (key >> SGES_AT) as u32 & 0xff,
            inline: key >> INLINE_AT & 1 != 0,
            signaled: key >> SIGNALED_AT & 1 != 0,
        };
        (shape, (key >> LIST_AT) as u32 & 0xffff)
    }
}

/// What a QP has posted and received.
#[derive(Clone, Debug)]
pub(crate) struct QpCounts {
    pub(crate) qp_num: u32,
    pub(crate) qp_type: QpType,
    /// Sum and greatest of the work requests outstanding when one was posted, with that one.
    pub(crate) outstanding_sum: u64,
    pub(crate) outstanding_max: u64,
    pub(crate) recvs: RecvCounts,
    /// Threads that have posted, and the last one as the C library names it.
    pub(crate) threads: Vec<u32>,
    last_thread: libc::pthread_t,
    /// Processes that it has sent to, a bit for each, and the last one.
    peers: [u64; PROCESSES / 64],
    last_peer: Option<u32>,
    /// Lists of one shape, by that and their length.
    uniform: Tally,
    /// Work requests of other lists by shape and length of their list, and those lists by length.
    mixed: Tally,
    mixed_lists: Tally,
    list: List,
}

/// The list being posted: runs of like work requests.
#[derive(Clone, Debug, Default)]
struct List {
    length: u32,
    /// Shape of the last run, and where it begins.
    key: u64,
    from: u32,
    /// Shapes of the runs before it, with their lengths.
    before: Vec<(u64, u32)>,
}

/// RECVs, and the messages that came.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecvCounts {
    posts: Tally,
    messages: Tally,
}

impl QpCounts {
    pub(crate) fn new(qp_num: u32, qp_type: QpType) -> QpCounts {
        QpCounts {
            qp_num,
            qp_type,
            outstanding_sum: 0,
            outstanding_max: 0,
            recvs: RecvCounts::default(),
            threads: Vec::new(),
            last_thread: 0,
            peers: [0; PROCESSES / 64],
            last_peer: None,
            uniform: Tally::default(),
            mixed: Tally::default(),
            mixed_lists: Tally::default(),
            list: List::default(),
        }
    }

    /// A work request of a list is posted, as the `outstanding`-th that waits for its completion.
    #[inline]
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
        let (key, list) = (shape.key(), &mut self.list);
        if key != list.key {
            list.begin_run(key);
        }
        list.length += 1;
        self.outstanding_sum += outstanding;
        self.outstanding_max = self.outstanding_max.max(outstanding);
    }

    /// The list ends: it took one doorbell.
    #[inline]
    pub(crate) fn list_ends(&mut self, peer: u32) {
        let list = &mut self.list;
        if list.length == 0 {
            return;
        }
        if list.from == 0 {
            self.uniform.add(list.key | u64::from(list.length) << LIST_AT, 1);
        } else {
            self.mixed_list_ends();
        }
        (self.list.length, self.list.from) = (0, 0);
        // SAFETY: takes nothing, cannot fail.
        let thread = unsafe { libc::pthread_self() };
        if self.last_thread != thread || self.last_peer != Some(peer) {
            (self.last_thread, self.last_peer) = (thread, Some(peer));
            self.remember(peer);
        }
    }

    #[cold]
    fn mixed_list_ends(&mut self) {
        let list = &mut self.list;
        let length = u64::from(list.length);
        let last = (list.key, list.length - list.from);
        for (key, run) in list.before.drain(..).chain([last]) {
            self.mixed.add(key | length << LIST_AT, u64::from(run));
        }
        self.mixed_lists.add(length, 1);
    }

    #[cold]
    fn remember(&mut self, peer: u32) {
        self.peers[peer as usize % PROCESSES / 64] |= 1 << (peer % 64);
        let thread = crate::sync::thread_id();
        if !self.threads.contains(&thread) {
            self.threads.push(thread);
        }
    }

    /// Work requests by shape and by the length of the list that they were posted in.
    pub(crate) fn sends(&self) -> BTreeMap<(Shape, u32), u64> {
        let mut all = BTreeMap::new();
        for (key, lists) in self.uniform.counts() {
            let (shape, length) = Shape::from_key(key);
            *all.entry((shape, length)).or_default() += lists * u64::from(length);
        }
        for (key, n) in self.mixed.counts() {
            *all.entry(Shape::from_key(key)).or_default() += n;
        }
        all
    }

    /// Lists by length: doorbells.
    pub(crate) fn doorbells(&self) -> BTreeMap<u32, u64> {
        let mut all = BTreeMap::new();
        let uniform = self.uniform.counts().into_iter().map(|(key, n)| (Shape::from_key(key).1, n));
        let mixed = self.mixed_lists.counts().into_iter().map(|(length, n)| (length as u32, n));
        for (length, n) in uniform.chain(mixed) {
            *all.entry(length).or_default() += n;
        }
        all
    }

    /// Processes that it has sent to.
    pub(crate) fn peers(&self) -> impl Iterator<Item = u32> {
        (0..PROCESSES as u32).filter(|peer| self.peers[*peer as usize / 64] >> (peer % 64) & 1 != 0)
    }
}

impl List {
    #[cold]
    fn begin_run(&mut self, key: u64) {
        if self.length > 0 {
            self.before.push((self.key, self.length - self.from));
            self.from = self.length;
        }
        self.key = key;
    }
}

impl RecvCounts {
    /// A call has posted so many RECVs, of at most so many SGEs.
    pub(crate) fn posted(&mut self, recvs: u32, sges: u32) {
        self.posts.add(u64::from(recvs) << 8 | u64::from(sges), 1);
    }

    /// A message of so many bytes has come: a WRITE with immediate, or a SEND, whose bytes on UD
    /// include the room of the GRH.
    pub(crate) fn came(&mut self, bytes: u32, write: bool) {
        self.messages.add(u64::from(bytes) << 1 | u64::from(write), 1);
    }

    /// Calls that posted RECVs: number of RECVs, most SGEs of one, how many such calls.
    pub(crate) fn posts(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        self.posts.counts().into_iter().map(|(key, n)| ((key >> 8) as u32, key as u32 & 0xff, n))
    }

    /// Messages: bytes, whether they were WRITEs with immediate, how many.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (u32, bool, u64)> {
        self.messages.counts().into_iter().map(|(key, n)| ((key >> 1) as u32, key & 1 != 0, n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_verbs::{RemoteAddr, SendOp, Sge};

    #[test]
    fn a_shape_survives_its_key() {
        for opcode in Opcode::ALL {
            for (payload, sges, inline, signaled) in [(u32::MAX, 32, true, false), (0, 0, false, true)] {
                let shape = Shape { opcode, payload, sges, inline, signaled };
                for list in [1, 1 << 15] {
                    assert_eq!(Shape::from_key(shape.key() | u64::from(list) << LIST_AT), (shape, list));
                }
            }
        }
    }

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
        counts.list_ends(1023);
        counts.list_ends(1);
        let plain = Shape { opcode: Opcode::Write, payload: 8, sges: 1, inline: false, signaled: false };
        let inline = Shape { inline: true, signaled: true, ..plain };
        assert_eq!(counts.sends(), BTreeMap::from([((plain, 2), 7), ((inline, 2), 1)]));
        assert_eq!(counts.doorbells(), BTreeMap::from([(2, 4)]));
        assert_eq!((counts.outstanding_sum, counts.outstanding_max), (20, 6));
        assert_eq!(counts.peers().collect::<Vec<_>>(), [0, 1023]);
        assert_eq!(counts.threads.len(), 1);
    }

    #[test]
    fn nothing_is_allocated_for_what_was_seen_before() {
        let mut counts = QpCounts::new(2, QpType::Ud);
        let sges = [Sge::default()];
        let write = SendWr::new(0, SendOp::Write(RemoteAddr::default()), &sges);
        let send = SendWr::new(0, SendOp::Send, &sges);
        let mut recvs = RecvCounts::default();
        let mut round = |n: u32| {
            counts.posted(&write, 64 << (n % 8), false, n.is_multiple_of(16), 1);
            counts.posted(&send, 8, true, true, 2);
            counts.list_ends(n % 100);
            counts.posted(&send, n % 32, false, true, 1);
            counts.list_ends(n % 100);
            recvs.posted(n % 4, 1);
            recvs.came(n % 32, false);
        };
        (0..400).for_each(&mut round);
        let allocated = allocation_counter::measure(|| (0..10_000).for_each(round));
        assert_eq!(allocated.count_total, 0);
    }
}
