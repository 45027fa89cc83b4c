//! Completion queues.
//!
//! A CQ gets completions from three sources:
//! - The *private queue* has the completions of this process's sends.
//! - The *ring* in the segment has notices. By a notice, a sender announces a complete RECV to the CQ. The
//!   completion itself is in the RECV's slot.
//! - The *lane* is a receive queue that the CQ polls itself. Senders announce nothing for a lane. A receive
//!   queue is the CQ's lane if its QP is the only one that receives at this CQ.
//!
//! The completion of a send is entered into the private queue before the peer can see the request. The entry
//! stores the positions of the ring and the lane at that time. So the CQ returns completions in the order in
//! which they arrived. The peer's answer to a request never precedes the request's completion.

mod shown;
mod state;

use super::events::Events;
use super::recv_queue::RecvQueue;
use crate::causes;
use crate::errno::{EINVAL, Errno};
use crate::fabric::peer::Owner;
use crate::fabric::pipe::PipeReads;
use crate::fabric::process::Process;
use crate::fabric::progress::Sleeping;
use crate::memory::records::{CqRecord, QpRecord};
use crate::point::{Point, reach};
use crate::rings::completions::{Armed, arm, armed, overrun, wake, wake_late};
use crate::rings::recvs::Receipt;
use crate::sync::lock;
use doorbell_abi::ibv_wc;
use doorbell_transport::Refused;
use doorbell_verbs::WcStatus;
use shown::ShownState;
use state::CqState;
pub(crate) use state::{QpShare, SendDone};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::sync::{Arc, Mutex, Weak};

/// Number of empty polls in a row, some 10 ns each, after which the thread begins to yield its processor.
const PATIENCE: u32 = 1000;
/// From then on, the thread yields its processor at each empty poll whose number is a multiple of this.
const YIELD_EVERY: u32 = 50;
/// A poll that finds nothing adds this to [`Cq::empty_polls`].
const POLL: u32 = 2;
/// The bit of [`Cq::empty_polls`] that [`Cq::mark_polls`] sets. A poll that finds a completion clears the
/// bit.
const MARK: u32 = 1;
/// How often [`Cq::mark_polls`] tries to set the mark while another thread polls.
const MARK_TRIES: u32 = 4;

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Cq {
    process: &'static Process,
    pub(crate) index: u32,
    pub(crate) cqe: AtomicU32,
    record: &'static CqRecord,
    state: ShownState,
    /// Polls in a row that found nothing, times `POLL`, and the bit `MARK`.
    empty_polls: AtomicU32,
    /// The reads of the completion channel, if the CQ has one.
    reads: Option<Arc<PipeReads>>,
    /// Whether an XRC SRQ completes here, or has completed here.
    has_srq: AtomicBool,
    pub(crate) events: Events,
    /// Whether the CQ has a completion channel.
    tells: bool,
    /// Whether the helper thread checks that the program is notified. The flag orders nothing: its swap only
    /// selects the thread that asks the helper thread to check.
    is_looked_at: AtomicBool,
    /// The record's `armed` word at the helper thread's last check, if a notification was due then.
    seen: Mutex<Option<u32>>,
}

impl Cq {
    pub(crate) fn new(
        process: &'static Process,
        cqe: u32,
        channel_fd: u32,
        async_fd: u32,
    ) -> Result<Cq, Errno> {
        let index = process.cq_numbers.take()?;
        let record = process.segment.cq(index as usize).ok_or(EINVAL)?;
        let state = CqState::new(process, cqe.next_power_of_two())
            .inspect_err(|_| process.cq_numbers.give_back(index))?;
        record.cqe.store(cqe, Relaxed);
        record.channel_fd.store(channel_fd, Relaxed);
        record.async_fd.store(async_fd, Relaxed);
        record.armed.store(Armed::Not as u32, Relaxed);
        record.overrun.store(0, Relaxed);
        record.generation.fetch_add(1, Relaxed);
        // Release: a process that finds the ring sees everything that was stored before.
        record.ring.store(state.newest_ring().front().0.in_record(), Release);
        Ok(Cq {
            process,
            index,
            cqe: AtomicU32::new(cqe),
            record,
            state: ShownState::new(state),
            empty_polls: AtomicU32::new(0),
            reads: None,
            has_srq: AtomicBool::new(false),
            events: Events::default(),
            tells: channel_fd != 0,
            is_looked_at: AtomicBool::new(false),
            seen: Mutex::default(),
        })
    }

    /// Sets the reads of the CQ's completion channel.
    pub(crate) fn with_reads(mut self, reads: Option<Arc<PipeReads>>) -> Cq {
        self.reads = reads;
        self
    }

    /// The index and generation that a completion event carries for this CQ.
    pub(crate) fn event_identity(&self) -> (u32, u32) {
        (self.index, self.record.generation.load(Relaxed))
    }

    /// Adds a QP whose sends complete here.
    pub(crate) fn add_sender(&self, user: &Arc<QpShare>) {
        self.state.lock().add_sender(user);
    }

