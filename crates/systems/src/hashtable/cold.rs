//! Writes and reads of cold keys. The module [`super`] defines the terms.
//!
//! # Writes
//! 1. The writer draws version n by a fetch-and-add on the count, and READs the head in the same list. If the
//!    key was marked, n is void: `moves.rs` describes how the write goes on.
//! 2. The writer asks [`SlotClaim`] whether it may write n. The answer is *yes*, *not yet* or *never*.
//! 3. After *never*, the writer gives n up and begins again at step 1.
//! 4. After *not yet*, the writer pauses. It then READs the slots and the head in one list, and goes back to
//!    step 2.
//! 5. After *yes*, the writer computes the entry.
//! 6. If the writer's period (`claim.rs`) has ended, the writer begins again at step 1.
//! 7. The writer WRITEs the entry, and then the slot's `done` word, in one list.
//!
//! The paper has only the fetch-and-add and the WRITE of the entry. With these alone, a writer may stop
//! between the two while V later versions are written. When it goes on, it overwrites an acknowledged
//! version, perhaps the newest. Steps 2 to 6 and the `done` words prevent this (ours). If the parameter
//! `guard` is off, the answer in step 2 is always *yes*, and the period never ends.
//!
//! *The writer's pause* (step 4) begins when the answer is known. Let u be the version that the slot's `done`
//! word names. The pause takes `backoff` times (n - u) / V, rounded down. It takes at least `backoff` and at
//! most `backoff_most`. It ends earlier when the writer may pass over missing versions.
//!
//! # Reads
//! 1. The reader READs the slots and then the head, in one list. If the key is marked, `moves.rs` describes
//!    how the read goes on.
//! 2. The reader takes the newest whole version in the slots.
//! 3. If a `done` word names a newer version, writers have overwritten slots during the READs. Then the
//!    reader begins again at step 1.
//!
//! Missing versions do not delay a reader. So a reader gets a version at least as new as each version that
//! was done when the read began. Once a reader has seen a version, each later reader sees that version or a
//! newer one, because the newest whole version is never overwritten.
//!
//! # Assumptions
//! - RC places the requests of one QP in the order in which they were posted. A READ sees memory no older
//!   than an earlier READ of its list.
//! - The bytes of one WRITE may be placed in any order, but aligned words are placed whole.
//! - `drift` bounds how far two clocks diverge within `table_lease`. It also bounds the delay from a writer's
//!   look at its clock to its WRITE at the target, including the delay of a proxy.
//! - A WRITE with a longer delay may overwrite a newer version, because the target places every WRITE that
//!   arrives. No time limit can prevent that (see [`crate::spinlock`]). A key for which this must not happen
//!   has to be hot.

use super::claim::{Look, SlotClaim, Verdict};
use super::count::{Count, DRAW};
use super::entry;
use super::request::AreaRequest;
use super::scratch::ScratchPart;
use super::table::{KeyRecord, TableLayout};
use super::turn::{OpStep, OpTurn};
use crate::SystemError;
use crate::checksum;
use doorbell_verbs::{Provider, Time};

/// Copies the slots that were READ to `bytes`. Returns the newest whole version in them, and the offset of
/// its entry in `bytes`.
pub(super) fn newest<P: Provider>(
    turn: &OpTurn<'_, P>,
    key: u64,
    bytes: &mut Vec<u8>,
) -> Option<(u64, usize)> {
    let entry = turn.table().entry() as usize;
    bytes.resize(turn.table().slots_bytes() as usize, 0);
    turn.read(ScratchPart::Body, 0, bytes);
    let mut order: Vec<(u64, usize)> =
        bytes.chunks(entry).enumerate().map(|(n, bytes)| (entry::version(bytes), n * entry)).collect();
    order.sort_unstable_by_key(|(version, _)| std::cmp::Reverse(*version));
    order.into_iter().find(|(_, at)| {
        turn.work(checksum::work(entry as u64));
        entry::is_whole(key, &bytes[*at..][..entry])
    })
}

