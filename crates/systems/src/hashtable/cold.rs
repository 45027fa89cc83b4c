//! Operations on cold keys.

use super::claim::{Claim, Look, Verdict};
use super::count::{Count, DRAW};
use super::entry;
use super::front_end::Terms;
use super::io::{Io, Part, Request, Slot};
use super::table::Record;
use crate::SystemError;
use crate::checksum;
use doorbell_verbs::{Provider, Time};

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Something is posted, which will complete.
    Posted,
    /// It goes on at this time.
    Wait(Time),
    /// It has ended, with this version.
    Ended(u64),
    /// It cannot end here: the key may be hot where it was taken for cold, or cold where it was taken for hot.
    Elsewhere,
}

/// The newest whole version of the slots of a record that were read, which go over to `bytes`, and where that begins.
pub(super) fn newest<P: Provider>(
    io: &Io<P>,
    slot: Slot,
    key: u64,
    bytes: &mut Vec<u8>,
) -> Option<(u64, usize)> {
    let entry = io.table.entry() as usize;
    bytes.resize(io.table.slots_bytes() as usize, 0);
    io.read(slot, Part::Body, 0, bytes);
    let mut order: Vec<(u64, usize)> =
        bytes.chunks(entry).enumerate().map(|(n, bytes)| (entry::version(bytes), n * entry)).collect();
    order.sort_unstable_by_key(|(version, _)| std::cmp::Reverse(*version));
    order.into_iter().find(|(_, at)| {
        io.cpu.work(checksum::work(entry as u64));
        entry::is_whole(key, &bytes[*at..][..entry])
    })
}

/// READs of slots, and of the head after them.
pub(super) fn look_at<P: Provider>(
    io: &Io<P>,
    slot: Slot,
    Record { area, at }: Record,
) -> Result<Time, SystemError> {
    let slots = Request::Read(at + io.table.slots(), Part::Body, io.table.slots_bytes());
    io.post(slot, area, [slots, head(io, at)])
}

/// A READ of the head of a record.
pub(super) fn head<P: Provider>(io: &Io<P>, at: u64) -> Request {
    Request::Read(at, Part::Head, io.table.head())
}

/// The head that was READ: the count, and of each slot which version is done.
pub(super) fn head_of<P: Provider>(io: &Io<P>, slot: Slot) -> (Count, Vec<u64>) {
    let mut words = io.words(slot, Part::Head, 0, 1 + u64::from(io.table.versions));
    (Count::of(words.remove(0)), words)
}

/// Where a write is.
#[derive(Clone, Copy, Debug)]
enum Writing {
    /// A number is being drawn.
    Drawing,
    /// The record is looked at.
    Looking(Claim),
    /// The writer waits until it looks again.
    Waiting(Claim),
    /// The entry is on its way.
    Placing(u64),
}

/// A write.
#[derive(Debug)]
pub(super) struct Put {
    key: u64,
    record: Record,
    value: Vec<u8>,
    writing: Writing,
    posted: Time,
    /// Numbers that it gave up.
    pub(super) again: u64,
}

impl Put {
    /// Begins one.
    pub(super) fn begin<P: Provider>(
        io: &Io<P>,
        slot: Slot,
        key: u64,
        value: Vec<u8>,
    ) -> Result<Put, SystemError> {
        let record = io.table.record(key);
        let posted = Put::draw(io, slot, record)?;
        Ok(Put { key, record, value, writing: Writing::Drawing, posted, again: 0 })
    }

    /// Draws a number, and looks at what is done.
    fn draw<P: Provider>(io: &Io<P>, slot: Slot, record: Record) -> Result<Time, SystemError> {
        let Record { area, at } = record;
        io.post(slot, area, [Request::Add(at, DRAW), head(io, at)])
    }

    /// The value that it is to write.
    pub(super) fn into_value(self) -> Vec<u8> {
        self.value
    }

    /// What it has posted has completed.
    pub(super) fn completed<P: Provider>(
        &mut self,
        io: &mut Io<P>,
        slot: Slot,
        terms: &Terms,
    ) -> Result<Step, SystemError> {
        match self.writing {
            Writing::Drawing => {
                let before = Count::of(io.answer(slot));
                if before.is_marked() {
                    return Ok(Step::Elsewhere);
                }
                let number = before.number + 1;
                let claim = Claim::new(number, io.table.versions, (terms.lease, terms.drift), self.posted);
                self.look(io, slot, terms, claim, None)
            }
            Writing::Looking(claim) => {
                let whole = newest(io, slot, self.key, &mut Vec::new()).map(|(version, _)| version);
                self.look(io, slot, terms, claim, whole)
            }
            Writing::Placing(number) => Ok(Step::Ended(number)),
            Writing::Waiting(_) => Ok(Step::Posted),
        }
    }