    /// Adds a QP whose RECVs complete here. The QP's record then says whether its receive queue is the CQ's
    /// lane.
    pub(crate) fn add_receiver(&self, user: &Arc<QpShare>, record: &QpRecord) {
        self.state.lock().add_receiver(user, record);
    }

    /// Adds an XRC SRQ whose RECVs complete here, whichever QPs take them.
    pub(crate) fn add_srq(&self, srq: &Arc<RecvQueue>) {
        self.has_srq.store(true, Relaxed);
        self.state.lock().add_srq(srq);
    }

    /// Removes an XRC SRQ, because it is destroyed. Its completions stay until they are polled.
    pub(crate) fn end_srq(&self, srq: &Arc<RecvQueue>) {
        let mut state = self.state.lock();
        state.end_srq(srq);
        state.sweep(self.is_overrun());
    }

    /// Removes a QP, because it is destroyed. Called once for the CQ of the QP's RECVs (with `receives`) and
    /// once for the CQ of its sends. The QP's completions stay until they are polled.
    pub(crate) fn end_user(&self, user: &Arc<QpShare>, receives: bool) {
        let mut state = self.state.lock();
        state.end_user(user, receives);
        state.sweep(self.is_overrun());
    }

    /// Whether a completion was lost. From then on, polls return an error.
    fn is_overrun(&self) -> bool {
        // Relaxed: the word orders nothing.
        self.record.overrun.load(Relaxed) != 0
    }

    /// Forgets the completions of a QP, because no poll will take them. If the QP uses an SRQ, frees the
    /// slots of the completions' RECVs.
    pub(crate) fn forget(&self, user: &QpShare) {
        self.state.lock().forget(user);
    }

    /// Enters a send's completion, which becomes due when its request is done. Returns `false` if the
    /// completion is lost because the CQ is full.
    ///
    /// The function is inlined, so that the fields of `own` are stored in their final place. Otherwise `own`
    /// would be copied through memory, by loads that are larger than the stores before them. Such a load
    /// waits until the stores of the previous message have reached the peer.
    #[inline(always)]
    pub(crate) fn enter(&self, own: SendDone, user: &QpShare, receipt: Option<Receipt>) -> bool {
        let (sender, cqe) = (user.sender.load(Relaxed), u64::from(self.cqe.load(Relaxed)));
        let has_room = self.state.enter(own, sender, receipt, cqe);
        if !has_room {
            overrun(Owner::This, self.record, self.index);
        }
        reach(Point::Entered);
        has_room
    }

    /// Sets the RECV that the message of an entered request takes.
    pub(crate) fn set_receipt(&self, (qp_num, number): (u32, u64), receipt: Receipt) {
        if let Some(queued) = self.state.lock().entered(qp_num, number) {
            queued.set_receipt(receipt);
        }
    }

    /// Sets the result of an entered request.
    #[cold]
    pub(crate) fn set_status(&self, (qp_num, number): (u32, u64), status: WcStatus) {
        if let Some(queued) = self.state.lock().entered(qp_num, number) {
            queued.set_status(status);
        }
    }

    /// Removes the entered completions of a QP's requests from `number` on.
    #[cold]
    pub(crate) fn take_back(&self, (qp_num, number): (u32, u64)) {
        self.state.lock().take_back(qp_num, number);
    }

    /// Moves the completions of a QP's requests from `number` on behind the completions of RECVs that have
    /// arrived after these completions were entered. Returns whether any RECV has arrived.
    pub(crate) fn move_back(&self, (qp_num, number): (u32, u64)) -> bool {
        self.state.lock().move_back(qp_num, number)
    }

    /// Notifies the program of an entered completion that has just become due. `is_error` tells whether the
    /// request failed.
    #[inline(always)]
    pub(crate) fn tell(&self, is_error: bool) {
        wake(Owner::This, self.record, self.index, is_error, |armed| self.holds(armed));
    }

    /// Whether a poll would find a completion of the kind that the program waits for.
    fn holds(&self, armed: Armed) -> bool {
        self.state.lock().holds(armed == Armed::Solicited)
    }

    /// Takes completions, oldest first, into the front of `wcs`, and returns their number. An overrun CQ
    /// returns `EIO` (ibv_create_cq(3)).
    pub(crate) fn poll(&self, wcs: &mut [ibv_wc]) -> Result<usize, Errno> {
        self.process.progress.help();
        if self.looks_empty() && !self.is_overrun() {
            self.let_others_run();
            return Ok(0);
        }
        let taken = self.take(wcs)?;
        if taken == 0 {
            self.let_others_run();
        } else {
            self.empty_polls.store(0, Relaxed);
        }
        Ok(taken)
    }

    #[inline(always)]
    fn take(&self, wcs: &mut [ibv_wc]) -> Result<usize, Errno> {
        let mut state = self.state.lock();
        if self.is_overrun() {
            return Err(Errno(libc::EIO));
        }
        let mut taken = 0;
        while taken < wcs.len() && state.take(&mut wcs[taken]) {
            taken += 1;
        }
        if taken < wcs.len() {
            state.sweep(false);
        }
        Ok(taken)
    }