/// READs the slots of a record, and then its head. Returns when the READs were posted.
pub(super) fn look_at<P: Provider>(
    turn: &OpTurn<'_, P>,
    KeyRecord { area, at }: KeyRecord,
) -> Result<Time, SystemError> {
    let table = turn.table();
    let slots = AreaRequest::Read(at + table.slots(), ScratchPart::Body, table.slots_bytes());
    turn.post(area, [slots, head(table, at)])
}

/// A READ of a record's head.
pub(super) fn head(table: &TableLayout, at: u64) -> AreaRequest {
    AreaRequest::Read(at, ScratchPart::Head, table.head())
}

/// The head that was READ: the count, and for each slot the version that is done.
pub(super) fn head_of<P: Provider>(turn: &OpTurn<'_, P>) -> (Count, Vec<u64>) {
    let mut words = turn.words(ScratchPart::Head, 0, 1 + u64::from(turn.table().versions));
    (Count::of(words.remove(0)), words)
}

/// The state of a write.
#[derive(Clone, Copy, Debug)]
enum Writing {
    /// The fetch-and-add that draws a number is in flight.
    Drawing,
    /// The record is being READ.
    Looking(SlotClaim),
    /// The writer waits before it READs the record again.
    Waiting(SlotClaim),
    /// The WRITEs of the entry and of the `done` word are in flight.
    Placing(u64),
}

/// A write of a cold key.
#[derive(Debug)]
pub(super) struct ColdPut {
    key: u64,
    record: KeyRecord,
    value: Vec<u8>,
    writing: Writing,
    posted: Time,
    /// How many numbers the writer gave up.
    pub(super) again: u64,
}

impl ColdPut {
    /// Begins a write.
    pub(super) fn begin<P: Provider>(
        turn: &OpTurn<'_, P>,
        key: u64,
        value: Vec<u8>,
    ) -> Result<ColdPut, SystemError> {
        let record = turn.table().record(key);
        let posted = ColdPut::draw(turn, record)?;
        Ok(ColdPut { key, record, value, writing: Writing::Drawing, posted, again: 0 })
    }

    /// Draws a number, and READs the head of the record.
    fn draw<P: Provider>(turn: &OpTurn<'_, P>, record: KeyRecord) -> Result<Time, SystemError> {
        let KeyRecord { area, at } = record;
        turn.post(area, [AreaRequest::Add(at, DRAW), head(turn.table(), at)])
    }

    /// The value to write, for a write that continues in the key's block.
    pub(super) fn into_value(self) -> Vec<u8> {
        self.value
    }

    /// Goes on after the posted list has completed.
    ///
    /// # Panics
    /// If the write has posted nothing.
    pub(super) fn completed<P: Provider>(&mut self, turn: &OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        match self.writing {
            Writing::Drawing => {
                let before = Count::of(turn.answer());
                if before.is_marked() {
                    return Ok(OpStep::Elsewhere);
                }
                let number = before.number + 1;
                let claim = SlotClaim::new(
                    number,
                    turn.table().versions,
                    (turn.terms.lease, turn.terms.drift),
                    self.posted,
                );
                self.look(turn, claim, None)
            }
            Writing::Looking(claim) => {
                let whole = newest(turn, self.key, &mut Vec::new()).map(|(version, _)| version);
                self.look(turn, claim, whole)
            }
            Writing::Placing(number) => Ok(OpStep::Ended(number)),
            Writing::Waiting(_) => panic!(
                "a list completed for a write of key {}, but the write waits and has posted none",
                self.key
            ),
        }
    }

