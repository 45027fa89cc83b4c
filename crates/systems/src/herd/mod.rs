//! HERD's RPCs (ATC'16, 4.1), and the same by other verbs.
//!
//! A server has a *request region*: for each worker and client a window of slots. A HERD client WRITEs a
//! request into its next slot of the worker it wants, over UC. Workers, one per core, find requests
//! by looking at the region, and answer by UD SEND. Each optimisation is a switch of [`Config`]:
//!
//! - *Batching*: a pass takes up to [`Config::gather`] requests, of the region at most one of each client, and never
//!   waits for more; [`Config::doorbell`] posts their replies as one list per QP.
//! - *Multi-queue*: the lists of a worker go out by [`Config::queues`] UD QPs of each port in turn.
//! - *Datagrams only* ([`Requests::SendUd`]): UD SEND both ways. The server has no connected QP for each
//!   client and does not look at each client's slot, but has RECVs to post.
//!
//! Beside these, [`Requests`] and [`Replies`] name other verbs. WRITTEN replies come into slots of the client, at
//! which it looks; a reply that is READ stays with the server, and the client READs its slot until it finds it. A
//! connection carries requests and replies of one transport. Where only requests are WRITTEN over it, a client has
//! one; else it has one to each worker.
//!
//! # What is guaranteed
//! UC and UD may lose messages, and a message may come twice. A client with [`Config::retry`] sends a
//! request again whose reply does not come. A worker executes a request at most once: it keeps the
//! reply of each slot until the client uses the slot again, and repeats it when asked. Without `retry`
//! a lost message is a request that never ends. RC loses nothing, so a reply over it is posted once.
//!
//! Of WRITEs: a request becomes visible with its last 4 bytes, the sequence number; the NIC must write to
//! ascending addresses, as HERD counts on, in pieces of whatever size. So does a reply.
//!
//! Of READs: a reply has a checksum, so that one which is READ while it is being stored is READ again.
//!
//! Of SENDs by UD: a server knows a client by its address and QP, which it learns from the client's first
//! request. It takes the first [`Config::clients`] that ask, for good; requests of others are not
//! answered. A request for which no RECV is posted is lost as if on the way: there are RECVs for all
//! requests that clients may have under way, but at most 8192 for each worker and port.
//!
//! Of all SENDs: a request that comes after 2^21 later ones of the same slot is taken for a new one.
//!
//! Who sends datagrams is known by address, QP number and the low bits of its own number. A QP number may come to
//! another client when one is gone: such two are told apart unless their numbers are equal modulo 1024.
//!
//! # Wire format
//! A slot ends with a little-endian word: number of the repetition, length in bytes (16 bits each), and
//! sequence number (the high 32 bits, so the last bytes; from 1). The request is right before it,
//! padded to 8 bytes. A reply that is SENT carries an immediate: status (2 bits), worker (8), sequence number
//! (22), and the encoded reply, which may be empty: then the SEND is header-only. A request that is
//! SENT is the encoded request, with an immediate: low bits of the client's number (10), sequence number (22). A reply that is WRITTEN
//! or READ is as a request that is WRITTEN, with its status for the repetition; one that is READ has the checksum
//! of both, 8 bytes, between them.

mod client;
mod connections;
mod inboxes;
mod line;
mod message;
mod outgoing;
mod recvs;
mod region;
mod replier;
mod replies;
mod slots;
mod verbs;
mod windows;

pub use client::{Client, Done, Outcome};
pub use message::{Handler, Message};
pub use verbs::{Replies, Requests, ways};

use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{Mem, Provider, QpType, Span};
use slots::{Slots, Tail};

