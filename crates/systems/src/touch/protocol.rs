//! The server's and the client's programs, for either stack.

use super::config::{Mode, Reading, Response, Scanned, Stack};
use super::stack::{Asking, Serving};
use super::walk::LineWalk;
use super::{rdma, tcp};
use crate::measure::{How, Phase};
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{Mem, PageSize, Program, Provider, Span, Time, Touch};

/// The server's thread.
#[derive(Clone, Debug)]
pub struct TouchServer {
    /// The stack that it uses.
    pub stack: Stack,
    /// Verb of the response, over RDMA.
    pub response: Response,
    /// The buffer that it scans.
    pub mode: Mode,
    /// The accesses of a scan. Stores write the request's number.
    pub scan: Scanned,
    /// The walk through the buffer.
    pub walk: LineWalk,
    /// Responses for each scan.
    pub sends_per_fill: u64,
    /// Computation for each request.
    pub compute: Span,
    /// The buffer. Each response is the whole buffer.
    pub buffer: Mem,
    /// When it measures, and when it ends.
    pub interval: Interval,
}

impl Program for TouchServer {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        match self.stack {
            Stack::Rdma => self.serve(&p, rdma::RdmaServer::new(&p, self.response, self.buffer)?),
            Stack::Tcp => self.serve(&p, tcp::TcpServer::new(&p, self.buffer)?),
        }
    }
}

impl TouchServer {
    fn serve<P: Provider>(&self, p: &P, mut client: impl Serving) -> Result<Measured, SystemError> {
        let scanned = match self.mode {
            Mode::Touch => self.buffer,
            Mode::NoTouch => p.alloc(self.buffer.len(), PageSize::Small)?,
        };
        let mut measured = Measured::default();
        let mut last: Option<TouchServed> = None;
        while let Some(number) = client.next(&self.interval)? {
            let began = p.now();
            if let Some(last) = last {
                last.count(&mut measured, &self.interval, began);
            }
            if number.is_multiple_of(self.sends_per_fill) {
                let touch = match self.scan {
                    Scanned::Read => Touch::Load,
                    Scanned::Write => Touch::Store(number as u8),
                };
                self.walk.go(p, scanned, touch);
            }
            let prepared = p.now();
            p.compute(self.compute);
            let sends = p.now();
            client.respond()?;
            last = Some(TouchServed { began, prepared, sends, sent: p.now() });
        }
        Ok(measured)
    }
}

/// When the phases of a served request began and ended.
#[derive(Clone, Copy)]
struct TouchServed {
    began: Time,
    prepared: Time,
    sends: Time,
    sent: Time,
}

impl TouchServed {
    /// Counts all phases if the next request arrived in the interval. By then the client has the whole
    /// response, so phases and operations are counted for one set of requests.
    fn count(self, measured: &mut Measured, interval: &Interval, next: Time) {
        if !interval.contains(next) {
            return;
        }
        let TouchServed { began, prepared, sends, sent } = self;
        let whenever = Interval::endless();
        measured.spent(&whenever, Phase::Prepare, began, prepared);
        measured.spent(&whenever, Phase::Compute, prepared, sends);
        measured.spent(&whenever, Phase::Respond, sends, sent);
    }
}

/// The client's check of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The client checks nothing.
    Trusted,
    /// The client checks that the response has the content of the last fill.
    Checked {
        /// Responses for each fill.
        sends_per_fill: u64,
        /// Bytes from one store of the server to the next.
        step: u32,
    },
}

/// The client.
#[derive(Clone, Debug)]
pub struct TouchClient {
    /// The stack that it uses.
    pub stack: Stack,
    /// Verb of the response, over RDMA.
    pub response: Response,
    /// Bytes of a response.
    pub size: u32,
    /// The buffer that the client scans after it has received the response.
    pub reading: Reading,
    /// The walk through that buffer.
    pub walk: LineWalk,
    /// Number of requests after which the client ends; 0 for no limit.
    pub limit: u64,
    /// The check of each response.
    pub verdict: Verdict,
    /// When it measures, and when it ends.
    pub interval: Interval,
}

impl Program for TouchClient {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let buffer = p.alloc(self.size.into(), PageSize::Small)?;
        match self.stack {
            Stack::Rdma => self.ask(&p, buffer, rdma::RdmaClient::new(&p, self.response, buffer)?),
            Stack::Tcp => self.ask(&p, buffer, tcp::TcpClient::new(&p, buffer)?),
        }
    }
}

impl TouchClient {
    fn ask<P: Provider>(&self, p: &P, buffer: Mem, mut server: impl Asking) -> Result<Measured, SystemError> {
        let scanned = match self.reading {
            Reading::None => None,
            Reading::Touch => Some(buffer),
            Reading::NoTouch => Some(p.alloc(self.size.into(), PageSize::Small)?),
        };
        let interval = self.interval.begin(p);
        let mut measured = Measured::default();
        let mut number = 0;
        while p.now() < interval.end() && (self.limit == 0 || number < self.limit) {
            let began = p.now();
            server.ask(number)?;
            if !server.answered(&interval)? {
                break;
            }
            let answered = p.now();
            if let Some(scanned) = scanned {
                self.walk.go(p, scanned, Touch::Load);
                measured.spent(&interval, Phase::ClientScan, answered, p.now());
            }
            measured.operation(&interval, began, p.now(), How::default());
            self.judge(p, buffer, number)?;
            number += 1;
        }
        if self.limit > number {
            return Err(SystemError::Timeout(format!(
                "only {number} of {} requests were answered",
                self.limit
            )));
        }
        Ok(measured)
    }

    fn judge<P: Provider>(&self, p: &P, buffer: Mem, number: u64) -> Result<(), SystemError> {
        let Verdict::Checked { sends_per_fill, step } = self.verdict else { return Ok(()) };
        let mut bytes = vec![0; self.size as usize];
        p.read(buffer, 0, &mut bytes);
        let filled = (number - number % sends_per_fill) as u8;
        match bytes.iter().step_by(step as usize).position(|byte| *byte != filled) {
            None => Ok(()),
            Some(at) => Err(SystemError::Protocol(format!(
                "the response to request {number} has {} at byte {}, not {filled}",
                bytes[at * step as usize],
                at * step as usize
            ))),
        }
    }
}
