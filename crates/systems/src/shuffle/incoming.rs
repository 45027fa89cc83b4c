//! What an executor receives.

use super::connections::InboxWay;
use super::layout::{Plan, Transfer};
use super::words::{CreditWord, ToldWord};
use crate::outbox::Outbox;
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{Mem, Mr, Provider, SendFlags, SendOp, SendWr, Time};
use std::collections::VecDeque;

/// Entries that have come, side by side, and stay until the call that was given them returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenEntries {
    /// Their round, from 0.
    pub round: u64,
    /// Whose they are.
    pub sender: u32,
    /// Where they are.
    pub mem: Mem,
    /// From which byte on.
    pub offset: u64,
    /// How many.
    pub entries: u64,
}

/// How far a receiver is with a sender: entries since the beginning.
#[derive(Clone, Copy, Debug, Default)]
struct InFlow {
    /// Its told words as they were last seen.
    seen: [u64; 2],
    /// That it has told of.
    told: u64,
    /// That are here or have been asked for; more than have arrived where receivers pull.
    asked: u64,
    /// That are here.
    arrived: u64,
    /// That were taken.
    taken: u64,
    /// That it was given credit for.
    credited: u64,
    /// Whether it has told all of the round.
    has_ended: bool,
}

impl InFlow {
    fn is_done(&self) -> bool {
        self.has_ended && self.taken == self.told
    }
}

/// A READ under way.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    sender: u32,
    /// Of the outbox: it is done when so many are.
    number: u64,
    entries: u64,
    began: Time,
}

/// The receiving half of an executor, which has none of the others' promises: those are [`super::Executor`]'s.
pub(super) struct Incoming<P: Provider> {
    plan: Plan,
    number: u32,
    cpu: P,
    inbox: Mr<P>,
    pub(super) ways: Vec<InboxWay<Outbox<P>>>,
    flows: Vec<InFlow>,
    round: u64,
    fetches: VecDeque<Fetch>,
    /// The round that is the last, once that is known.
    pub(super) last: Option<u64>,
    /// When it last took something.
    took: Time,
}

impl<P: Provider> Incoming<P> {
    /// Of receiver `number` of the plan, with its ways to the senders.
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

    /// Whether all of the round was taken.
    pub(super) fn has_round(&self) -> bool {
        self.flows.iter().all(InFlow::is_done)
    }

    /// Takes what has come, by `sink`; returns whether there was anything new.
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

    /// Looks at what a sender tells of the round.
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
        // Where a sender pushes, or is of this machine, they are here.
        if self.plan.transfer == Transfer::Push || matches!(self.ways[sender as usize], InboxWay::Here(_)) {
            (flow.asked, flow.arrived) = (flow.told, flow.told);
        }
        true
    }

    /// Goes on with READs that have completed.
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

    /// Fetches what a sender has told of, as far as READs may be under way.
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

    /// Has `sink` take what has arrived of a sender; returns how many entries.
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

    /// Tells a sender how far this receiver is.
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

    /// Goes on to the next round, of which it tells all senders.
    pub(super) fn next_round(&mut self, scratch: &Mr<P>) -> Result<(), SystemError> {
        self.round += 1;
        self.flows.iter_mut().for_each(|flow| flow.has_ended = false);
        (0..self.ways.len() as u32).try_for_each(|sender| self.tell(sender, false, scratch))
    }

    /// Tells all senders that it will not take anything more.
    pub(super) fn bid_farewell(&mut self, scratch: &Mr<P>) -> Result<(), SystemError> {
        (0..self.ways.len() as u32).try_for_each(|sender| self.tell(sender, true, scratch))
    }

    /// Tells all senders that this executor gives up; those that cannot be told any more find out by themselves.
    pub(super) fn give_up(&mut self, scratch: &Mr<P>) {
        for way in &mut self.ways {
            let _ = way.store(&self.cpu, (self.plan.given_up(), 1), scratch, true);
        }
    }

    /// Waits until what it said last has arrived, or failed.
    pub(super) fn settle(&mut self) {
        self.ways.iter_mut().for_each(InboxWay::settle);
    }

    /// Whether all senders have bid farewell.
    pub(super) fn is_left(&self) -> bool {
        // They may have done so while this executor still looked for entries.
        let word = |sender| self.cpu.load_u64(self.inbox.mem(), self.plan.told(sender, self.round));
        (0..self.ways.len() as u32).all(|sender| ToldWord::since(0, word(sender)).farewell)
    }
}
