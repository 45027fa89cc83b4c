//! The sending half of an executor.

use super::connections::InboxWay;
use super::layout::{Plan, Transfer};
use super::words::{CreditWord, ToldWord};
use crate::vector_io::{VectorPiece, Writer};
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{Mem, Mr, Provider, Time};
use std::collections::VecDeque;

/// A sender's progress with a receiver.
#[derive(Debug, Default)]
struct OutFlow {
    /// Entries listed for the receiver.
    list: Vec<VectorPiece>,
    /// When the first entry of the list was listed.
    since: Time,
    /// Number of entries that were written since the start.
    sent: u64,
    /// Number of written entries of which the receiver was told.
    told: u64,
}

/// An outstanding post: entries, or an addition to a told word.
#[derive(Clone, Copy, Debug)]
struct Post {
    receiver: u32,
    /// Number of the call in the writer: the post has completed when so many calls have completed.
    call: u64,
    entries: u64,
    began: Time,
}

/// An executor's input.
pub(super) struct Input<'a, P: Provider> {
    pub(super) mr: &'a Mr<P>,
    pub(super) entry: u32,
}

impl<P: Provider> Input<'_, P> {
    /// The entry with this number.
    pub(super) fn piece(&self, number: u64) -> VectorPiece {
        VectorPiece::of(self.mr, number * u64::from(self.entry), self.entry)
    }
}

/// The sending half of an executor. See [`super::Executor`] for the promises of both halves.
pub(super) struct Outgoing<P: Provider> {
    plan: Plan,
    number: u32,
    cpu: P,
    inbox: Mr<P>,
    pub(super) ways: Vec<InboxWay<Writer<P>>>,
    flows: Vec<OutFlow>,
    round: u64,
    posts: VecDeque<Post>,
}

impl<P: Provider> Outgoing<P> {
    /// The sending half of sender `number`. `ways` are its connections to the receivers.
    pub(super) fn new(
        plan: Plan,
        number: u32,
        cpu: P,
        inbox: Mr<P>,
        ways: Vec<InboxWay<Writer<P>>>,
    ) -> Outgoing<P> {
        let flows = (0..ways.len()).map(|_| OutFlow::default()).collect();
        Outgoing { plan, number, cpu, inbox, ways, flows, round: 0, posts: VecDeque::new() }
    }

    pub(super) fn receivers(&self) -> u32 {
        self.ways.len() as u32
    }

    /// Lists an entry for a receiver. Returns how many entries are listed for the receiver.
    pub(super) fn list(&mut self, receiver: u32, piece: VectorPiece, now: Time) -> u64 {
        let flow = &mut self.flows[receiver as usize];
        if flow.list.is_empty() {
            flow.since = now;
        }
        flow.list.push(piece);
        flow.list.len() as u64
    }

    /// Number of entries listed for a receiver.
    pub(super) fn listed(&self, receiver: u32) -> u64 {
        self.flows[receiver as usize].list.len() as u64
    }

    fn credit(&self, receiver: u32) -> CreditWord {
        CreditWord::of(self.cpu.load_u64(self.inbox.mem(), self.plan.credit(receiver)))
    }

    /// Number of entries that a receiver has room for.
    pub(super) fn room(&self, receiver: u32) -> u64 {
        let untaken = self.credit(receiver).untaken(self.flows[receiver as usize].sent);
        u64::from(self.plan.segment).saturating_sub(untaken)
    }

    /// Whether round q = `self.round` may begin: each receiver has finished round q - 2.
    pub(super) fn may_begin(&self) -> bool {
        (0..self.receivers()).all(|receiver| self.credit(receiver).rounds + 1 >= self.round)
    }

    /// The number of the last round, once a receiver knows it and has finished all earlier rounds.
    pub(super) fn last(&self) -> Option<u64> {
        (0..self.receivers()).find_map(|receiver| self.credit(receiver).last)
    }

    /// Handles posts that have completed. Returns whether another post may be outstanding.
    pub(super) fn may_post(
        &mut self,
        measured: &mut Measured,
        interval: &Interval,
    ) -> Result<bool, SystemError> {
        self.completed(measured, interval)?;
        Ok((self.posts.len() as u32) < self.plan.outstanding)
    }

    /// Whether all posts have completed.
    pub(super) fn has_arrived(
        &mut self,
        measured: &mut Measured,
        interval: &Interval,
    ) -> Result<bool, SystemError> {
        self.completed(measured, interval)?;
        Ok(self.posts.is_empty())
    }

    fn completed(&mut self, measured: &mut Measured, interval: &Interval) -> Result<(), SystemError> {
        while let Some(Post { receiver, call, entries, began }) = self.posts.front().copied() {
            let InboxWay::There(writer, _) = &mut self.ways[receiver as usize] else { break };
            if writer.completed()? < call {
                break;
            }
            self.posts.pop_front();
            let now = self.cpu.now();
            (0..entries).for_each(|_| measured.took(interval, began, now));
        }
        Ok(())
    }

