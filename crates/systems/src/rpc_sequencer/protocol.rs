//! The sequencer over HERD's RPCs. Baseline, batching and multi-queue are switches of
//! [`crate::herd::Config`].

use crate::drawing::{Drawer, Drawing, Drawn};
use crate::herd::{self, Config, Handler, RpcOutcome, Worker};
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{Cpu, Mem, OperationStep, Program, Provider};

/// Bytes of an encoded request, for [`Config::max_request`].
pub const MAX_REQUEST: u32 = 0;
/// Bytes of an encoded reply, for [`Config::max_reply`].
pub const MAX_REPLY: u32 = 8;

/// Assigns numbers. For a batch of N requests, takes N numbers from the shared counter by one fetch-and-add.
struct Counter {
    counter: Mem,
}

impl Handler for Counter {
    type Request = ();
    type Reply = u64;

    fn handle<C: Cpu>(&mut self, cpu: &C, requests: &[()], replies: &mut Vec<u64>) {
        let n = requests.len() as u64;
        let first = cpu.fetch_add_u64(self.counter, 0, n);
        replies.extend((0..n).map(|i| first.wrapping_add(i)));
    }
}

/// A worker thread of the server.
#[derive(Clone, Debug)]
pub struct RpcSequencerServer {
    /// Configuration that servers and clients share.
    pub config: Config,
    /// Number of this worker.
    pub number: u32,
    /// The request region, of [`Config::region_bytes`] bytes, which the workers share.
    pub region: Mem,
    /// The 8-byte counter that all workers share. Its value is the next number.
    pub counter: Mem,
    /// When it measures, and when it ends.
    pub interval: Interval,
}

impl Program for RpcSequencerServer {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut measured = Measured::default();
        let mut handler = Counter { counter: self.counter };
        let mut worker = Worker::start(&p, &self.config, self.number, self.region)?;
        while !self.interval.is_over(&p) {
            if !worker.pass(&mut handler, &self.interval, &mut measured)? {
                p.pause(self.interval.look());
            }
        }
        Ok(measured)
    }
}

/// A client. Its requests go to the workers in turn.
#[derive(Clone, Debug)]
pub struct RpcSequencerClient {
    /// Configuration that servers and clients share.
    pub config: Config,
    /// Number of this client.
    pub number: u32,
    /// How the client draws numbers.
    pub drawing: Drawing,
    /// When it measures, and when it ends at the latest.
    pub interval: Interval,
}

impl Program for RpcSequencerClient {
    type Output = Result<Drawn, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut client = herd::HerdClient::start(&p, &self.config, self.number, self.drawing.outstanding)?;
        let mut done = Vec::new();
        let mut worker = self.number % self.config.workers;
        let interval = self.interval.begin(&p);
        let mut drawer = Drawer::new(self.drawing, &interval);
        while !drawer.is_done(p.now()) {
            let mut busy = false;
            for _ in 0..drawer.wanted() {
                if !client.has_room(worker) {
                    break;
                }
                client.send(worker, &(), 0)?;
                drawer.sent(1);
                worker = (worker + 1) % self.config.workers;
                busy = true;
            }
            busy |= client.poll(&mut done)?;
            for d in done.drain(..) {
                match d.outcome {
                    RpcOutcome::Reply(value) => {
                        p.mark(d.key, OperationStep::Ends { since: d.sent });
                        drawer.got(value, d.sent, p.now(), false);
                    }
                    RpcOutcome::Malformed => {
                        return Err(SystemError::Protocol(
                            "the server refused a request as malformed".into(),
                        ));
                    }
                }
            }
            let repeated = client.repeat()?;
            drawer.drawn.measured.again += repeated;
            if !busy && repeated == 0 {
                p.pause(interval.look().min(client.due()));
            }
        }
        Ok(drawer.drawn)
    }
}
