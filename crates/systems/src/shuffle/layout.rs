//! Who takes part, and where what lies in an inbox.

use crate::names::named;
use crate::strategy::Strategy;
use doorbell_verbs::Span;
use std::ops::Range;

/// Bytes of a cache line: what is polled, or written by somebody else, has its own.
const LINE: u64 = 64;

named! {
    /// Who moves entries.
    Transfer {
        /// Senders write them into memory of receivers.
        Push = "push",
        /// Receivers read them from memory of senders.
        Pull = "pull",
    }

    /// What a sender does where a segment is full.
    Full {
        /// It waits until the receiver has taken entries.
        Block = "block",
        /// It keeps what has no room, and goes on with entries for others.
        Spill = "spill",
    }
}

/// What all executors of a job agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Executors.
    pub executors: u32,
    /// Those that send: the first ones.
    pub senders: u32,
    /// Those that receive: the last ones. Each executor is of one kind at least.
    pub receivers: u32,
    /// Who moves entries.
    pub transfer: Transfer,
    /// How those of a post come together.
    pub strategy: Strategy,
    /// Entries of a post; of a READ where receivers pull.
    pub batch: u32,
    /// Bytes of an entry: a multiple of 8, of which the first are the key.
    pub entry: u32,
    /// Entries of a segment, at least twice a post's, below 2^31.
    pub segment: u32,
    /// What a sender does where a segment is full.
    pub full: Full,
    /// Bytes up to which a WRITE is inline, where nothing is gathered.
    pub inline: u32,
    /// Posts of an executor under way; READs where receivers pull.
    pub outstanding: u32,
    /// How long one waits without seeing anything new before it gives up.
    pub give_up: Span,
}

impl Plan {
    /// The executors that send.
    pub fn sending(&self) -> Range<u32> {
        0..self.senders
    }

    /// The executors that receive.
    pub fn receiving(&self) -> Range<u32> {
        self.executors - self.receivers..self.executors
    }

    /// Which of the receivers an executor is.
    pub fn as_receiver(&self, executor: u32) -> Option<u32> {
        self.receiving().contains(&executor).then(|| executor - self.receiving().start)
    }

    /// Bytes of an inbox.
    pub fn inbox_bytes(&self) -> u64 {
        self.ring(self.receivers)
    }

    /// Bytes of a segment.
    pub(super) fn segment_bytes(&self) -> u64 {
        (u64::from(self.segment) * u64::from(self.entry)).next_multiple_of(LINE)
    }

    /// The entries after which a sender tells, and a receiver gives credit.
    pub(super) fn quarter(&self) -> u64 {
        u64::from(self.segment / 4).max(1)
    }

    /// Of the word that is not 0 once somebody has given up.
    pub(super) const fn given_up(&self) -> u64 {
        0
    }

    /// Of the told word of a sender for a round.
    pub(super) fn told(&self, sender: u32, round: u64) -> u64 {
        LINE * (1 + 2 * u64::from(sender) + round % 2)
    }

    /// Of the credit word of a receiver, the `n`th of them.
    pub(super) fn credit(&self, receiver: u32) -> u64 {
        LINE * (1 + 2 * u64::from(self.senders) + u64::from(receiver))
    }

    /// Of the segment of a sender.
    pub(super) fn segment(&self, sender: u32) -> u64 {
        self.credit(self.receivers) + self.segment_bytes() * u64::from(sender)
    }

    /// Of what a receiver is to fetch, the `n`th of them.
    pub(super) fn ring(&self, receiver: u32) -> u64 {
        let rings = if self.transfer == Transfer::Pull { receiver } else { 0 };
        self.segment(self.senders) + self.segment_bytes() * u64::from(rings)
    }

    /// `count` entries of a ring from the one with this number on: in one piece, or in two where they go over its end. Each as its offset in the ring, in
    /// entries, and how many they are.
    pub(super) fn pieces(&self, number: u64, count: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let segment = u64::from(self.segment);
        let at = number % segment;
        let first = count.min(segment - at);
        [(at, first), (0, count - first)].into_iter().filter(|(_, count)| *count > 0)
    }
}
