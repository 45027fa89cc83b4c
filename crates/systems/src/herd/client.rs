//! A client thread of HERD's RPCs.

use super::config::Config;
use super::images::Images;
use super::immediates::Status;
use super::inboxes::Inboxes;
use super::line::RequestLine;
use super::message::Message;
use super::replier::{datagram_key, target_key};
use super::replies::{Fetch, Intake, Region};
use super::verbs::{Replies, Requests};
use super::windows::Windows;
use crate::SystemError;
use crate::device::Device;
use crate::outbox;
use crate::recv_ring::{self, RecvRing};
use doorbell_verbs::{Cq, OperationKey, OperationStep, Provider, Qp, Time};

/// A request that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done<R> {
    /// The tag that was given to [`HerdClient::send`].
    pub tag: u64,
    /// When the request was first sent.
    pub sent: Time,
    /// The key of the request's operation.
    pub key: OperationKey,
    /// The outcome of the request.
    pub outcome: RpcOutcome<R>,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RpcOutcome<R> {
    /// The request was executed.
    Reply(R),
    /// The server could not decode the request, and did nothing.
    Malformed,
}

/// A client that WRITEs or SENDs requests, and receives replies.
pub struct HerdClient<P: Provider> {
    device: Device<P>,
    config: Config,
    line: RequestLine<P>,
    images: Images<P>,
    intake: Intake<P>,
    windows: Windows,
    scratch: Vec<u8>,
}

impl<P: Provider> HerdClient<P> {
    /// Starts client `number`, and returns once every worker is ready. `outstanding` is the maximum number of
    /// requests that the client has in flight, at all workers together.
    ///
    /// # Errors
    /// If a parameter is out of its range, or a verb fails.
    pub fn start(
        cpu: &P,
        config: &Config,
        number: u32,
        outstanding: u32,
    ) -> Result<HerdClient<P>, SystemError> {
        config.check()?;
        if number >= config.clients || outstanding == 0 {
            return SystemError::config(format!(
                "client {number} of {} with {outstanding} outstanding requests is not possible: clients \
                 count from 0, and requests from 1",
                config.clients
            ));
        }
        let device = Device::open(cpu)?;
        let recvs = outstanding + 2 * recv_ring::BATCH;
        let (line, intake) = match config.replies {
            Replies::SendUd => by_datagrams(&device, config, number, recvs)?,
            Replies::SendUc | Replies::SendRc => by_connections(&device, config, number, recvs)?,
            Replies::WriteUc | Replies::WriteRc => {
                let region = Region::new(&device, config)?;
                cpu.publish(&target_key(number), &region.remote().to_bytes());
                (RequestLine::by_connections(&device, config, number, (None, 1))?, Intake::Region(region))
            }
            Replies::ReadRc => {
                let line = RequestLine::by_connections(&device, config, number, (None, 1))?;
                (line, Intake::Fetch(Fetch::new(&device, config, number)?))
            }
        };
        line.wait_for_workers();
        Ok(HerdClient {
            line,
            images: Images::new(&device, config)?,
            intake,
            windows: Windows::new(config),
            config: config.clone(),
            scratch: Vec::new(),
            device,
        })
    }

    /// Whether the window of `worker` has room for a request.
    ///
    /// # Panics
    /// If there is no such worker. All methods that take a worker panic then.
    pub fn has_room(&self, worker: u32) -> bool {
        self.windows.has_room(worker)
    }

    /// The number of requests that have not ended.
    pub fn outstanding(&self) -> u32 {
        self.windows.outstanding()
    }

    /// Sends a request. When it has ended, [`Done`] carries `tag`.
    ///
    /// # Errors
    /// If the window has no room, the request is too long, or a verb fails.
    pub fn send<M: Message>(&mut self, worker: u32, request: &M, tag: u64) -> Result<(), SystemError> {
        self.scratch.clear();
        request.encode(&mut self.scratch);
        let (length, most) = (self.scratch.len(), self.config.max_request);
        if length > most as usize {
            return SystemError::config(format!("a request has at most {most} bytes, not {length}"));
        }
        if !self.has_room(worker) {
            return SystemError::config(format!("the window of worker {worker} is full"));
        }
        let pending = self.windows.take(worker, length as u16, tag, self.device.cpu.now());
        self.device.cpu.mark(self.line.keys().of(worker, pending.sequence), OperationStep::Begins);
        if length > 0 {
            let at = self.images.slots().text(worker, pending.sequence, length as u32);
            self.device.cpu.write(self.images.mem(), at, &self.scratch);
        }
        self.line.post(&self.images, worker, pending)?;
        self.intake.expect(&mut self.line, worker, pending)
    }

