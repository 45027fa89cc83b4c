//! Counts the posts and receives of a QP, at little cost for the running program.

use super::board::{Board, BoardRecord, Listed};
use super::drops::DropCause;
use super::tally::{Tally, TallyRecord};
use crate::limits::OWN;
use crate::qp_numbers::{MULTICAST_QPN, PROCESSES};
use doorbell_abi::CEnum;
use doorbell_verbs::{Opcode, QpType, SendFlags, SendWr, Span};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// The properties of a work request that decide its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PostedShape {
    pub(crate) opcode: Opcode,
    pub(crate) payload: u32,
    pub(crate) sges: u32,
    pub(crate) inline: bool,
    pub(crate) signaled: bool,
}

/// Bit positions in a key, one word with a shape and the length of its list. From bit 0 on: payload, list
/// length, SGEs, opcode, inline, signalled.
const LIST_AT: u32 = 32;
const SGES_AT: u32 = 48;
const OPCODE_AT: u32 = 56;
const INLINE_AT: u32 = 60;
const SIGNALED_AT: u32 = 61;

const _: () = assert!(OWN.wr < 1 << 16 && OWN.sge < 1 << 8);

impl PostedShape {
    #[inline]
    fn key(&self) -> u64 {
        u64::from(self.payload)
            | u64::from(self.sges) << SGES_AT
            | (self.opcode as u64) << OPCODE_AT
            | u64::from(self.inline) << INLINE_AT
            | u64::from(self.signaled) << SIGNALED_AT
    }

    /// Whether the NIC reads the payload from memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        !self.inline && self.payload > 0
    }

    /// The shape of a key, and the length of its list. `None` for a key of no shape, because the program can
    /// overwrite its board.
    fn from_key(key: u64) -> Option<(PostedShape, u32)> {
        let shape = PostedShape {
            opcode: *Opcode::ALL.get((key >> OPCODE_AT) as usize & 0xf)?,
            payload: key as u32,
            sges: (key >> SGES_AT) as u32 & 0xff,
            inline: key >> INLINE_AT & 1 != 0,
            signaled: key >> SIGNALED_AT & 1 != 0,
        };
        Some((shape, (key >> LIST_AT) as u32 & 0xffff))
    }
}

/// The counts of a QP on a board.
///
/// All accesses are Relaxed. `num` and `qp_type` are stored before `Board::list` publishes the record. The
/// other words are counters, which order nothing. Only the holder of the [`QpCounter`] changes them. So a
/// load and a store suffice, and a reader may find counts of different moments.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct QpRecord {
    before: AtomicU64,
    num: AtomicU64,
    qp_type: AtomicU64,
    /// Sum and maximum of the work requests outstanding at each post, including the new one.
    outstanding_sum: AtomicU64,
    outstanding_max: AtomicU64,
    /// Messages of UC and UD that no receiver took, and their causes.
    undelivered: AtomicU64,
    drops: TallyRecord,
    /// RNR NAKs, and the nanoseconds that they ask the requester to wait.
    rnr_naks: AtomicU64,
    rnr_wait_ns: AtomicU64,
    /// Messages to multicast groups.
    multicast: AtomicU64,
    /// Time-outs without an answer, and the transmissions that were repeated after them.
    timeouts: AtomicU64,
    retries: AtomicU64,
    /// Index of the CQ of the QP's sends in its process.
    send_cq: AtomicU64,
    /// The number of outstanding work requests after the newest post.
    depth: AtomicU64,
    /// How often the program let work requests complete before it posted again, and the sum of the depths
    /// that it had reached by then.
    fills: AtomicU64,
    filled_sum: AtomicU64,
    /// Attributes of the QP at its newest posts, each plus 1, or 0 if unknown: bytes of `path_mtu`,
    /// `max_rd_atomic`, and the peer's `max_dest_rd_atomic`. The last two are known only after a READ or
    /// atomic.
    path_mtu: AtomicU64,
    max_rd_atomic: AtomicU64,
    peer_rd_atomic: AtomicU64,
    /// One bit for the slot of each process to which the QP has sent.
    peers: [AtomicU64; PROCESSES / 64],
    /// Lists of work requests of one shape, counted by shape and length.
    uniform: TallyRecord,
    /// Lists of several shapes: `mixed` counts their work requests by shape and list length, `mixed_lists`
    /// counts the lists by length.
    mixed: TallyRecord,
    mixed_lists: TallyRecord,
    /// Threads that have posted.
    threads: TallyRecord,
    /// Distances above 1 from one signalled work request to the next.
    signal_gaps: TallyRecord,
    recvs: RecvRecord,
}

