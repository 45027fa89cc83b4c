//! HERD's RPCs (ATC'16, 4.1).
//!
//! A server has a *request region*: for each worker and client a window of slots. A client WRITEs a
//! request into its next slot of the worker it wants, over UC. Workers, one per core, find requests
//! by looking at the region, and answer by UD SEND. Each optimisation is a switch of [`Config`]:
//!
//! - *Batching*: a pass takes up to [`Config::gather`] requests, at most one of each client, and never
//!   waits for more; [`Config::doorbell`] posts their replies as one list per port.
//! - *Multi-queue*: the lists of a worker go out by [`Config::queues`] UD QPs of each port in turn.
//! - *Datagrams only* ([`Requests::Send`]): UD SEND both ways. The server has no connected QP for each
//!   client and does not look at each client's slot, but has RECVs to post.
//!
//! # What is guaranteed
//! UC and UD may lose messages, and a message may come twice. A client with [`Config::retry`] sends a
//! request again whose reply does not come. A worker executes a request at most once: it keeps the
//! reply of each slot until the client uses the slot again, and repeats it when asked. Without `retry`
//! a lost message is a request that never ends.
//!
//! Of WRITEs: a request becomes visible with its last 4 bytes, the sequence number; the NIC must write to
//! ascending addresses, as HERD counts on, in pieces of whatever size.
//!
//! Of SENDs: a server knows a client by its address and QP, which it learns from the client's first
//! request. It takes the first [`Config::clients`] that ask, for good; requests of others are not
//! answered. A request for which no RECV is posted is lost as if on the way: there are RECVs for all
//! requests that clients may have under way, but at most 8192 for each worker and port. A request that
//! comes after 2^21 later ones of the same slot is taken for a new one.
//!
//! # Wire format
//! A slot ends with a little-endian word: number of the repetition, length in bytes (16 bits each), and
//! sequence number (the high 32 bits, so the last bytes; from 1). The request is right before it,
//! padded to 8 bytes. A reply carries an immediate: status (2 bits), worker (8), sequence number
//! (22), and the encoded reply, which may be empty: then the SEND is header-only. A request that is
//! SENT is the encoded request, with an immediate like a reply's whose status is 0.

mod client;
mod datagram;
mod message;
mod replier;
mod windows;
mod worker;
mod writes;

pub use client::{Client, Done, Outcome};
pub use message::{Handler, Message};

use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{Mem, Provider, Span};

/// How requests travel; replies always by UD SEND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// By UC WRITE into the request region: a connected QP for each client.
    Write,
    /// By UD SEND.
    Send,
}

/// Parameters that a server and its clients share.
#[derive(Clone, Debug)]
pub struct Config {
    /// How requests travel.
    pub requests: Requests,
    /// Worker threads of the server, 1 to 256.
    pub workers: u32,
    /// Clients, each a thread.
    pub clients: u32,
    /// Slots of a client at each worker: requests it may have outstanding there, a power of two up
    /// to 1024.
    pub window: u32,
    /// Longest encoded request in bytes, up to 4000.
    pub max_request: u32,
    /// Longest encoded reply in bytes, up to 4000.
    pub max_reply: u32,
    /// Requests that a worker takes in a pass, at least 1.
    pub gather: u32,
    /// Post the replies of a pass with one doorbell per port, rather than one by one.
    pub doorbell: bool,
    /// UD QPs per port that a worker's passes take turns with, at least 1.
    pub queues: u32,
    /// After how long a client sends a request again; `None` for never.
    pub retry: Option<Span>,
}

/// Bytes of a slot's last word.
const TRAILER: u64 = 8;
/// Bits of a reply's immediate that tell the sequence number, and the worker.
const SEQUENCE_BITS: u32 = 22;
const WORKER_BITS: u32 = 8;
const LONGEST: u32 = 4000;

