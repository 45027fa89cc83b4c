//! The receiving half of an executor.

use super::connections::InboxWay;
use super::layout::{Plan, Transfer};
use super::words::{CreditWord, ToldWord};
use crate::outbox::Outbox;
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{Mem, Mr, Provider, SendFlags, SendOp, SendWr, Time};
use std::collections::VecDeque;

/// Arrived entries, side by side in memory. The memory is valid until the function that gets them returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenEntries {
    /// Round of the entries, from 0.
    pub round: u64,
    /// Sender of the entries.
    pub sender: u32,
    /// Memory that has the entries.
    pub mem: Mem,
    /// Offset of the first entry in that memory, in bytes.
    pub offset: u64,
    /// Number of entries.
    pub entries: u64,
}

/// A receiver's progress with a sender, in entries since the beginning.
#[derive(Clone, Copy, Debug, Default)]
struct InFlow {
    /// The sender's told words as they were last loaded.
    seen: [u64; 2],
    /// Entries that the sender has reported.
    told: u64,
    /// Entries that have arrived or are being fetched. More than `arrived` only if receivers pull.
    asked: u64,
    /// Entries that have arrived.
    arrived: u64,
    /// Entries that `sink` has taken.
    taken: u64,
    /// Taken entries that this receiver has reported to the sender.
    credited: u64,
    /// Whether the sender has reported the end of the round.
    has_ended: bool,
}

impl InFlow {
    fn is_done(&self) -> bool {
        self.has_ended && self.taken == self.told
    }
}

/// An outstanding READ.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    sender: u32,
    /// Number of the READ in the outbox: it has completed when so many work requests have completed.
    number: u64,
    entries: u64,
    began: Time,
}

/// The receiving half of an executor. See [`super::Executor`] for the promises of both halves.
pub(super) struct Incoming<P: Provider> {
    plan: Plan,
    number: u32,
    cpu: P,
    inbox: Mr<P>,
    pub(super) ways: Vec<InboxWay<Outbox<P>>>,
    flows: Vec<InFlow>,
    round: u64,
    fetches: VecDeque<Fetch>,
    /// The last round, once it is known.
    pub(super) last: Option<u64>,
    /// When the receiver last took entries.
    took: Time,
}

impl<P: Provider> Incoming<P> {
    /// The receiving half of receiver `number`. `ways` are its connections to the senders.
    pub(super) fn new(
        plan: Plan,
        number: u32,
        cpu: P,
        inbox: Mr<P>,
        ways: Vec<InboxWay<Outbox<P>>>,
    ) -> Incoming<P> {
        let (flows, took) = (vec![InFlow::default(); ways.len()], cpu.now());
        Incoming {
            plan,
            number,
            cpu,
            inbox,
            ways,
            flows,
            round: 0,
            fetches: VecDeque::new(),
            last: None,
            took,
        }
    }

    /// Whether all entries of the round were taken.
    pub(super) fn has_round(&self) -> bool {
        self.flows.iter().all(InFlow::is_done)
    }

    /// Passes arrived entries to `sink`, and fetches reported ones. Returns whether anything was new.
    pub(super) fn take(
        &mut self,
        sink: &mut impl FnMut(TakenEntries) -> Result<(), SystemError>,
        (measured, interval): (&mut Measured, &Interval),
        scratch: &Mr<P>,
    ) -> Result<bool, SystemError> {
        let mut any = self.fetched(measured, interval)?;
        for sender in 0..self.ways.len() as u32 {
            any |= self.look(sender);
            any |= self.fetch(sender)?;
            let entries = self.hand_over(sender, sink)?;
            if entries > 0 {
                any = true;
                let now = self.cpu.now();
                measured.moved(interval, self.took, now, entries);
                self.took = now;
                self.give_credit(sender, scratch)?;
            }
        }
        Ok(any)
    }

    /// Loads a sender's told word for the round. Returns whether the word has changed.
    fn look(&mut self, sender: u32) -> bool {
        let flow = &mut self.flows[sender as usize];
        if flow.has_ended {
            return false;
        }
        let seen = &mut flow.seen[(self.round % 2) as usize];
        let word = self.cpu.load_u64(self.inbox.mem(), self.plan.told(sender, self.round));
        if word == *seen {
            return false;
        }
        let told = ToldWord::since(std::mem::replace(seen, word), word);
        flow.told += told.entries;
        flow.has_ended = told.ends;
        if told.last {
            self.last = Some(self.round + 1);
        }
        // Reported entries have arrived already if senders push, or if the sender is on this machine and has
        // copied them.
        if self.plan.transfer == Transfer::Push || matches!(self.ways[sender as usize], InboxWay::Here(_)) {
            (flow.asked, flow.arrived) = (flow.told, flow.told);
        }
        true
    }