    /// How many READs of replies have come before their reply was there.
    pub fn early(&self) -> u64 {
        self.intake.early()
    }

    /// When the next call of [`HerdClient::repeat`] is due; a deadline for `pause`.
    pub fn due(&self) -> Time {
        self.windows.due()
    }

    /// Sends all due requests again. Returns how many it sent.
    ///
    /// # Errors
    /// If a verb fails.
    pub fn repeat(&mut self) -> Result<u64, SystemError> {
        let due = self.windows.repeat(self.device.cpu.now());
        for of_worker in due.chunk_by(|a, b| a.0 == b.0) {
            for &(worker, p) in of_worker {
                self.line.post(&self.images, worker, p)?;
            }
            self.line.repeated(&self.images, of_worker[0].0)?;
        }
        Ok(due.len() as u64)
    }

    /// Receives replies. Returns whether any came. If none came, call `pause`.
    ///
    /// # Errors
    /// If a completion is an error, or a reply is not decodable.
    pub fn poll<R: Message>(&mut self, done: &mut Vec<Done<R>>) -> Result<bool, SystemError> {
        let HerdClient { device, line, intake, windows, scratch, .. } = self;
        let keys = line.keys();
        intake.poll(&device.cpu, line, windows, scratch, &mut |status, pending, text| {
            let key = keys.of(pending.worker, pending.sequence);
            device.cpu.mark(key, OperationStep::Finds);
            let outcome = match status {
                Status::Malformed => RpcOutcome::Malformed,
                Status::Ok => RpcOutcome::Reply(R::decode(text).ok_or_else(|| {
                    SystemError::Protocol(format!("a reply of {} bytes is not valid", text.len()))
                })?),
            };
            done.push(Done { tag: pending.tag, sent: pending.sent, key, outcome });
            Ok(())
        })
    }
}

/// A client's line for requests, and its intake of replies.
type Ways<P> = (RequestLine<P>, Intake<P>);

/// Opens a UD QP for replies. Requests go by this QP, too, unless they go by connections.
fn by_datagrams<P: Provider>(
    device: &Device<P>,
    config: &Config,
    number: u32,
    recvs: u32,
) -> Result<Ways<P>, SystemError> {
    let mut inboxes = Inboxes::new(device.context.create_cq(recvs)?);
    let port = device.port(number);
    let sent = device.context.create_cq(outbox::cqe(1))?;
    let both = config.requests == Requests::SendUd;
    let (sends, inline) = if both { (outbox::depth(1), device.inline(config.max_request)) } else { (1, 0) };
    let qp: Qp<P> = device.ud(port, (&sent, inboxes.cq()), sends, recvs, inline)?;
    // The RECVs are posted before any peer knows this QP, because a datagram without a RECV is lost.
    inboxes.add(qp.clone(), RecvRing::new(device, recvs, config.max_reply)?)?;
    let line = if both {
        RequestLine::by_datagrams(device, config, number, qp, sent)?
    } else {
        device.cpu.publish(&datagram_key(number), &qp.endpoint(port)?.to_bytes());
        RequestLine::by_connections(device, config, number, (None, 1))?
    };
    Ok((line, Intake::Recvs(inboxes)))
}

/// Opens connections that carry both requests and replies.
fn by_connections<P: Provider>(
    device: &Device<P>,
    config: &Config,
    number: u32,
    recvs: u32,
) -> Result<Ways<P>, SystemError> {
    let cq: Cq<P> = device.context.create_cq(recvs * config.connections())?;
    let line = RequestLine::by_connections(device, config, number, (Some(&cq), recvs))?;
    let mut inboxes = Inboxes::new(cq);
    for qp in line.qps() {
        let ring = RecvRing::over(config.replies.transport(), device, recvs, config.max_reply)?;
        inboxes.add(qp, ring)?;
    }
    Ok((line, Intake::Recvs(inboxes)))
}