    /// Does what a look says.
    fn look<P: Provider>(
        &mut self,
        io: &mut Io<P>,
        slot: Slot,
        terms: &Terms,
        mut claim: Claim,
        whole: Option<u64>,
    ) -> Result<Step, SystemError> {
        let (_, done) = head_of(io, slot);
        let look = Look { done: &done, whole, posted: self.posted, now: io.cpu.now() };
        let verdict = if terms.guard { claim.look(look) } else { Verdict::Write(Time::NEVER) };
        match verdict {
            Verdict::Write(until) => self.place(io, slot, claim, until),
            Verdict::Wait(from) => {
                let pause = terms.waits.turns(claim.turns());
                self.writing = Writing::Waiting(claim);
                let soon = look.now + pause;
                // What is done may change at any time before.
                Ok(Step::Wait(if from > look.now { soon.min(from) } else { soon }))
            }
            Verdict::Another => self.draw_another(io, slot),
        }
    }

    fn draw_another<P: Provider>(&mut self, io: &Io<P>, slot: Slot) -> Result<Step, SystemError> {
        self.again += 1;
        self.writing = Writing::Drawing;
        self.posted = Put::draw(io, slot, self.record)?;
        Ok(Step::Posted)
    }

    /// Writes the version, if it still may.
    fn place<P: Provider>(
        &mut self,
        io: &Io<P>,
        slot: Slot,
        claim: Claim,
        until: Time,
    ) -> Result<Step, SystemError> {
        let (number, of) = (claim.number(), claim.slot());
        let Record { area, at } = self.record;
        let mut bytes = Vec::new();
        entry::encode(self.key, number, &self.value, &mut bytes);
        io.cpu.work(checksum::work(bytes.len() as u64));
        io.write(slot, Part::Entry, 0, &bytes);
        io.write(slot, Part::Word, 0, &number.to_le_bytes());
        if io.cpu.now() > until {
            return self.draw_another(io, slot);
        }
        self.writing = Writing::Placing(number);
        let entry =
            Request::Write(at + io.table.slots() + of * io.table.entry(), Part::Entry, io.table.entry());
        io.post(slot, area, [entry, Request::Write(at + 8 + 8 * of, Part::Word, 8)])?;
        Ok(Step::Posted)
    }

    /// Its wait is over.
    pub(super) fn resume<P: Provider>(&mut self, io: &Io<P>, slot: Slot) -> Result<Step, SystemError> {
        if let Writing::Waiting(claim) = self.writing {
            self.writing = Writing::Looking(claim);
            self.posted = look_at(io, slot, self.record)?;
        }
        Ok(Step::Posted)
    }
}

/// A read.
#[derive(Debug)]
pub(super) struct Get {
    key: u64,
    record: Record,
    /// Whether what the record says counts even of a key that has left it: it was not in its block since the read began.
    anyway: bool,
    /// What it found, and where in that the value's entry begins.
    found: (Vec<u8>, usize),
    /// READs that the ring went round of.
    pub(super) again: u64,
}

impl Get {
    /// Begins one.
    pub(super) fn begin<P: Provider>(
        io: &Io<P>,
        slot: Slot,
        key: u64,
        anyway: bool,
    ) -> Result<Get, SystemError> {
        let record = io.table.record(key);
        look_at(io, slot, record)?;
        Ok(Get { key, record, anyway, found: (Vec::new(), 0), again: 0 })
    }

    /// Its READs have completed.
    pub(super) fn completed<P: Provider>(&mut self, io: &Io<P>, slot: Slot) -> Result<Step, SystemError> {
        let (count, done) = head_of(io, slot);
        if count.is_marked() && !self.anyway {
            return Ok(Step::Elsewhere);
        }
        let found = newest(io, slot, self.key, &mut self.found.0);
        let done = done.into_iter().max().unwrap_or(0);
        if let Some((version, at)) = found.filter(|(version, _)| *version >= done) {
            self.found.1 = at;
            return Ok(Step::Ended(version));
        }
        self.again += 1;
        look_at(io, slot, self.record)?;
        Ok(Step::Posted)
    }

    /// The value that it found.
    pub(super) fn value(&self, bytes: u32) -> &[u8] {
        let (found, at) = &self.found;
        entry::value(&found[*at..], bytes)
    }
}