    /// Handles READs that have completed. Returns whether there were any.
    fn fetched(&mut self, measured: &mut Measured, interval: &Interval) -> Result<bool, SystemError> {
        let mut any = false;
        while let Some(Fetch { sender, number, entries, began }) = self.fetches.front().copied() {
            let InboxWay::There(outbox, _) = &mut self.ways[sender as usize] else { break };
            if outbox.completed()? < number {
                break;
            }
            self.fetches.pop_front();
            self.flows[sender as usize].arrived += entries;
            (0..entries).for_each(|_| measured.took(interval, began, self.cpu.now()));
            any = true;
        }
        Ok(any)
    }

    /// Posts READs of entries that a sender has reported, up to the limit of outstanding READs. Returns
    /// whether it posted any.
    fn fetch(&mut self, sender: u32) -> Result<bool, SystemError> {
        let (plan, flow) = (self.plan, &mut self.flows[sender as usize]);
        let mut any = false;
        let InboxWay::There(outbox, remote) = &mut self.ways[sender as usize] else { return Ok(false) };
        while flow.asked < flow.told && (self.fetches.len() as u32) < plan.outstanding {
            let batch = u64::from(plan.batch).min(flow.told - flow.asked);
            let Some((at, entries)) = plan.pieces(flow.asked, batch).next() else { break };
            let (at, bytes) = (at * u64::from(plan.entry), entries * u64::from(plan.entry));
            let sge = [self.inbox.sge(plan.segment(sender) + at, bytes as u32)];
            let read = SendOp::Read(remote.at(plan.ring(self.number) + at));
            let began = self.cpu.now();
            outbox.post(&mut [SendWr::new(0, read, &sge).flags(SendFlags::SIGNALED)])?;
            self.fetches.push_back(Fetch { sender, number: outbox.posted(), entries, began });
            flow.asked += entries;
            any = true;
        }
        Ok(any)
    }

    /// Passes the arrived entries of a sender to `sink`. Returns their number.
    fn hand_over(
        &mut self,
        sender: u32,
        sink: &mut impl FnMut(TakenEntries) -> Result<(), SystemError>,
    ) -> Result<u64, SystemError> {
        let flow = &mut self.flows[sender as usize];
        let count = flow.arrived - flow.taken;
        for (at, entries) in self.plan.pieces(flow.taken, count) {
            let offset = self.plan.segment(sender) + at * u64::from(self.plan.entry);
            sink(TakenEntries { round: self.round, sender, mem: self.inbox.mem(), offset, entries })?;
        }
        flow.taken += count;
        Ok(count)
    }

    fn give_credit(&mut self, sender: u32, scratch: &Mr<P>) -> Result<(), SystemError> {
        let flow = &self.flows[sender as usize];
        if flow.taken - flow.credited < self.plan.quarter() {
            return Ok(());
        }
        self.tell(sender, false, scratch)
    }

    /// Reports this receiver's progress to a sender.
    fn tell(&mut self, sender: u32, farewell: bool, scratch: &Mr<P>) -> Result<(), SystemError> {
        let flow = &mut self.flows[sender as usize];
        flow.credited = flow.taken;
        let credit = self.credit(sender, farewell);
        let at = self.plan.credit(self.number);
        self.ways[sender as usize].store(&self.cpu, (at, credit.word()), scratch, farewell)
    }

    fn credit(&self, sender: u32, farewell: bool) -> CreditWord {
        let taken = self.flows[sender as usize].taken as u32;
        CreditWord { taken, rounds: self.round, last: self.last, farewell }
    }

    /// Begins the next round, and tells all senders that the round before is finished.
    pub(super) fn next_round(&mut self, scratch: &Mr<P>) -> Result<(), SystemError> {
        self.round += 1;
        self.flows.iter_mut().for_each(|flow| flow.has_ended = false);
        (0..self.ways.len() as u32).try_for_each(|sender| self.tell(sender, false, scratch))
    }

    /// Tells all senders that this receiver will take nothing more.
    pub(super) fn bid_farewell(&mut self, scratch: &Mr<P>) -> Result<(), SystemError> {
        (0..self.ways.len() as u32).try_for_each(|sender| self.tell(sender, true, scratch))
    }

    /// Tells all senders that this executor gives up. Ignores senders that cannot be reached.
    pub(super) fn give_up(&mut self, scratch: &Mr<P>) {
        for way in &mut self.ways {
            let _ = way.store(&self.cpu, (self.plan.given_up(), 1), scratch, true);
        }
    }

    /// Waits until the last words to all senders have arrived, or their WRITEs have failed.
    pub(super) fn settle(&mut self) {
        self.ways.iter_mut().for_each(InboxWay::settle);
    }

    /// Whether all senders have bid farewell.
    pub(super) fn is_left(&self) -> bool {
        // Reads the whole word, because senders may have bid farewell while this executor still polled for
        // entries.
        let word = |sender| self.cpu.load_u64(self.inbox.mem(), self.plan.told(sender, self.round));
        (0..self.ways.len() as u32).all(|sender| ToldWord::since(0, word(sender)).farewell)
    }
}