/// RECVs and received messages on a board.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RecvRecord {
    posts: TallyRecord,
    messages: TallyRecord,
}

// SAFETY: all fields are atomics.
unsafe impl BoardRecord for QpRecord {}

impl Listed for QpRecord {
    fn before(&self) -> &AtomicU64 {
        &self.before
    }
}

/// Counts the posts of a QP.
#[derive(Debug)]
pub struct QpCounter {
    record: &'static QpRecord,
    uniform: Tally,
    mixed: Tally,
    mixed_lists: Tally,
    threads: Tally,
    signal_gaps: Tally,
    drops: Tally,
    /// Work requests since the last signalled one.
    unsignaled: u64,
    /// The numbers of [`QpRecord`] with these names, including the current list.
    depth: u64,
    fills: u64,
    filled_sum: u64,
    /// Bytes of the current `path_mtu`; `None` for a QP that is not connected.
    path_mtu: Option<u32>,
    /// Whether the record has the limits of READs and atomics of the current connection.
    knows_reads: bool,
    /// The last thread that posted (pthread_self(3)), and the slot of the process to which it sent.
    last_thread: libc::pthread_t,
    last_peer: Option<u32>,
    list: List,
}

/// The list being posted, as runs of equal work requests. It is counted at its end, where a NIC would get the
/// doorbell.
#[derive(Clone, Debug, Default)]
struct List {
    length: u32,
    /// Shape of the last run, and the index of its first request.
    key: u64,
    from: u32,
    /// Shapes of the earlier runs, with their lengths.
    before: Vec<(u64, u32)>,
    outstanding_sum: u64,
    /// The most requests outstanding at a post of the list.
    outstanding: u64,
}

/// Counts RECVs and received messages.
#[derive(Debug)]
pub struct RecvCounter {
    posts: Tally,
    messages: Tally,
}

/// The counts of a QP, as read from its record.
#[derive(Clone, Debug)]
pub(crate) struct QpCounts {
    pub(crate) qp_num: u32,
    pub(crate) qp_type: QpType,
    pub(crate) outstanding_sum: u64,
    pub(crate) outstanding_max: u64,
    pub(crate) undelivered: u64,
    /// The undelivered messages by the name of their [`DropCause`].
    pub(crate) drops: BTreeMap<&'static str, u64>,
    pub(crate) rnr_naks: u64,
    pub(crate) rnr_wait_ns: u64,
    pub(crate) multicast: u64,
    pub(crate) timeouts: u64,
    pub(crate) retries: u64,
    pub(crate) send_cq: u64,
    /// The mean number of outstanding work requests at which the program waited for completions.
    pub(crate) depth: f64,
    /// Bytes.
    pub(crate) path_mtu: Option<u32>,
    pub(crate) max_rd_atomic: Option<u32>,
    pub(crate) peer_rd_atomic: Option<u32>,
    pub(crate) recvs: RecvCounts,
    pub(crate) threads: Vec<u32>,
    /// Distances above 1 from one signalled work request to the next, with their numbers.
    pub(crate) signal_gaps: Vec<(u64, u64)>,
    peers: [u64; PROCESSES / 64],
    uniform: Vec<(u64, u64)>,
    mixed: Vec<(u64, u64)>,
    mixed_lists: Vec<(u64, u64)>,
}

/// RECVs and received messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecvCounts {
    posts: Vec<(u64, u64)>,
    messages: Vec<(u64, u64)>,
}

