//! Who reads the log, in order.

use super::layout::{ENDS, HEAD, Layout, TAIL};
use super::mark::{Mark, MarkKind};
use crate::SystemError;
use crate::device::{self, Device, check};
use crate::memory_server;
use doorbell_verbs::{
    AccessFlags, Cq, Mem, Mr, Provider, Qp, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Time,
};

/// Records that are READ together at most.
const MOST: u64 = 64;

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it is in the order of all.
    pub position: u64,
    /// Who wrote it.
    pub engine: u32,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// How a reader reaches the log.
enum Reach<P: Provider> {
    /// In memory of its own machine: the log, and the word by which it says how far it has read.
    Here { log: Mem, read: Mem },
    /// By READs.
    There { qp: Qp<P>, cq: Cq<P>, log: RemoteAddr, buffers: Mr<P> },
}

/// Reads records in order, and no hole. What may be relied on is said in the [module](super).
pub struct LogReader<P: Provider> {
    cpu: P,
    layout: Layout,
    reach: Reach<P>,
    next: u64,
    /// Positions that hold nothing, and that were overwritten before they were read.
    voids: u64,
    missed: u64,
}

/// Where READs come to: the ends, marks, records.
const MARKS: u64 = ENDS as u64;
const BODIES: u64 = MARKS + 8 * MOST;

impl<P: Provider> LogReader<P> {
    /// One of the log machine: nothing that it has not read is overwritten, as it says in a word how far it is.
    pub fn here(cpu: &P, layout: Layout, log: Mem, read: Mem) -> LogReader<P> {
        LogReader::new(cpu, layout, Reach::Here { log, read })
    }

    /// One of another machine, which has end `number` of the log machine's `service`.
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

    /// The next position that it will read.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Positions so far that hold nothing.
    pub fn voids(&self) -> u64 {
        self.voids
    }

    /// Positions so far that were overwritten before it came to them.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Reads what follows what it has read, as far as there is no hole; some of it where that is much.
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

    /// Each READ is posted when the one before has completed: that it is served later, no order of READs is needed for.
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

    /// The marks from the next position on, as far as there is no hole.
    fn marks(&self, most: u64, word: impl Fn(u64) -> u64) -> Vec<Mark> {
        let marks =
            (self.next..self.next + most).map(|position| self.layout.mark_of(position, word(position)));
        marks.map_while(|mark| mark).collect()
    }

    /// What these marks are of.
    fn records(&self, marks: &[Mark], read: impl Fn(u64, &mut [u8])) -> Vec<Record> {
        let written = (self.next..).zip(marks).filter(|(_, mark)| mark.kind == MarkKind::Written);
        let record = |(position, mark): (u64, &Mark)| {
            let mut bytes = vec![0; self.layout.record as usize];
            read(position, &mut bytes);
            Record { position, engine: mark.writer, bytes }
        };
        written.map(record).collect()
    }

    /// Goes on behind them.
    fn pass(&mut self, marks: &[Mark]) {
        self.voids += marks.iter().filter(|mark| mark.kind == MarkKind::Void).count() as u64;
        self.next += marks.len() as u64;
    }

    /// Goes on where nothing was overwritten by now, if that is not where it is; whether it did. Who overwrites a position has reserved the one a lap later and has
    /// seen the head behind the first; neither head nor tail ever goes back, so what was READ before is right where they say so now.
    fn miss(&mut self) -> Result<bool, SystemError> {
        self.fetch(TAIL, (0, ENDS))?;
        let reserved = self.fetched(TAIL).saturating_sub(self.layout.slots);
        let first = reserved.min(self.fetched(HEAD));
        let missed = first.saturating_sub(self.next);
        self.missed += missed;
        self.next += missed;
        Ok(missed > 0)
    }

    /// READs some bytes of the log to where they can be looked at, and waits for them.
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