impl Config {
    /// # Errors
    /// A parameter out of its range.
    pub fn check(&self) -> Result<(), SystemError> {
        let ranges = [
            ("workers", self.workers, 1..=1 << WORKER_BITS),
            ("clients", self.clients, 1..=1 << 20),
            ("window", self.window, 1..=1024),
            ("max_request", self.max_request, 0..=LONGEST),
            ("max_reply", self.max_reply, 0..=LONGEST),
            ("gather", self.gather, 1..=1024),
            ("queues", self.queues, 1..=64),
        ];
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

    /// Bytes of a slot.
    fn slot(&self) -> u64 {
        let bytes = u64::from(self.max_request).next_multiple_of(8) + TRAILER;
        // Slots share a cache line or begin one.
        if bytes < 64 { bytes.next_power_of_two() } else { bytes.next_multiple_of(64) }
    }

    /// Offset of a client's slot for `sequence` within a worker's part of the region.
    fn slot_offset(&self, client: u32, sequence: u32) -> u64 {
        let slot = u64::from(client) * u64::from(self.window) + u64::from(sequence % self.window);
        slot * self.slot()
    }

    /// Offset, within a worker's part, of the word by which clients say that they repeat a request.
    fn bell_offset(&self) -> u64 {
        (u64::from(self.clients) * u64::from(self.window) * self.slot()).next_multiple_of(64)
    }

    /// Bytes of a worker's part of the region.
    fn part(&self) -> u64 {
        self.bell_offset() + 64
    }

    /// Bytes of the request region; where requests are SENT it has no use, and is one cache line.
    pub fn region_bytes(&self) -> u64 {
        match self.requests {
            Requests::Write => self.part() * u64::from(self.workers),
            Requests::Send => 64,
        }
    }
}

impl Config {
    /// Bytes that a worker uses once before it is ready: slots of requests and of replies.
    pub(crate) fn warmed_bytes(&self) -> u64 {
        let replies = u64::from(self.clients) * u64::from(self.window) * u64::from(self.max_reply + 8);
        self.region_bytes() / u64::from(self.workers) + replies
    }
}

/// How a worker takes requests.
enum Intake<P: Provider> {
    Region(worker::Worker<P>),
    Recvs(datagram::DatagramWorker<P>),
}

/// A worker: takes requests, has them executed, replies.
pub struct Worker<P: Provider>(Intake<P>);

impl<P: Provider> Worker<P> {
    /// Worker `number` of those that share `region`, which has [`Config::region_bytes`]. Where requests
    /// are WRITTEN, worker 0 connects the clients, and this returns once they are known.
    ///
    /// # Errors
    /// If a parameter is out of its range, or a verb fails.
    pub fn start(cpu: &P, config: &Config, number: u32, region: Mem) -> Result<Worker<P>, SystemError> {
        Ok(Worker(match config.requests {
            Requests::Write => Intake::Region(worker::Worker::start(cpu, config, number, region)?),
            Requests::Send => Intake::Recvs(datagram::DatagramWorker::start(cpu, config, number)?),
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

fn to_imm(status: Status, worker: u32, sequence: u32) -> u32 {
    (status as u32) << 30 | worker << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1)
}

/// Status, worker, low bits of the sequence number.
fn from_imm(imm: u32) -> (Option<Status>, u32, u32) {
    let status = match imm >> 30 {
        0 => Some(Status::Ok),
        1 => Some(Status::Malformed),
        _ => None,
    };
    (status, imm >> SEQUENCE_BITS & ((1 << WORKER_BITS) - 1), imm & ((1 << SEQUENCE_BITS) - 1))
}

/// A slot's last word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trailer {
    sequence: u32,
    length: u16,
    repetition: u16,
}

impl Trailer {
    fn to_word(self) -> u64 {
        let word = u64::from(self.sequence) << 32 | u64::from(self.length) << 16 | u64::from(self.repetition);
        word.to_le()
    }

    fn from_word(word: u64) -> Trailer {
        let word = u64::from_le(word);
        Trailer { sequence: (word >> 32) as u32, length: (word >> 16) as u16, repetition: word as u16 }
    }
}

/// Bytes from the start of a request of `length` bytes to the end of its slot.
fn reach(length: u64) -> u64 {
    length.next_multiple_of(8) + TRAILER
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) fn config() -> Config {
        Config {
            requests: Requests::Write,
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

        #[test]
        fn trailers_keep_what_they_carry(sequence: u32, length: u16, repetition: u16) {
            let trailer = Trailer { sequence, length, repetition };
            prop_assert_eq!(Trailer::from_word(trailer.to_word()), trailer);
        }
    }

    #[test]
    fn slots_do_not_overlap() {
        let c = config();
        let mut starts: Vec<u64> = (0..5)
            .flat_map(|client| (0..8).map(move |s| (client, s)))
            .map(|(k, s)| c.slot_offset(k, s))
            .collect();
        starts.sort_unstable();
        assert!(starts.windows(2).all(|w| w[1] - w[0] >= c.slot()));
        assert!(starts.last().unwrap() + c.slot() <= c.bell_offset());
        assert!(reach(c.max_request.into()) <= c.slot());
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        config().check().unwrap();
        let bad = Config { queues: 0, ..config() };
        assert_eq!(bad.check().unwrap_err().to_string(), "queues is 1 to 64, not 0");
        let bad = Config { window: 3, ..config() };
        assert_eq!(bad.check().unwrap_err().to_string(), "window is a power of two, not 3");
        assert!(Config { max_request: 5000, ..config() }.check().is_err());
    }
}