/// Parameters that a server and its clients share.
#[derive(Clone, Debug)]
pub struct Config {
    /// How requests travel.
    pub requests: Requests,
    /// How replies travel.
    pub replies: Replies,
    /// Worker threads of the server, 1 to 256.
    pub workers: u32,
    /// Clients, each a thread.
    pub clients: u32,
    /// Slots of a client at each worker: requests it may have outstanding there, a power of two up
    /// to 1024.
    pub window: u32,
    /// Longest encoded request in bytes, up to [`Requests::longest`].
    pub max_request: u32,
    /// Longest encoded reply in bytes, up to [`Replies::longest`].
    pub max_reply: u32,
    /// Requests that a worker takes in a pass, at least 1.
    pub gather: u32,
    /// Post the replies of a pass with one doorbell per port, or connection, rather than one by one.
    pub doorbell: bool,
    /// UD QPs per port that a worker's passes take turns with, at least 1; 1 where replies go by connections.
    pub queues: u32,
    /// After how long a client sends a request again; `None` for never. Over RC it is longer than replies take, as what
    /// is sent again without need is never dropped.
    pub retry: Option<Span>,
}

/// Bits of a reply's immediate that tell the sequence number, and the worker.
const SEQUENCE_BITS: u32 = 22;
const WORKER_BITS: u32 = 8;

impl Config {
    /// # Errors
    /// A parameter out of its range.
    pub fn check(&self) -> Result<(), SystemError> {
        let ranges = [
            ("workers", self.workers, 1..=1 << WORKER_BITS),
            ("clients", self.clients, 1..=1 << 20),
            ("window", self.window, 1..=1024),
            ("max_request", self.max_request, 0..=self.requests.longest()),
            ("max_reply", self.max_reply, 0..=self.replies.longest()),
            ("gather", self.gather, 1..=1024),
            ("queues", self.queues, 1..=if self.replies.transport() == QpType::Ud { 64 } else { 1 }),
        ];
        self.replies.to(self.requests).map_err(SystemError::Config)?;
        if !self.window.is_power_of_two() {
            return SystemError::config(format!("window is a power of two, not {}", self.window));
        }
        match ranges.iter().find(|(_, value, range)| !range.contains(value)) {
            None => Ok(()),
            Some((name, value, range)) => {
                SystemError::config(format!("{name} is {} to {}, not {value}", range.start(), range.end()))
            }
        }
    }

    /// Slots of requests.
    fn request_slots(&self) -> Slots {
        Slots::new(self.max_request, Tail::Trailer, self.window)
    }

    /// Slots of replies, at the server or at a client.
    fn reply_slots(&self) -> Slots {
        Slots::new(self.max_reply, self.replies.tail(), self.window)
    }

    /// Offset, within a worker's part, of the word by which clients say that they repeat a request.
    fn bell_offset(&self) -> u64 {
        self.request_slots().bytes(self.clients).next_multiple_of(64)
    }

    /// Bytes of a worker's part of the region.
    fn part(&self) -> u64 {
        self.bell_offset() + 64
    }

    /// Bytes of the request region; where requests are SENT it has no use, and is one cache line.
    pub fn region_bytes(&self) -> u64 {
        if self.requests.are_sent() { 64 } else { self.part() * u64::from(self.workers) }
    }

    /// Whether each client has a connection to each worker, which then carries what the worker takes or posts.
    fn is_paired(&self) -> bool {
        let connected = self.requests.transport() != QpType::Ud;
        connected && (self.requests.are_sent() || self.replies.transport() != QpType::Ud)
    }

    /// Connections of a client.
    fn connections(&self) -> u32 {
        match self.requests.transport() {
            QpType::Ud => 0,
            _ if self.is_paired() => self.workers,
            _ => 1,
        }
    }
}

impl Config {
    /// Bytes that a worker uses once before it is ready: slots of requests and of replies.
    pub(crate) fn warmed_bytes(&self) -> u64 {
        let reply = u64::from(self.max_reply + 8) + self.replies.tail().bytes();
        let replies = u64::from(self.clients) * u64::from(self.window) * reply;
        self.region_bytes() / u64::from(self.workers) + replies
    }
}

/// How a worker takes requests.
enum Intake<P: Provider> {
    Region(region::RegionWorker<P>),
    Recvs(recvs::RecvWorker<P>),
}

