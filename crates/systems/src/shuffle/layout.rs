//! The plan of a shuffle, and the layout of an inbox.

use crate::names::named;
use crate::strategy::Strategy;
use doorbell_verbs::Span;
use std::ops::Range;

/// Bytes of a cache line. Data that executors poll, or that other executors write, has lines of its own.
const LINE: u64 = 64;

named! {
    /// The side that moves entries.
    Transfer {
        /// Senders write them into receivers' memory.
        Push = "push",
        /// Receivers read them from senders' memory.
        Pull = "pull",
    }

    /// A sender's reaction to a full segment.
    Full {
        /// The sender waits until the receiver has taken entries.
        Block = "block",
        /// The sender keeps entries for which there is no room, and continues with entries for other
        /// receivers.
        Spill = "spill",
    }
}

/// Parameters that all executors of a job share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of executors.
    pub executors: u32,
    /// Number of senders. These are the first executors.
    pub senders: u32,
    /// Number of receivers. These are the last executors. Each executor is a sender, a receiver, or both.
    pub receivers: u32,
    /// The side that moves entries.
    pub transfer: Transfer,
    /// How the entries of a post get into WRITEs.
    pub strategy: Strategy,
    /// Largest number of entries of a post, or of a READ if receivers pull.
    pub batch: u32,
    /// Bytes of an entry: a multiple of 8. The first 8 are the key.
    pub entry: u32,
    /// Entries of a segment: at least two posts, below 2^31.
    pub segment: u32,
    /// A sender's reaction to a full segment.
    pub full: Full,
    /// Bytes up to which a WRITE is inline, if nothing is gathered.
    pub inline: u32,
    /// Maximum number of an executor's outstanding posts, or of its READs if receivers pull.
    pub outstanding: u32,
    /// An executor gives up after it has waited for this time without seeing anything new.
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

    /// The number of an executor among the receivers, if it receives.
    pub fn as_receiver(&self, executor: u32) -> Option<u32> {
        self.receiving().contains(&executor).then(|| executor - self.receiving().start)
    }

    /// Bytes of an inbox.
    pub fn inbox_bytes(&self) -> u64 {
        self.ring(self.receivers)
    }

    pub(super) fn segment_bytes(&self) -> u64 {
        (u64::from(self.segment) * u64::from(self.entry)).next_multiple_of(LINE)
    }

    /// Number of entries after which a sender tells a receiver of them, and a receiver gives credit for them.
    pub(super) fn quarter(&self) -> u64 {
        u64::from(self.segment / 4).max(1)
    }

    /// Offset of the word that is not 0 once an executor has given up.
    pub(super) const fn given_up(&self) -> u64 {
        0
    }

    /// Offset of a sender's told word for a round.
    pub(super) fn told(&self, sender: u32, round: u64) -> u64 {
        LINE * (1 + 2 * u64::from(sender) + round % 2)
    }

    /// Offset of the credit word of a receiver. `receiver` is its number among the receivers.
    pub(super) fn credit(&self, receiver: u32) -> u64 {
        LINE * (1 + 2 * u64::from(self.senders) + u64::from(receiver))
    }

    /// Offset of a sender's segment.
    pub(super) fn segment(&self, sender: u32) -> u64 {
        self.credit(self.receivers) + self.segment_bytes() * u64::from(sender)
    }

    /// Offset of the ring from which a receiver fetches entries. `receiver` is its number among the
    /// receivers.
    pub(super) fn ring(&self, receiver: u32) -> u64 {
        let rings = if self.transfer == Transfer::Pull { receiver } else { 0 };
        self.segment(self.senders) + self.segment_bytes() * u64::from(rings)
    }

    /// Splits `count` entries of a ring, from entry `number` on, into pieces: two if they wrap at the ring's
    /// end, else one. A piece is an offset in the ring and a length, both in entries.
    pub(super) fn pieces(&self, number: u64, count: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let segment = u64::from(self.segment);
        let at = number % segment;
        let first = count.min(segment - at);
        [(at, first), (0, count - first)].into_iter().filter(|(_, count)| *count > 0)
    }
}