impl QpCounter {
    /// Creates the counters of a QP, and adds their record to `list`. `send_cq` is the index of the CQ of its
    /// sends. `None` if the board has no room.
    pub(crate) fn new(
        board: &'static Board,
        list: &AtomicU64,
        (num, qp_type): (u32, QpType),
        send_cq: u32,
    ) -> Option<(QpCounter, RecvCounter)> {
        let (at, record) = board.make::<QpRecord>()?;
        record.num.store(num.into(), Relaxed);
        record.qp_type.store(qp_type.to_c().into(), Relaxed);
        record.send_cq.store(send_cq.into(), Relaxed);
        board.list(list, at, record);
        let tally = |record| Tally::new(board, record);
        let counter = QpCounter {
            record,
            uniform: tally(&record.uniform),
            mixed: tally(&record.mixed),
            mixed_lists: tally(&record.mixed_lists),
            threads: tally(&record.threads),
            signal_gaps: tally(&record.signal_gaps),
            drops: tally(&record.drops),
            unsignaled: 0,
            depth: 0,
            fills: 0,
            filled_sum: 0,
            path_mtu: None,
            knows_reads: false,
            last_thread: 0,
            last_peer: None,
            list: List::default(),
        };
        Some((counter, RecvCounter::new(board, &record.recvs)))
    }

    /// Counts a posted work request of the current list. `outstanding` includes this request.
    #[inline]
    pub fn posted(&mut self, wr: &SendWr<'_>, payload: u32, inline: bool, signaled: bool, outstanding: u64) {
        let shape = PostedShape {
            opcode: wr.op.opcode(),
            payload,
            sges: wr.sg_list.len() as u32,
            inline: inline || wr.flags.contains(SendFlags::INLINE),
            signaled,
        };
        if wr.dest.is_some_and(|dest| dest.qpn == MULTICAST_QPN) {
            self.multicast();
        }
        self.unsignaled += 1;
        if signaled {
            if self.unsignaled > 1 {
                self.signal_gaps.add(self.unsignaled, 1);
            }
            self.unsignaled = 0;
        }
        // Work requests have completed since the last post, so the program had filled its window.
        if outstanding <= self.depth {
            (self.fills, self.filled_sum) = (self.fills + 1, self.filled_sum + self.depth);
        }
        self.depth = outstanding;
        let (key, list) = (shape.key(), &mut self.list);
        if key != list.key {
            list.begin_run(key);
        }
        list.length += 1;
        list.outstanding_sum += outstanding;
        list.outstanding = list.outstanding.max(outstanding);
    }

    /// Counts a complete message of UC or UD that no receiver took.
    #[cold]
    pub fn undelivered(&mut self, cause: DropCause) {
        let count = &self.record.undelivered;
        count.store(count.load(Relaxed) + 1, Relaxed);
        self.drops.add(cause as u64, 1);
    }

    /// Counts an RNR NAK that asks the requester to wait this long.
    #[cold]
    pub fn waits_for_recv(&mut self, wait: Span) {
        let QpRecord { rnr_naks, rnr_wait_ns, .. } = self.record;
        rnr_naks.store(rnr_naks.load(Relaxed) + 1, Relaxed);
        rnr_wait_ns.store(rnr_wait_ns.load(Relaxed) + wait.as_ps() / 1000, Relaxed);
    }

    /// Counts a time-out without an answer. `is_retried` tells whether the message is sent again.
    #[cold]
    pub fn timed_out(&mut self, is_retried: bool) {
        let QpRecord { timeouts, retries, .. } = self.record;
        timeouts.store(timeouts.load(Relaxed) + 1, Relaxed);
        retries.store(retries.load(Relaxed) + u64::from(is_retried), Relaxed);
    }

    /// Notes that ibv_modify_qp(3) was called. `path_mtu` has the bytes of a connected QP's `path_mtu`.
    pub fn modified(&mut self, path_mtu: Option<u32>) {
        (self.path_mtu, self.knows_reads) = (path_mtu, false);
        // The next post records the attributes. A QP that only receives has no such post.
        self.last_peer = None;
        if self.record.path_mtu.load(Relaxed) == 0 {
            self.record_path_mtu();
        }
    }

