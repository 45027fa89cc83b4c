//! The turn of an operation: the period in which the front-end executes a step of this operation.

use super::cache::HeldWrites;
use super::io::Io;
use super::locks::BlockLocks;
use super::request::{AreaRequest, OpSlot};
use super::scratch::ScratchPart;
use super::table::TableLayout;
use super::terms::Terms;
use crate::SystemError;
use doorbell_verbs::{Provider, Span, Time};

/// The next step of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpStep {
    /// The operation has posted a list, which will complete.
    Posted,
    /// The operation continues at this time.
    Wait(Time),
    /// The operation has ended. Its result is this version.
    Ended(u64),
    /// The operation cannot end at this location. The key may be in its block although the operation used its
    /// record, or the other way round.
    Elsewhere,
}

/// An operation's turn: the state that all operations of a front-end share, and the slot of this operation.
pub(super) struct OpTurn<'a, P: Provider> {
    pub(super) io: &'a mut Io<P>,
    pub(super) terms: &'a Terms,
    pub(super) locks: &'a mut BlockLocks,
    pub(super) cache: &'a mut HeldWrites<P>,
    pub(super) slot: OpSlot,
}

impl<P: Provider> OpTurn<'_, P> {
    pub(super) fn table(&self) -> &TableLayout {
        &self.io.table
    }

    pub(super) fn now(&self) -> Time {
        self.io.cpu.now()
    }

    /// Computes for a span.
    pub(super) fn work(&self, span: Span) {
        self.io.cpu.work(span);
    }

    /// Posts a list of requests to an area. Only the last request is signalled. Returns the time of the post.
    pub(super) fn post<const N: usize>(
        &self,
        area: u32,
        requests: [AreaRequest; N],
    ) -> Result<Time, SystemError> {
        self.io.post(self.slot, area, requests)
    }

    /// The result of the atomic in the list that has completed.
    pub(super) fn answer(&self) -> u64 {
        self.word(ScratchPart::Answer, 0)
    }

    /// A word of a scratch part.
    pub(super) fn word(&self, part: ScratchPart, at: u64) -> u64 {
        self.io.word(self.slot, part, at)
    }

    /// Words of a scratch part.
    pub(super) fn words(&self, part: ScratchPart, at: u64, count: u64) -> Vec<u64> {
        let mut bytes = vec![0; 8 * count as usize];
        self.read(part, at, &mut bytes);
        bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }

    /// Reads bytes of a scratch part.
    pub(super) fn read(&self, part: ScratchPart, at: u64, into: &mut [u8]) {
        self.io.read(self.slot, part, at, into);
    }

    /// Writes bytes into a scratch part.
    pub(super) fn write(&self, part: ScratchPart, at: u64, bytes: &[u8]) {
        self.io.write(self.slot, part, at, bytes);
    }
}
