//! How an engine appends to the log.

use super::config::Full;
use super::layout::{ENDS, HEAD, Layout, SlotRun, TAIL};
use super::mark::{Mark, MarkKind};
use super::reserver::Reserver;
use crate::SystemError;
use crate::device::{self, Device, check};
use crate::vector_io::{Strategy, VectorPiece};
use doorbell_verbs::{
    AccessFlags, Cq, Mr, Provider, Qp, QpCap, QpInitAttr, QpType, RemoteAddr, SendFlags, SendOp, SendWr, Sge,
    Span, Time, Wc,
};
use std::collections::VecDeque;
use std::ops::Range;

/// Time after which an engine that waits for room READs the head again.
const LOOK_AGAIN: Span = Span::from_us(5);

/// Offset, in the buffer `answers`, of the engine's word. The tail and the head are before this word. The
/// results of reservations follow it, one for each append in flight.
const ANSWERS: u64 = ENDS as u64;

/// The parameters of an engine's appends.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The layout of the log.
    pub layout: Layout,
    /// Whether appends wait or are refused when the log is full.
    pub full: Full,
    /// The strategy by which the records of an append get into WRITEs.
    pub strategy: Strategy,
    /// A core at the socket to which records are copied, if the strategy copies them.
    pub copies_near: u32,
    /// Largest number of records in an append.
    pub most: u32,
    /// Largest number of appends in flight.
    pub outstanding: u32,
    /// Bytes of the largest WRITE that is inline.
    pub inline: u32,
    /// Longest time for which an append waits for room in a full log.
    pub patience: Span,
}

/// The outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// The records are part of the log, at this position and the positions that follow.
    At(u64),
    /// The log is full, and none of the records is part of it.
    Refused,
}

/// The result of a call of [`Appender::poll`].
#[derive(Clone, Copy, Debug)]
pub struct Polled<'a> {
    /// The outcomes of the appends that have ended, in the order of the appends.
    pub ended: &'a [AppendOutcome],
    /// Whether there was nothing to do, so that the caller may pause.
    pub idle: bool,
}

/// An append in flight.
#[derive(Clone, Debug)]
struct Batch {
    /// Number of the append, which determines its buffers.
    number: u64,
    records: Vec<VectorPiece>,
    state: BatchState,
}

/// The state of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchState {
    /// The append has no positions yet.
    Begun,
    /// The append has positions from this one on, and nothing is posted for it.
    Reserved(u64),
    /// The records are posted for positions from this one on.
    Written(u64),
    /// The append is refused. Void marks are posted for those of its positions that are part of the log.
    Voided,
    /// The append is refused. None of its positions is part of the log, so nothing is posted for it.
    Refused,
}

/// The meaning of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompletionOf {
    Reservation,
    Records,
    Ends,
    Word,
}

impl CompletionOf {
    fn id(self) -> u64 {
        self as u64
    }

    /// The meaning of the completion with this `wr_id`.
    ///
    /// # Panics
    /// If no appender posts work requests with this `wr_id`.
    fn of_id(id: u64) -> CompletionOf {
        use CompletionOf::{Ends, Records, Reservation, Word};
        let found = [Reservation, Records, Ends, Word].into_iter().find(|of| of.id() == id);
        found.unwrap_or_else(|| panic!("a completion has wr_id {id}, but no appender posts this wr_id"))
    }
}

/// The state of the engine's word at the log machine, as far as the engine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EngineWord {
    /// The word is 0: the engine has no unmarked position.
    Idle,
    /// A WRITE of another value than 0 is in flight. Later work requests of the QP take effect after it.
    Posted,
    /// The WRITE of another value than 0 has completed.
    Active,
}

/// The wait for room in a full log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// The engine does not wait for room.
    NotAsked,
    /// The engine waits since `since`, and READs the head again at `again`.
    Waits { since: Time, again: Time },
    /// A READ of the head is in flight.
    Looks { since: Time, again: Time },
}

/// The registered memory of an appender.
struct AppendBuffers<P: Provider> {
    /// Memory for results of READs and fetch-and-adds, and for the engine's word before it is WRITTEN.
    answers: Mr<P>,
    /// Memory for marks that are WRITTEN.
    marks: Mr<P>,
    /// Memory to which records are copied, if the strategy copies them.
    copies: Option<Mr<P>>,
}

