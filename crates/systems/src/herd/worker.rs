//! A worker of the server.

use super::config::Config;
use super::message::Handler;
use super::{recvs, region};
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{Mem, Provider};

/// How a worker receives requests.
enum Intake<P: Provider> {
    Region(region::RegionWorker<P>),
    Recvs(recvs::RecvWorker<P>),
}

/// A worker receives requests, lets the handler execute them, and replies.
pub struct Worker<P: Provider>(Intake<P>);

impl<P: Provider> Worker<P> {
    /// Starts worker `number`. All workers share `region`, which must have [`Config::region_bytes`] bytes.
    /// Returns once all clients are known, or at once if requests are datagrams.
    ///
    /// # Errors
    /// If a parameter is out of its range, or a verb fails.
    pub fn start(cpu: &P, config: &Config, number: u32, region: Mem) -> Result<Worker<P>, SystemError> {
        Ok(Worker(match config.requests.are_sent() {
            false => Intake::Region(region::RegionWorker::start(cpu, config, number, region)?),
            true => Intake::Recvs(recvs::RecvWorker::start(cpu, config, number)?),
        }))
    }

    /// One pass of the poll loop. Returns whether there was anything to do; if not, call `pause`.
    ///
    /// # Errors
    /// If a verb fails.
    ///
    /// # Panics
    /// If the handler does not reply to each request, or with more than [`Config::max_reply`] bytes.
    pub fn pass<H: Handler>(
        &mut self,
        handler: &mut H,
        interval: &Interval,
        measured: &mut Measured,
    ) -> Result<bool, SystemError> {
        match &mut self.0 {
            Intake::Region(worker) => worker.pass(handler, interval, measured),
            Intake::Recvs(worker) => worker.pass(handler, interval, measured),
        }
    }
}