    /// Counts an empty poll. Yields the processor at some of the polls, because a program that polls in vain
    /// may keep its peer from running. At these polls, also checks for senders that exited.
    fn let_others_run(&self) {
        let counted = self.empty_polls.load(Relaxed).wrapping_add(POLL);
        self.empty_polls.store(counted, Relaxed);
        let polls = counted / POLL;
        if polls >= PATIENCE && polls.is_multiple_of(YIELD_EVERY) {
            std::thread::yield_now();
            // The thread explains why the program waits.
            self.process.progress.start();
            self.look_after_senders();
        }
    }

    /// Marks all polls from now on. Returns a number that changes with each poll, if polls were marked by an
    /// earlier call and none of them has found a completion. Otherwise returns `None`.
    pub(super) fn mark_polls(&self) -> Option<u32> {
        let polls = self.empty_polls.load(Relaxed);
        if polls & MARK != 0 {
            return Some(polls);
        }
        // A poll at the same time may overwrite the mark, because polls load and store the word. If all tries
        // fail, the next call of this function sets the mark.
        for _ in 0..MARK_TRIES {
            self.empty_polls.fetch_or(MARK, Relaxed);
            (0..PATIENCE).for_each(|_| std::hint::spin_loop());
            if self.empty_polls.load(Relaxed) & MARK != 0 {
                break;
            }
        }
        None
    }

    /// The number of polls between two numbers of [`Cq::mark_polls`].
    pub(super) fn polls_between(before: u32, now: u32) -> u32 {
        now.wrapping_sub(before) / POLL
    }

    /// The reads of the completion channel that a thread is in, as [`PipeReads::current`] returns them.
    pub(super) fn current_read(&self) -> Option<(u64, u64)> {
        self.reads.as_ref()?.current()
    }

    /// Whether an XRC SRQ may complete here.
    pub(super) fn has_srq(&self) -> bool {
        self.has_srq.load(Relaxed)
    }

    /// Repairs receive queues in which a sender that exited has left a message half delivered.
    #[cold]
    fn look_after_senders(&self) {
        let queues = self.state.lock().queues_to_look_after();
        queues.iter().for_each(|queue| queue.recover());
    }

    #[inline(always)]
    fn looks_empty(&self) -> bool {
        self.state.looks_empty(self.process.segment)
    }

    /// Asks for an event at the next completion (ibv_req_notify_cq(3)). If the CQ already holds a completion,
    /// the event comes at once, as from a ConnectX.
    pub(crate) fn request_notify(self: &Arc<Cq>, solicited_only: bool) {
        if self.tells && !self.is_looked_at.swap(true, Relaxed) {
            self.process.progress.look_at(Arc::downgrade(self) as Weak<dyn Sleeping>);
        }
        self.empty_polls.store(0, Relaxed);
        let which = if solicited_only { Armed::Solicited } else { Armed::Next };
        arm(self.record, self.index, which, |armed| self.tells && self.holds(armed));
    }

    /// Gives the CQ room for `cqe` completions (ibv_resize_cq(3)). Fails with `EINVAL` if the CQ holds more
    /// completions.
    pub(crate) fn resize(&self, cqe: u32) -> Result<(), Refused> {
        let mut state = self.state.lock();
        if state.held(u64::from(cqe)) > u64::from(cqe) {
            return Err(causes::CQ_RESIZE.of([&cqe]));
        }
        // Release: a process that finds the ring sees its cells initialised.
        let grown =
            state.grow(cqe.next_power_of_two(), |ring| self.record.ring.store(ring.in_record(), Release));
        grown.map_err(|errno| causes::at_limit(&causes::CQ_RESIZE_ROOM, errno, [&cqe]))?;
        // Relaxed: a completion that arrives meanwhile may be checked against the old or the new limit.
        self.record.cqe.store(cqe, Relaxed);
        self.cqe.store(cqe, Relaxed);
        Ok(())
    }
}

impl Sleeping for Cq {
    /// Notifies the program in place of a sender. A sender may stop or exit after it has completed a RECV and
    /// before it has notified the program.
    fn look(&self) {
        if armed(self.record) == Armed::Not {
            return;
        }
        self.look_after_senders();
        let mut seen = lock(&self.seen);
        *seen = wake_late(self.record, self.index, *seen, |armed| !self.looks_empty() && self.holds(armed));
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // A sender that finds no ring does not notify the CQ. A sender that found the ring before may still
        // write to a cell. Such a write is harmless, because no two rings have equal positions. Relaxed:
        // the 0 publishes nothing, and the generation is only a number in events.
        self.record.ring.store(0, Relaxed);
        self.record.generation.fetch_add(1, Relaxed);
        self.state.lock().free_rings();
        self.process.cq_numbers.give_back(self.index);
    }
}