    /// Writes the version, waits, or draws another number, as the claim decides after a look.
    fn look<P: Provider>(
        &mut self,
        turn: &OpTurn<'_, P>,
        mut claim: SlotClaim,
        whole: Option<u64>,
    ) -> Result<OpStep, SystemError> {
        let (_, done) = head_of(turn);
        let look = Look { done: &done, whole, posted: self.posted, now: turn.now() };
        let verdict = if turn.terms.guard { claim.look(look) } else { Verdict::Write(Time::NEVER) };
        match verdict {
            Verdict::Write(until) => self.place(turn, claim, until),
            Verdict::Wait(from) => {
                let pause = turn.terms.waits.turns(claim.turns());
                self.writing = Writing::Waiting(claim);
                let soon = look.now + pause;
                // The `done` words may change before `from`, so the writer looks again earlier.
                Ok(OpStep::Wait(if from > look.now { soon.min(from) } else { soon }))
            }
            Verdict::Another => self.draw_another(turn),
        }
    }

    fn draw_another<P: Provider>(&mut self, turn: &OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        self.again += 1;
        self.writing = Writing::Drawing;
        self.posted = ColdPut::draw(turn, self.record)?;
        Ok(OpStep::Posted)
    }

    /// Writes the version, or draws another version if the time `until` has passed.
    fn place<P: Provider>(
        &mut self,
        turn: &OpTurn<'_, P>,
        claim: SlotClaim,
        until: Time,
    ) -> Result<OpStep, SystemError> {
        let (number, of) = (claim.number(), claim.slot());
        let KeyRecord { area, at } = self.record;
        let mut bytes = Vec::new();
        entry::encode(self.key, number, &self.value, &mut bytes);
        turn.work(checksum::work(bytes.len() as u64));
        turn.write(ScratchPart::Entry, 0, &bytes);
        turn.write(ScratchPart::Word, 0, &number.to_le_bytes());
        if turn.now() > until {
            return self.draw_another(turn);
        }
        self.writing = Writing::Placing(number);
        let entry = AreaRequest::Write(
            at + turn.table().slots() + of * turn.table().entry(),
            ScratchPart::Entry,
            turn.table().entry(),
        );
        turn.post(area, [entry, AreaRequest::Write(at + 8 + 8 * of, ScratchPart::Word, 8)])?;
        Ok(OpStep::Posted)
    }

    /// Looks again after a wait.
    ///
    /// # Panics
    /// If the write does not wait.
    pub(super) fn resume<P: Provider>(&mut self, turn: &OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        let Writing::Waiting(claim) = self.writing else {
            panic!("a write of key {} was resumed, but does not wait: {:?}", self.key, self.writing)
        };
        self.writing = Writing::Looking(claim);
        self.posted = look_at(turn, self.record)?;
        Ok(OpStep::Posted)
    }
}

/// A read of a cold key.
#[derive(Debug)]
pub(super) struct ColdGet {
    key: u64,
    record: KeyRecord,
    /// Whether to read the record even if the key is marked, because the read has not found the key in its
    /// block.
    anyway: bool,
    /// The slots that were READ, and the offset of the found entry.
    found: (Vec<u8>, usize),
    /// How often the READs were repeated because writers overwrote slots during them.
    pub(super) again: u64,
}

impl ColdGet {
    /// Begins a read.
    pub(super) fn begin<P: Provider>(
        turn: &OpTurn<'_, P>,
        key: u64,
        anyway: bool,
    ) -> Result<ColdGet, SystemError> {
        let record = turn.table().record(key);
        look_at(turn, record)?;
        Ok(ColdGet { key, record, anyway, found: (Vec::new(), 0), again: 0 })
    }

    /// Goes on after the READs have completed.
    pub(super) fn completed<P: Provider>(&mut self, turn: &OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        let (count, done) = head_of(turn);
        if count.is_marked() && !self.anyway {
            return Ok(OpStep::Elsewhere);
        }
        let found = newest(turn, self.key, &mut self.found.0);
        let done = done.into_iter().max().unwrap_or(0);
        if let Some((version, at)) = found.filter(|(version, _)| *version >= done) {
            self.found.1 = at;
            return Ok(OpStep::Ended(version));
        }
        self.again += 1;
        look_at(turn, self.record)?;
        Ok(OpStep::Posted)
    }

    /// The value that was found.
    pub(super) fn value(&self, bytes: u32) -> &[u8] {
        let (found, at) = &self.found;
        entry::value(&found[*at..], bytes)
    }
}