/// An engine's QP to the log machine.
struct LogQp<P: Provider> {
    qp: Qp<P>,
    cq: Cq<P>,
    memory: RemoteAddr,
    /// Largest number of SGEs of a WRITE.
    sges: usize,
    /// Largest number of bytes of inline payload.
    inline: u32,
}

/// Appends records to the log, in the order of calls. The [module](super) has the guarantees. After an error,
/// the outcome of appends that have not ended is unknown, and every call that posts fails.
pub struct Appender<P: Provider> {
    cpu: P,
    to: LogQp<P>,
    terms: Terms,
    number: u32,
    reserver: Reserver<P>,
    buffers: AppendBuffers<P>,
    /// The appends in flight, in the order of calls.
    batches: VecDeque<Batch>,
    /// The first `reserved` appends in flight have positions.
    reserved: usize,
    /// The first `posted` appends in flight are posted.
    posted: usize,
    /// Number of appends that have begun.
    begun: u64,
    word: EngineWord,
    /// All positions of this engine below this position are marked.
    marked: u64,
    /// The head, as the engine last saw it.
    head: u64,
    room: Room,
    found: Vec<AppendOutcome>,
    told: Vec<AppendOutcome>,
}

/// Largest number of send queue entries that an append needs: the word, a reservation, records in two runs,
/// and marks in two runs.
fn requests(terms: &Terms, sges: u32) -> u32 {
    let records = match terms.strategy {
        Strategy::Sp => 2,
        Strategy::Doorbell => terms.most,
        Strategy::Sgl => terms.most.div_ceil(sges) + 1,
    };
    records + 4
}