    /// Begins again after the QP was reset: no work request is outstanding, and none waits for a signal.
    pub fn begin_again(&mut self) {
        (self.depth, self.unsignaled) = (0, 0);
        self.modified(None);
    }

    fn record_path_mtu(&self) {
        self.record.path_mtu.store(self.path_mtu.map_or(0, |bytes| u64::from(bytes) + 1), Relaxed);
    }

    /// Whether the counter needs the limits of READs and atomics, see [`QpCounter::reads_up_to`].
    pub fn lacks_reads(&self) -> bool {
        !self.knows_reads
    }

    /// Records the limits of outstanding READs and atomics: the QP's `max_rd_atomic`, and the peer's
    /// `max_dest_rd_atomic` if the peer was found.
    pub fn reads_up_to(&mut self, max_rd_atomic: u8, peer: Option<u32>) {
        self.record.max_rd_atomic.store(u64::from(max_rd_atomic) + 1, Relaxed);
        self.record.peer_rd_atomic.store(peer.map_or(0, |peer| u64::from(peer) + 1), Relaxed);
        self.knows_reads = peer.is_some();
    }

    /// Counts a message to a multicast group.
    #[cold]
    fn multicast(&mut self) {
        let count = &self.record.multicast;
        count.store(count.load(Relaxed) + 1, Relaxed);
    }