/// A worker: takes requests, has them executed, replies.
pub struct Worker<P: Provider>(Intake<P>);

impl<P: Provider> Worker<P> {
    /// Worker `number` of those that share `region`, which has [`Config::region_bytes`]. Except where requests
    /// and replies are datagrams, this returns once all clients are known.
    ///
    /// # Errors
    /// If a parameter is out of its range, or a verb fails.
    pub fn start(cpu: &P, config: &Config, number: u32, region: Mem) -> Result<Worker<P>, SystemError> {
        Ok(Worker(match config.requests.are_sent() {
            false => Intake::Region(region::RegionWorker::start(cpu, config, number, region)?),
            true => Intake::Recvs(recvs::RecvWorker::start(cpu, config, number)?),
        }))
    }

    /// One pass of the poll loop; whether there was anything to do. Where there was not, `pause`.
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

/// How a request ended, beside its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// Executed.
    Ok = 0,
    /// Not a request: too long, or not decodable.
    Malformed = 1,
}

impl Status {
    fn from_bits(bits: u32) -> Option<Status> {
        [Status::Ok, Status::Malformed].into_iter().find(|status| *status as u32 == bits)
    }
}

fn to_imm(status: Status, worker: u32, sequence: u32) -> u32 {
    (status as u32) << 30 | worker << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1)
}

/// The immediate of a request that is SENT.
fn to_request_imm(client: u32, sequence: u32) -> u32 {
    client << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1)
}

/// Low bits of the client's number, and of the sequence number.
fn from_request_imm(imm: u32) -> (u32, u32) {
    (imm >> SEQUENCE_BITS, imm & ((1 << SEQUENCE_BITS) - 1))
}

/// Status, worker, low bits of the sequence number.
fn from_imm(imm: u32) -> (Option<Status>, u32, u32) {
    (
        Status::from_bits(imm >> 30),
        imm >> SEQUENCE_BITS & ((1 << WORKER_BITS) - 1),
        imm & ((1 << SEQUENCE_BITS) - 1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) fn config() -> Config {
        Config {
            requests: Requests::WriteUc,
            replies: Replies::SendUd,
            workers: 3,
            clients: 5,
            window: 8,
            max_request: 20,
            max_reply: 8,
            gather: 4,
            doorbell: true,
            queues: 2,
            retry: None,
        }
    }

    proptest! {
        #[test]
        fn immediates_keep_what_they_carry(worker in 0..256u32, sequence: u32) {
            for status in [Status::Ok, Status::Malformed] {
                let (s, w, low) = from_imm(to_imm(status, worker, sequence));
                prop_assert_eq!((s, w, low), (Some(status), worker, sequence & 0x3f_ffff));
            }
        }
    }

    proptest! {
        #[test]
        fn immediates_of_requests_keep_who_asks(client in 0..1u32 << 20, sequence: u32) {
            prop_assert_eq!(from_request_imm(to_request_imm(client, sequence)), (client & 0x3ff, sequence & 0x3f_ffff));
        }
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        config().check().unwrap();
        let bad = Config { queues: 0, ..config() };
        assert_eq!(bad.check().unwrap_err().to_string(), "queues is 1 to 64, not 0");
        let bad = Config { window: 3, ..config() };
        assert_eq!(bad.check().unwrap_err().to_string(), "window is a power of two, not 3");
        let bad = Config { requests: Requests::SendUd, max_request: 5000, ..config() };
        assert_eq!(bad.check().unwrap_err().to_string(), "max_request is 0 to 4000, not 5000");
        let bad = Config { requests: Requests::WriteRc, replies: Replies::WriteRc, ..config() };
        assert_eq!(bad.check().unwrap_err().to_string(), "queues is 1 to 1, not 2");
        let bad = Config { replies: Replies::WriteRc, ..config() };
        assert!(bad.check().is_err());
    }
}
