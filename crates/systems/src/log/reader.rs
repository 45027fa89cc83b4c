//! Reading the log in order.

use super::layout::{ENDS, HEAD, Layout, TAIL};
use super::mark::{Mark, MarkKind};
use crate::SystemError;
use crate::device::{self, Device, check};
use crate::memory_server;
use doorbell_verbs::{
    AccessFlags, Cq, Mem, Mr, Provider, Qp, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Time,
};

/// Largest number of records that one READ fetches.
const MOST: u64 = 64;

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The position of the record.
    pub position: u64,
    /// The engine that wrote the record.
    pub engine: u32,
    /// The content of the record.
    pub bytes: Vec<u8>,
}

/// How a reader accesses the log.
enum Reach<P: Provider> {
    /// The log is in memory of the reader's machine. The reader reports in the word `read` how far it has
    /// read.
    Here { log: Mem, read: Mem },
    /// The log is on another machine, and is READ.
    There { qp: Qp<P>, cq: Cq<P>, log: RemoteAddr, buffers: Mr<P> },
}

/// Reads records in order, up to the first hole. The [module](super) has the guarantees.
pub struct LogReader<P: Provider> {
    cpu: P,
    layout: Layout,
    reach: Reach<P>,
    next: u64,
    /// Number of void positions so far.
    voids: u64,
    /// Number of positions that were overwritten before they were read.
    missed: u64,
}

/// Offsets of READ marks and records in the buffer. Tail and head are READ to offset 0.
const MARKS: u64 = ENDS as u64;
const BODIES: u64 = MARKS + 8 * MOST;

impl<P: Provider> LogReader<P> {
    /// A reader on the log machine. It reports in the word `read` how far it has read, so no record is
    /// overwritten before it was read.
    pub fn here(cpu: &P, layout: Layout, log: Mem, read: Mem) -> LogReader<P> {
        LogReader::new(cpu, layout, Reach::Here { log, read })
    }

    /// A reader on another machine. It uses connection `number` of the log machine's `service`.
    ///
    /// # Errors
    /// If a verb fails.
    pub fn there(
        device: &Device<P>,
        layout: Layout,
        (number, service): (u32, &str),
    ) -> Result<LogReader<P>, SystemError> {
        let cq = device.context.create_cq(1)?;
        let qp = device::connect_rc(device, &cq, 1, number, service)?;
        let log = memory_server::find(&device.cpu, service)?;
        let buffers =
            device.registered(BODIES + MOST * u64::from(layout.record), AccessFlags::LOCAL_WRITE)?;
        Ok(LogReader::new(&device.cpu, layout, Reach::There { qp, cq, log, buffers }))
    }

    fn new(cpu: &P, layout: Layout, reach: Reach<P>) -> LogReader<P> {
        LogReader { cpu: cpu.clone(), layout, reach, next: 0, voids: 0, missed: 0 }
    }

    /// The next position to be read.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The number of void positions so far.
    pub fn voids(&self) -> u64 {
        self.voids
    }

    /// The number of positions so far that were overwritten before they were read.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Reads the next records: up to the first hole, and at most 64.
    ///
    /// # Errors
    /// If a READ fails.
    pub fn read(&mut self) -> Result<Vec<Record>, SystemError> {
        let most = MOST.min(self.layout.slots - self.next % self.layout.slots);
        match &self.reach {
            Reach::Here { log, read } => {
                let (log, read) = (*log, *read);
                let marks = self.marks(most, |position| self.cpu.load_u64(log, self.layout.mark(position)));
                let records = self
                    .records(&marks, |position, into| self.cpu.read(log, self.layout.body(position), into));
                self.pass(&marks);
                if !marks.is_empty() {
                    self.cpu.store_u64(read, 0, self.next);
                }
                Ok(records)
            }
            Reach::There { .. } => self.read_there(most),
        }
    }

    /// Reads records from another machine. Each READ is posted after the previous READ has completed, so the
    /// responder serves the READs in this order.
    fn read_there(&mut self, most: u64) -> Result<Vec<Record>, SystemError> {
        self.fetch(self.layout.mark(self.next), (MARKS, 8 * most as u32))?;
        let (layout, next) = (self.layout, self.next);
        let word = |position: u64| self.fetched(MARKS + 8 * (position - next));
        if Mark::of(word(next)).is_some_and(|mark| mark.lap > layout.lap(next)) {
            self.miss()?;
            return Ok(Vec::new());
        }
        let marks = self.marks(most, word);
        if marks.is_empty() {
            return Ok(Vec::new());
        }
        self.fetch(layout.body(next), (BODIES, marks.len() as u32 * layout.record))?;
        if self.miss()? {
            return Ok(Vec::new());
        }
        let body = |position: u64, into: &mut [u8]| {
            if let Reach::There { buffers, .. } = &self.reach {
                self.cpu.read(buffers.mem(), BODIES + (position - next) * u64::from(layout.record), into);
            }
        };
        let records = self.records(&marks, body);
        self.pass(&marks);
        Ok(records)
    }

    /// The marks from the next position on, up to the first hole.
    fn marks(&self, most: u64, word: impl Fn(u64) -> u64) -> Vec<Mark> {
        let marks =
            (self.next..self.next + most).map(|position| self.layout.mark_of(position, word(position)));
        marks.map_while(|mark| mark).collect()
    }

    /// The records that belong to these marks.
    fn records(&self, marks: &[Mark], read: impl Fn(u64, &mut [u8])) -> Vec<Record> {
        let written = (self.next..).zip(marks).filter(|(_, mark)| mark.kind == MarkKind::Written);
        let record = |(position, mark): (u64, &Mark)| {
            let mut bytes = vec![0; self.layout.record as usize];
            read(position, &mut bytes);
            Record { position, engine: mark.writer, bytes }
        };
        written.map(record).collect()
    }

    /// Advances past the positions of these marks.
    fn pass(&mut self, marks: &[Mark]) {
        self.voids += marks.iter().filter(|mark| mark.kind == MarkKind::Void).count() as u64;
        self.next += marks.len() as u64;
    }

    /// Advances to the first position that cannot be overwritten yet. Returns whether the reader missed a
    /// position.
    ///
    /// An engine overwrites a position only after two events: it has reserved the position one lap later, and
    /// has seen the head beyond the overwritten position. The tail shows the first event, and the head shows
    /// the second. Head and tail never decrease. So the bytes that were READ before are right if one of the
    /// events has not happened by now.
    fn miss(&mut self) -> Result<bool, SystemError> {
        self.fetch(TAIL, (0, ENDS))?;
        let reserved = self.fetched(TAIL).saturating_sub(self.layout.slots);
        let first = reserved.min(self.fetched(HEAD));
        let missed = first.saturating_sub(self.next);
        self.missed += missed;
        self.next += missed;
        Ok(missed > 0)
    }

    /// READs bytes of the log into the buffer, and waits for them.
    fn fetch(&self, from: u64, (to, len): (u64, u32)) -> Result<(), SystemError> {
        let Reach::There { qp, cq, log, buffers } = &self.reach else { return Ok(()) };
        let sge: [Sge; 1] = [buffers.sge(to, len)];
        qp.post_send(&[SendWr::new(0, SendOp::Read(log.at(from)), &sge).flags(SendFlags::SIGNALED)])?;
        loop {
            if let Some(wc) = cq.wait(Time::NEVER)? {
                return check(&wc);
            }
        }
    }

    fn fetched(&self, at: u64) -> u64 {
        match &self.reach {
            Reach::There { buffers, .. } => self.cpu.load_u64(buffers.mem(), at),
            Reach::Here { .. } => 0,
        }
    }
}