    /// Counts the current list, which ends here and took one doorbell. `peer` is the slot of the process to
    /// which it was sent. `thread_id` returns the kernel's id of this thread. It is called only if the thread
    /// or the peer has changed.
    #[inline]
    pub fn list_ends(&mut self, peer: u32, thread_id: impl FnOnce() -> u32) {
        let list = &mut self.list;
        if list.length == 0 {
            return;
        }
        if list.from == 0 {
            self.uniform.add(list.key | u64::from(list.length) << LIST_AT, 1);
        } else {
            self.mixed_list_ends();
        }
        let (record, list) = (self.record, &mut self.list);
        record.outstanding_sum.store(record.outstanding_sum.load(Relaxed) + list.outstanding_sum, Relaxed);
        if list.outstanding > record.outstanding_max.load(Relaxed) {
            record.outstanding_max.store(list.outstanding, Relaxed);
        }
        (list.length, list.from, list.outstanding_sum, list.outstanding) = (0, 0, 0, 0);
        record.depth.store(self.depth, Relaxed);
        record.fills.store(self.fills, Relaxed);
        record.filled_sum.store(self.filled_sum, Relaxed);
        // By libc, because this is one load. The standard library's thread counts a reference, and gettid(2)
        // is a system call. SAFETY: the call takes no arguments and cannot fail.
        let thread = unsafe { libc::pthread_self() };
        if self.last_thread != thread || self.last_peer != Some(peer) {
            (self.last_thread, self.last_peer) = (thread, Some(peer));
            self.remember(peer, thread_id());
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
    fn remember(&mut self, peer: u32, thread_id: u32) {
        let word = &self.record.peers[peer as usize % PROCESSES / 64];
        word.store(word.load(Relaxed) | 1 << (peer % 64), Relaxed);
        self.record_path_mtu();
        self.threads.add(thread_id.into(), 1);
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

impl RecvCounter {
    pub(crate) fn new(board: &'static Board, record: &'static RecvRecord) -> RecvCounter {
        RecvCounter { posts: Tally::new(board, &record.posts), messages: Tally::new(board, &record.messages) }
    }

    /// Counts a call that posted `recvs` RECVs, of at most `sges` SGEs each.
    #[inline]
    pub fn posted(&mut self, recvs: u32, sges: u32) {
        self.posts.add(u64::from(recvs) << 8 | u64::from(sges), 1);
    }

    /// Counts a received message of `bytes` bytes: a WRITE with immediate if `write`, otherwise a SEND. On UD
    /// the bytes include the room for the GRH.
    #[inline]
    pub fn came(&mut self, bytes: u32, write: bool) {
        self.messages.add(u64::from(bytes) << 1 | u64::from(write), 1);
    }
}

impl QpCounts {
    /// Reads a record. `None` if the program has overwritten the QP type.
    pub(crate) fn of(board: &Board, record: &QpRecord) -> Option<QpCounts> {
        let known = |attribute: &AtomicU64| attribute.load(Relaxed).checked_sub(1).map(|value| value as u32);
        // The newest depth counts only if there is no other, because the program may still have been posting.
        let depth = match record.fills.load(Relaxed) {
            0 => record.depth.load(Relaxed) as f64,
            fills => record.filled_sum.load(Relaxed) as f64 / fills as f64,
        };
        Some(QpCounts {
            qp_num: record.num.load(Relaxed) as u32,
            qp_type: QpType::from_c(record.qp_type.load(Relaxed) as u32)?,
            outstanding_sum: record.outstanding_sum.load(Relaxed),
            outstanding_max: record.outstanding_max.load(Relaxed),
            undelivered: record.undelivered.load(Relaxed),
            drops: (record.drops.counts(board).into_iter())
                .filter_map(|(cause, n)| Some((DropCause::name_of(cause)?, n)))
                .collect(),
            rnr_naks: record.rnr_naks.load(Relaxed),
            rnr_wait_ns: record.rnr_wait_ns.load(Relaxed),
            multicast: record.multicast.load(Relaxed),
            timeouts: record.timeouts.load(Relaxed),
            retries: record.retries.load(Relaxed),
            send_cq: record.send_cq.load(Relaxed),
            depth,
            path_mtu: known(&record.path_mtu),
            max_rd_atomic: known(&record.max_rd_atomic),
            peer_rd_atomic: known(&record.peer_rd_atomic),
            recvs: RecvCounts::of(board, &record.recvs),
            threads: record.threads.counts(board).into_iter().map(|(thread, _)| thread as u32).collect(),
            signal_gaps: record.signal_gaps.counts(board),
            peers: record.peers.each_ref().map(|word| word.load(Relaxed)),
            uniform: record.uniform.counts(board),
            mixed: record.mixed.counts(board),
            mixed_lists: record.mixed_lists.counts(board),
        })
    }

    /// The READs and atomics that the QP could have outstanding, by its own limit and the peer's limit.
    /// `None` if the QP posted none.
    pub(crate) fn rd_atomic(&self) -> Option<u32> {
        let own = self.max_rd_atomic?;
        Some(self.peer_rd_atomic.map_or(own, |peer| own.min(peer)))
    }

    /// Work requests by their shape and by the length of their list.
    pub(crate) fn sends(&self) -> BTreeMap<(PostedShape, u32), u64> {
        let mut all = BTreeMap::new();
        let of_key = |(key, n): &(u64, u64)| PostedShape::from_key(*key).map(|shape| (shape, *n));
        for ((shape, length), lists) in self.uniform.iter().filter_map(of_key) {
            *all.entry((shape, length)).or_default() += lists * u64::from(length);
        }
        for (shape, n) in self.mixed.iter().filter_map(of_key) {
            *all.entry(shape).or_default() += n;
        }
        all
    }

    /// Lists by length. Each list took one doorbell.
    pub(crate) fn doorbells(&self) -> BTreeMap<u32, u64> {
        let mut all = BTreeMap::new();
        let length = |key| PostedShape::from_key(key).map(|(_, length)| length);
        let uniform = self.uniform.iter().filter_map(|(key, n)| Some((length(*key)?, n)));
        let mixed = self.mixed_lists.iter().map(|(length, n)| (*length as u32, n));
        for (length, n) in uniform.chain(mixed) {
            *all.entry(length).or_default() += n;
        }
        all
    }

    /// Slots of the processes to which the QP has sent.
    pub(crate) fn peers(&self) -> impl Iterator<Item = u32> {
        (0..PROCESSES as u32).filter(|peer| self.peers[*peer as usize / 64] >> (peer % 64) & 1 != 0)
    }

    /// Replaces the slots of the processes that it has sent to.
    pub(crate) fn replace_peers(&mut self, by: impl Fn(u32) -> u32) {
        let replaced: Vec<u32> = self.peers().map(by).collect();
        self.peers = [0; PROCESSES / 64];
        replaced.iter().for_each(|peer| self.peers[*peer as usize % PROCESSES / 64] |= 1 << (peer % 64));
    }
}

impl RecvCounts {
    /// Reads a record.
    pub(crate) fn of(board: &Board, record: &RecvRecord) -> RecvCounts {
        RecvCounts { posts: record.posts.counts(board), messages: record.messages.counts(board) }
    }

    /// Calls that posted RECVs, as tuples: RECVs of a call, most SGEs of a RECV, number of such calls.
    pub(crate) fn posts(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        self.posts.iter().map(|(key, n)| ((key >> 8) as u32, *key as u32 & 0xff, *n))
    }

    /// Received messages, as tuples: bytes, whether the message is a WRITE with immediate, number of such
    /// messages.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (u32, bool, u64)> {
        self.messages.iter().map(|(key, n)| ((key >> 1) as u32, key & 1 != 0, *n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_verbs::{RemoteAddr, SendOp, Sge};

    /// The counters of a QP, and a function that reads its counts.
    fn counted(qp_type: QpType) -> ((QpCounter, RecvCounter), impl Fn() -> QpCounts) {
        let (_, board) = Board::create().expect("a board");
        let list: &AtomicU64 = Box::leak(Box::default());
        let counter = QpCounter::new(board, list, (2, qp_type), 0).expect("there is room");
        let counts =
            move || QpCounts::of(board, board.listed(list)[0]).expect("it was written as it should be");
        (counter, counts)
    }

    #[test]
    fn a_shape_survives_its_key() {
        for opcode in Opcode::ALL {
            for (payload, sges, inline, signaled) in [(u32::MAX, 32, true, false), (0, 0, false, true)] {
                let shape = PostedShape { opcode, payload, sges, inline, signaled };
                for list in [1, 1 << 15] {
                    let key = shape.key() | u64::from(list) << LIST_AT;
                    assert_eq!(PostedShape::from_key(key), Some((shape, list)));
                }
            }
        }
    }

    #[test]
    fn a_key_without_opcode_is_no_shape() {
        let keys = (0..16).map(|opcode| opcode << OPCODE_AT);
        assert_eq!(keys.filter(|key| PostedShape::from_key(*key).is_some()).count(), Opcode::ALL.len());
    }

    #[test]
    fn lists_are_counted_by_shape_and_length() {
        let ((mut counter, _), counts) = counted(QpType::Rc);
        let sges = [Sge::default()];
        let write = SendWr::new(0, SendOp::Write(RemoteAddr::default()), &sges);
        for _ in 0..3 {
            counter.posted(&write, 8, false, false, 1);
            counter.posted(&write, 8, false, false, 2);
            counter.list_ends(0, || 1);
        }
        counter.posted(&write, 8, true, true, 5);
        assert_eq!(counts().doorbells(), BTreeMap::from([(2, 3)]));
        counter.posted(&write, 8, false, false, 6);
        counter.list_ends(1023, || 1);
        counter.list_ends(1, || 1);
        let counts = counts();
        let plain =
            PostedShape { opcode: Opcode::Write, payload: 8, sges: 1, inline: false, signaled: false };
        let inline = PostedShape { inline: true, signaled: true, ..plain };
        assert_eq!(counts.sends(), BTreeMap::from([((plain, 2), 7), ((inline, 2), 1)]));
        assert_eq!(counts.doorbells(), BTreeMap::from([(2, 4)]));
        assert_eq!((counts.outstanding_sum, counts.outstanding_max), (20, 6));
        assert_eq!(counts.peers().collect::<Vec<_>>(), [0, 1023]);
        assert_eq!(counts.threads.len(), 1);
    }

    /// Posts `posts` work requests, one list each, as a program with a window and one signal in `every`. The
    /// program lets the device complete all signalled requests once the window is full.
    fn post_in_window(counter: &mut QpCounter, posts: u64, window: u64, every: u64) {
        let sges = [Sge::default()];
        let write = SendWr::new(0, SendOp::Write(RemoteAddr::default()), &sges);
        let (mut posted, mut freed) = (0, 0);
        while posted < posts {
            if posted - freed == window {
                freed = posted / every * every;
            }
            posted += 1;
            let signaled = posted.is_multiple_of(every) || posted == posts;
            counter.posted(&write, 8, false, signaled, posted - freed);
            counter.list_ends(0, || 1);
        }
    }

    #[test]
    fn the_depth_is_the_window_of_the_program() {
        for (posts, window, every) in [(1000, 64, 64), (1000, 128, 100), (5, 64, 1), (300, 16, 1)] {
            let ((mut counter, _), counts) = counted(QpType::Rc);
            post_in_window(&mut counter, posts, window, every);
            let counts = counts();
            assert_eq!(counts.depth, window.min(posts) as f64, "{window} {every}");
            let gaps: u64 = counts.signal_gaps.iter().map(|(gap, times)| gap * times).sum();
            assert_eq!(gaps, if every == 1 { 0 } else { posts }, "{window} {every}");
        }
    }

    #[test]
    fn a_reset_ends_the_window_and_the_distance_to_the_last_signal() {
        let ((mut counter, _), counts) = counted(QpType::Rc);
        let sges = [Sge::default()];
        let write = SendWr::new(0, SendOp::Write(RemoteAddr::default()), &sges);
        for outstanding in (0..10).flat_map(|_| 1..=4) {
            counter.posted(&write, 8, false, outstanding == 3, outstanding);
            counter.list_ends(0, || 1);
            if outstanding == 4 {
                counter.begin_again();
            }
        }
        let counts = counts();
        assert_eq!((counts.signal_gaps, counts.depth), (vec![(3, 10)], 4.0));
        assert_eq!(counter.record.fills.load(Relaxed), 0);
    }

    #[test]
    fn attributes_are_those_of_the_newest_posts() {
        let ((mut counter, _), counts) = counted(QpType::Rc);
        counter.modified(Some(1024));
        assert_eq!((counts().path_mtu, counts().rd_atomic()), (Some(1024), None), "nothing was posted");
        assert!(counter.lacks_reads());
        counter.reads_up_to(16, None);
        assert!(counter.lacks_reads() && counts().rd_atomic() == Some(16));
        counter.reads_up_to(16, Some(4));
        post_in_window(&mut counter, 1, 1, 1);
        assert!(!counter.lacks_reads());
        assert_eq!((counts().path_mtu, counts().rd_atomic()), (Some(1024), Some(4)));
        counter.modified(Some(4096));
        assert!(counter.lacks_reads() && counts().path_mtu == Some(1024));
        post_in_window(&mut counter, 1, 1, 1);
        assert_eq!(counts().path_mtu, Some(4096));
        counter.timed_out(true);
        counter.timed_out(false);
        assert_eq!((counts().timeouts, counts().retries), (2, 1));
    }

    #[test]
    fn nothing_is_allocated_for_what_was_seen_before() {
        let ((mut counts, mut recvs), _) = counted(QpType::Ud);
        let sges = [Sge::default()];
        let write = SendWr::new(0, SendOp::Write(RemoteAddr::default()), &sges);
        let send = SendWr::new(0, SendOp::Send, &sges);
        let mut round = |n: u32| {
            counts.posted(&write, 64 << (n % 8), false, n.is_multiple_of(16), 1);
            counts.posted(&send, 8, true, true, 2);
            counts.list_ends(n % 100, || 1);
            counts.posted(&send, n % 32, false, true, 1);
            counts.list_ends(n % 100, || 1);
            recvs.posted(n % 4, 1);
            recvs.came(n % 32, false);
        };
        (0..400).for_each(&mut round);
        let allocated = allocation_counter::measure(|| (0..10_000).for_each(round));
        assert_eq!(allocated.count_total, 0);
    }
}