    /// Posts the first `count` entries that are listed for a receiver. The receiver must have room for them.
    pub(super) fn send(
        &mut self,
        receiver: u32,
        count: u64,
        (measured, interval): (&mut Measured, &Interval),
    ) -> Result<(), SystemError> {
        let plan = self.plan;
        let flow = &mut self.flows[receiver as usize];
        let mut list = &flow.list[..count as usize];
        for (at, entries) in plan.pieces(flow.sent, count) {
            let (own, rest) = list.split_at(entries as usize);
            list = rest;
            let at = at * u64::from(plan.entry);
            match &mut self.ways[receiver as usize] {
                InboxWay::Here(inbox) => {
                    copy(&self.cpu, own, *inbox, plan.segment(self.number) + at);
                    let now = self.cpu.now();
                    (0..entries).for_each(|_| measured.took(interval, flow.since, now));
                }
                InboxWay::There(..) if plan.transfer == Transfer::Pull => {
                    copy(&self.cpu, own, self.inbox.mem(), plan.ring(receiver) + at);
                }
                InboxWay::There(writer, remote) => {
                    let to = remote.at(plan.segment(self.number) + at);
                    let call = writer.write(own, to, plan.strategy)?;
                    self.posts.push_back(Post { receiver, call, entries, began: flow.since });
                }
            }
        }
        flow.list.drain(..count as usize);
        flow.sent += count;
        flow.since = self.cpu.now();
        Ok(())
    }

    /// Number of written entries of which a receiver was not told.
    pub(super) fn untold(&self, receiver: u32) -> u64 {
        let OutFlow { sent, told, .. } = self.flows[receiver as usize];
        sent - told
    }

    /// Tells a receiver of written entries, and of the end of the round if `end` is given.
    pub(super) fn tell(
        &mut self,
        receiver: u32,
        end: Option<RoundEnd>,
        scratch: &Mr<P>,
    ) -> Result<(), SystemError> {
        let flow = &mut self.flows[receiver as usize];
        let told = ToldWord {
            entries: flow.sent - flow.told,
            ends: end.is_some(),
            last: end == Some(RoundEnd::NextIsLast),
            farewell: false,
        };
        flow.told = flow.sent;
        self.add(receiver, self.plan.told(self.number, self.round), told.word(), scratch)
    }

    /// Adds to a word of a receiver's inbox. The addition takes effect after all earlier writes.
    fn add(&mut self, receiver: u32, offset: u64, word: u64, scratch: &Mr<P>) -> Result<(), SystemError> {
        match &mut self.ways[receiver as usize] {
            InboxWay::Here(inbox) => {
                self.cpu.fetch_add_u64(*inbox, offset, word);
            }
            InboxWay::There(writer, remote) => {
                let call = writer.fetch_add(remote.at(offset), word, scratch.sge(0, 8))?;
                self.posts.push_back(Post { receiver, call, entries: 0, began: self.cpu.now() });
            }
        }
        Ok(())
    }

    /// Begins the next round.
    pub(super) fn next_round(&mut self) {
        self.round += 1;
    }

    /// Tells all receivers that this sender will send nothing more.
    pub(super) fn bid_farewell(&mut self, scratch: &Mr<P>) -> Result<(), SystemError> {
        let word = ToldWord { farewell: true, ..ToldWord::default() }.word();
        let at = self.plan.told(self.number, self.round);
        (0..self.receivers()).try_for_each(|receiver| self.add(receiver, at, word, scratch))
    }

    /// Whether all receivers have bid farewell.
    pub(super) fn is_left(&self) -> bool {
        (0..self.receivers()).all(|receiver| self.credit(receiver).farewell)
    }

    /// Tells all receivers that this executor gives up. Ignores receivers that cannot be reached.
    pub(super) fn give_up(&mut self, scratch: &Mr<P>) {
        for receiver in 0..self.receivers() {
            let _ = self.add(receiver, self.plan.given_up(), 1, scratch);
        }
    }

    /// Waits until all posts have completed or failed.
    pub(super) fn settle(&mut self) {
        for way in &mut self.ways {
            if let InboxWay::There(writer, _) = way {
                let _ = writer.wait(writer.begun());
            }
        }
    }
}

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundEnd {
    /// More rounds may follow.
    MoreMayFollow,
    /// The next round is the last.
    NextIsLast,
}

/// Copies entries side by side.
fn copy<P: Provider>(cpu: &P, entries: &[VectorPiece], to: Mem, mut at: u64) {
    for entry in entries {
        entry.copy_to(cpu, to, at);
        at += u64::from(entry.len());
    }
}