impl<P: Provider> Appender<P> {
    /// Connects engine `number` to the log machine's `service`. Returns once the log machine is ready.
    ///
    /// # Errors
    /// If the send queue would be too short, there is no more memory, or a verb fails.
    pub fn open(
        device: &Device<P>,
        (number, service): (u32, &str),
        terms: Terms,
        reserver: Reserver<P>,
    ) -> Result<Appender<P>, SystemError> {
        let cpu = &device.cpu;
        let sges =
            if terms.strategy == Strategy::Sgl { terms.most.min(device.attr.max_sge).max(1) } else { 1 };
        let queue = requests(&terms, sges).saturating_mul(terms.outstanding).saturating_add(4);
        if queue > device.attr.max_qp_wr {
            let most = device.attr.max_qp_wr;
            return SystemError::config(format!(
                "{} outstanding appends of {} records may need {queue} work requests, but a send queue has \
                 at most {most}",
                terms.outstanding, terms.most
            ));
        }
        let inline = device.inline(terms.inline).max(device.inline(8));
        // If the log machine is gone, each work request completes, not only the signalled ones. A CQ overrun
        // would hide the reason.
        let cq = device.context.create_cq(queue)?;
        let cap = QpCap {
            max_send_wr: queue,
            max_recv_wr: 1,
            max_send_sge: sges,
            max_inline_data: inline,
            ..QpCap::default()
        };
        let qp = device.pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, cap))?;
        device::connect_qp(device, &qp, number, service)?;
        let window = u64::from(terms.outstanding);
        let copied = u64::from(terms.most) * u64::from(terms.layout.record).next_multiple_of(64) * window;
        let copies = match terms.strategy {
            Strategy::Sp => {
                Some(device.registered_near(terms.copies_near, copied, AccessFlags::LOCAL_WRITE)?)
            }
            Strategy::Doorbell | Strategy::Sgl => None,
        };
        if let Some(copies) = &copies {
            device::warm(cpu, copies.mem());
        }
        let to =
            LogQp { qp, cq, memory: crate::memory_server::find(cpu, service)?, sges: sges as usize, inline };
        let buffers = AppendBuffers {
            answers: device.registered(ANSWERS + 64 * (window + 1), AccessFlags::LOCAL_WRITE)?,
            marks: device.registered(window * mark_bytes(&terms), AccessFlags::LOCAL_WRITE)?,
            copies,
        };
        Ok(Appender {
            cpu: cpu.clone(),
            to,
            terms,
            number,
            reserver,
            buffers,
            batches: VecDeque::new(),
            reserved: 0,
            posted: 0,
            begun: 0,
            word: EngineWord::Idle,
            marked: 0,
            head: 0,
            room: Room::NotAsked,
            found: Vec::new(),
            told: Vec::new(),
        })
    }

    /// Whether another append may begin.
    pub fn has_room(&self) -> bool {
        self.batches.len() < self.terms.outstanding as usize
    }

    /// Begins to append records. The records must not change before the append has ended. Appends end in the
    /// order in which they begin.
    ///
    /// # Errors
    /// - There is no room.
    /// - There are no records, or too many.
    /// - A record has the wrong length.
    /// - A verb fails or has failed before.
    pub fn append(&mut self, records: &[VectorPiece]) -> Result<(), SystemError> {
        let (most, len) = (self.terms.most as usize, self.terms.layout.record);
        if !self.has_room() || records.is_empty() || records.len() > most {
            let why = format!(
                "an append of {} records is not possible: an append has 1 to {most} records, and {} appends \
                 are outstanding",
                records.len(),
                self.batches.len()
            );
            return Err(SystemError::Protocol(why));
        }
        if let Some(record) = records.iter().find(|record| record.len() != len) {
            let why = format!("a record has {} bytes, but all records have {len}", record.len());
            return Err(SystemError::Protocol(why));
        }
        let number = self.begun;
        self.begun += 1;
        self.batches.push_back(Batch { number, records: records.to_vec(), state: BatchState::Begun });
        match self.reserver {
            // The word is in place before the reservation, because both go by one QP in this order.
            Reserver::FetchAdd => {
                let answer = [self.buffers.answers.sge(self.answer(number), 8)];
                let op = SendOp::FetchAdd { remote: self.to.memory.at(TAIL), add: records.len() as u64 };
                let add = SendWr::new(CompletionOf::Reservation.id(), op, &answer).flags(SendFlags::SIGNALED);
                if self.word != EngineWord::Idle {
                    return Ok(self.to.qp.post_send(&[add])?);
                }
                let word = [self.word_sge(self.marked)];
                self.word = EngineWord::Active;
                Ok(self.to.qp.post_send(&[self.word_write(&word), add])?)
            }
            Reserver::Rpc(_) => self.ask(),
        }
    }

    /// Asks the log machine's thread for the positions of the next append that has none. Only one question is
    /// outstanding at a time, so that positions come in the order of appends. The engine asks only after the
    /// WRITE of its word has completed, because question and WRITE go by different QPs.
    fn ask(&mut self) -> Result<(), SystemError> {
        if self.word == EngineWord::Idle {
            let word = [self.word_sge(self.marked)];
            self.word = EngineWord::Posted;
            return Ok(self.to.qp.post_send(&[self.word_write(&word).flags(SendFlags::SIGNALED)])?);
        }
        let Some(next) = self.batches.get(self.reserved) else { return Ok(()) };
        match &mut self.reserver {
            Reserver::Rpc(asker) if self.word == EngineWord::Active => asker.ask(next.records.len() as u64),
            _ => Ok(()),
        }
    }

    /// Continues the appends in flight, as far as possible without waiting.
    ///
    /// # Errors
    /// If a verb fails or has failed before, for example because the log machine is dead or has fenced the
    /// engine. If the log was full for longer than the patience.
    pub fn poll(&mut self) -> Result<Polled<'_>, SystemError> {
        let mut wc = [Wc::default(); 16];
        let found = self.to.cq.poll(&mut wc)?.len();
        for wc in &wc[..found] {
            check(wc)?;
            match CompletionOf::of_id(wc.wr_id) {
                CompletionOf::Reservation => self.is_reserved(),
                CompletionOf::Records => self.completed(),
                CompletionOf::Ends => self.has_looked(),
                CompletionOf::Word => {
                    assert_eq!(
                        self.word,
                        EngineWord::Posted,
                        "an engine's word completes only after it was posted"
                    );
                    self.word = EngineWord::Active;
                    self.ask()?;
                }
            }
        }
        let asked = self.answered()?;
        let moved = self.go_on()?;
        self.told.clear();
        std::mem::swap(&mut self.told, &mut self.found);
        let idle = found == 0 && !asked && !moved && self.told.is_empty();
        Ok(Polled { ended: &self.told, idle })
    }

    /// The latest time at which [`Appender::poll`] has to be called again, even if nothing completes.
    pub fn due(&self) -> Time {
        let waits = match self.room {
            Room::Waits { again, .. } => again,
            Room::NotAsked | Room::Looks { .. } => Time::NEVER,
        };
        match &self.reserver {
            Reserver::Rpc(asker) => waits.min(asker.due()),
            Reserver::FetchAdd => waits,
        }
    }

    /// Tells the log machine, by a WRITE, that this engine has no append in flight. So the engine does not
    /// count as a possible owner of a hole. Waits until the WRITE has completed.
    ///
    /// # Errors
    /// If an append is in flight, or a verb fails or has failed before.
    pub fn rest(&mut self) -> Result<(), SystemError> {
        if !self.batches.is_empty() {
            let why = format!("{} appends are outstanding, so the engine cannot rest", self.batches.len());
            return Err(SystemError::Protocol(why));
        }
        if self.word == EngineWord::Idle {
            return Ok(());
        }
        self.word = EngineWord::Idle;
        let word = self.write_word(0);
        self.to.qp.post_send(&[self.word_write(&[word]).flags(SendFlags::SIGNALED)])?;
        loop {
            if let Some(wc) = self.to.cq.wait(Time::NEVER)? {
                return check(&wc);
            }
        }
    }

    /// Handles a reply of the log machine's thread. Returns whether there was a reply.
    fn answered(&mut self) -> Result<bool, SystemError> {
        let Reserver::Rpc(asker) = &mut self.reserver else { return Ok(false) };
        let Some(position) = asker.answer()? else { return Ok(false) };
        self.has_position(position);
        self.ask()?;
        Ok(true)
    }

    /// Handles the completion of the fetch-and-add for the next append without positions.
    fn is_reserved(&mut self) {
        let number = self.batches[self.reserved].number;
        let position = self.cpu.load_u64(self.buffers.answers.mem(), self.answer(number));
        self.has_position(position);
    }

    /// Gives positions to the next append without positions.
    ///
    /// # Panics
    /// If every append in flight has positions.
    fn has_position(&mut self, position: u64) {
        let batch = &mut self.batches[self.reserved];
        assert_eq!(batch.state, BatchState::Begun, "an append gets its positions only once");
        batch.state = BatchState::Reserved(position);
        self.reserved += 1;
    }

    /// Handles the completion of a READ of the head.
    ///
    /// # Panics
    /// If no READ of the head was posted.
    fn has_looked(&mut self) {
        let Room::Looks { since, again } = self.room else {
            panic!("a READ of the head completed, but none was posted: {:?}", self.room)
        };
        self.head = self.cpu.load_u64(self.buffers.answers.mem(), HEAD);
        self.room = Room::Waits { since, again };
    }

    /// Handles the completion of the first append's WRITEs.
    fn completed(&mut self) {
        self.ended();
        self.end_without_posts();
    }

    /// Ends the first append in flight. Its WRITEs have completed, or it needed none.
    ///
    /// # Panics
    /// If no append is in flight, or the first append still has to be posted.
    fn ended(&mut self) {
        let outcome = match self.batches.pop_front().map(|batch| batch.state) {
            Some(BatchState::Written(position)) => AppendOutcome::At(position),
            Some(BatchState::Voided | BatchState::Refused) => AppendOutcome::Refused,
            state => panic!("an append ended, but nothing was posted for it: {state:?}"),
        };
        self.posted -= 1;
        self.reserved -= 1;
        self.found.push(outcome);
    }

    /// Ends the first appends in flight that needed no WRITEs.
    fn end_without_posts(&mut self) {
        while self.posted > 0 && self.batches.front().is_some_and(|batch| batch.state == BatchState::Refused)
        {
            self.ended();
        }
    }

    /// In order, posts the records of appends that have positions and room. Returns whether anything was
    /// posted or refused.
    fn go_on(&mut self) -> Result<bool, SystemError> {
        let mut moved = false;
        while let Some(batch) = self.batches.get(self.posted) {
            let BatchState::Reserved(position) = batch.state else { break };
            let end = position + batch.records.len() as u64;
            match self.terms.full {
                Full::Wrap if end > self.head + self.terms.layout.slots => {
                    return Ok(self.wait_for_room(position)? || moved);
                }
                Full::Refuse if end > self.terms.layout.slots => self.refuse(position)?,
                Full::Refuse | Full::Wrap => self.post_records(position)?,
            }
            self.room = Room::NotAsked;
            self.posted += 1;
            moved = true;
        }
        self.end_without_posts();
        Ok(moved)
    }

    /// READs the head at intervals of [`LOOK_AGAIN`]. Each time, also WRITEs the engine's word. The word then
    /// says that all positions of the engine below `position` are marked. Returns whether the call has posted
    /// anything.
    fn wait_for_room(&mut self, position: u64) -> Result<bool, SystemError> {
        let now = self.cpu.now();
        let (since, again) = match self.room {
            Room::NotAsked => (now, now),
            Room::Waits { since, again } | Room::Looks { since, again } => (since, again),
        };
        if now.since(since) > self.terms.patience {
            let why = format!(
                "the log was full for {} us, because no reader reads it",
                self.terms.patience.as_ns() / 1000
            );
            return Err(SystemError::Timeout(why));
        }
        if matches!(self.room, Room::Looks { .. }) || now < again {
            return Ok(false);
        }
        self.marked = position;
        self.room = Room::Looks { since, again: now + LOOK_AGAIN };
        let (word, ends) = ([self.word_sge(position)], [self.buffers.answers.sge(0, ENDS)]);
        let read = SendWr::new(CompletionOf::Ends.id(), SendOp::Read(self.to.memory), &ends)
            .flags(SendFlags::SIGNALED);
        self.to.qp.post_send(&[self.word_write(&word), read])?;
        Ok(true)
    }

    /// Posts the first append that is not posted: its records, then its marks, with one doorbell.
    fn post_records(&mut self, position: u64) -> Result<(), SystemError> {
        let batch = &self.batches[self.posted];
        let (number, records) = (batch.number, batch.records.len() as u64);
        let copied = self.copy(batch);
        let mut sges: Vec<Sge> = batch.records.iter().map(VectorPiece::sge).collect();
        let mut writes: Vec<(u64, Range<usize>)> = Vec::with_capacity(4);
        let layout = self.terms.layout;
        let runs: Vec<SlotRun> = layout.runs(position, records).collect();
        for run in &runs {
            let first = (run.position - position) as usize;
            match copied {
                Some(from) => {
                    let (at, len) =
                        (first as u64 * u64::from(layout.record), run.records as u32 * layout.record);
                    sges.extend(self.buffers.copies.as_ref().map(|copies| copies.sge(from + at, len)));
                    writes.push((layout.body(run.position), sges.len() - 1..sges.len()));
                }
                None => {
                    for done in (0..run.records as usize).step_by(self.to.sges) {
                        let own =
                            first + done..first + run.records.min((done + self.to.sges) as u64) as usize;
                        writes.push((layout.body(run.position + done as u64), own));
                    }
                }
            }
        }
        self.mark(number, position, records, MarkKind::Written);
        self.add_marks(number, (position, &runs), &mut sges, &mut writes);
        self.post_writes(&sges, &writes)?;
        self.marked = position + records;
        self.batches[self.posted].state = BatchState::Written(position);
        Ok(())
    }

    /// Refuses the first append that is not posted. Its positions that are part of the log get void marks.
    fn refuse(&mut self, position: u64) -> Result<(), SystemError> {
        let Appender { posted, terms: Terms { layout, .. }, .. } = *self;
        let records = layout.slots.saturating_sub(position);
        self.batches[posted].state = if records > 0 { BatchState::Voided } else { BatchState::Refused };
        self.marked = position + self.batches[posted].records.len() as u64;
        if records == 0 {
            return Ok(());
        }
        let number = self.batches[posted].number;
        let runs: Vec<SlotRun> = layout.runs(position, records).collect();
        let (mut sges, mut writes) = (Vec::new(), Vec::new());
        self.mark(number, position, records, MarkKind::Void);
        self.add_marks(number, (position, &runs), &mut sges, &mut writes);
        self.post_writes(&sges, &writes)
    }

    /// Copies records side by side if the strategy copies them. Returns the offset of the copies.
    fn copy(&self, batch: &Batch) -> Option<u64> {
        let copies = self.buffers.copies.as_ref()?;
        let record = u64::from(self.terms.layout.record);
        let place = batch.number % u64::from(self.terms.outstanding)
            * (copies.mem().len() / u64::from(self.terms.outstanding));
        for (n, piece) in (0..).zip(&batch.records) {
            piece.copy_to(&self.cpu, copies.mem(), place + n * record);
        }
        Some(place)
    }

    /// Stores the marks of an append in the buffer from which the NIC WRITEs them.
    fn mark(&self, number: u64, position: u64, records: u64, kind: MarkKind) {
        let at = self.marks_at(number);
        for n in 0..records {
            let mark = Mark { lap: self.terms.layout.lap(position + n), writer: self.number, kind };
            self.cpu.store_u64(self.buffers.marks.mem(), at + 8 * n, mark.bits());
        }
    }

    /// Appends the WRITEs of marks to the list of WRITEs.
    fn add_marks(
        &self,
        number: u64,
        (position, runs): (u64, &[SlotRun]),
        sges: &mut Vec<Sge>,
        writes: &mut Vec<(u64, Range<usize>)>,
    ) {
        for run in runs {
            let from = self.marks_at(number) + 8 * (run.position - position);
            sges.push(self.buffers.marks.sge(from, 8 * run.records as u32));
            writes.push((self.terms.layout.mark(run.position), sges.len() - 1..sges.len()));
        }
    }

    /// Posts these WRITEs in order: each has its offset in the log, and a range of `sges`. Only the last
    /// WRITE is signalled.
    fn post_writes(&self, sges: &[Sge], writes: &[(u64, Range<usize>)]) -> Result<(), SystemError> {
        let last = writes.len() - 1;
        let list: Vec<SendWr<'_>> = (0..)
            .zip(writes)
            .map(|(n, (at, range))| {
                let wr = SendWr::new(
                    CompletionOf::Records.id(),
                    SendOp::Write(self.to.memory.at(*at)),
                    &sges[range.clone()],
                );
                let inline = range.len() == 1 && wr.length() <= u64::from(self.to.inline);
                let wr = if inline { wr.flags(SendFlags::INLINE) } else { wr };
                if n == last { wr.flags(SendFlags::SIGNALED) } else { wr }
            })
            .collect();
        Ok(self.to.qp.post_send(&list)?)
    }

    /// Offset, in the buffer `answers`, of the result of an append's fetch-and-add.
    fn answer(&self, number: u64) -> u64 {
        ANSWERS + 64 * (1 + number % u64::from(self.terms.outstanding))
    }

    fn marks_at(&self, number: u64) -> u64 {
        number % u64::from(self.terms.outstanding) * mark_bytes(&self.terms)
    }

    /// Stores a value of the engine's word for a WRITE. The value says that all positions of the engine below
    /// `floor` are marked.
    fn word_sge(&self, floor: u64) -> Sge {
        self.write_word(floor + 1)
    }

    fn write_word(&self, word: u64) -> Sge {
        self.cpu.store_u64(self.buffers.answers.mem(), ANSWERS, word);
        self.buffers.answers.sge(ANSWERS, 8)
    }

    fn word_write<'a>(&self, word: &'a [Sge; 1]) -> SendWr<'a> {
        let at = self.to.memory.at(self.terms.layout.word(self.number));
        SendWr::new(CompletionOf::Word.id(), SendOp::Write(at), word).flags(SendFlags::INLINE)
    }
}

/// Bytes of the marks of an append.
fn mark_bytes(terms: &Terms) -> u64 {
    (8 * u64::from(terms.most)).next_multiple_of(64)
}
