//! Parameters that a server and its clients share.

use super::immediates::{TOLD_APART, WORKER_BITS};
use super::slots::{Slots, Tail};
use super::verbs::{Replies, Requests};
use crate::SystemError;
use doorbell_verbs::{QpType, Span};

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
    /// Slots that a client has at each worker. This is also the most requests that it may have outstanding at
    /// a worker. A power of two up to 1024.
    pub window: u32,
    /// Longest encoded request in bytes, up to [`Requests::longest`].
    pub max_request: u32,
    /// Longest encoded reply in bytes, up to [`Replies::longest`].
    pub max_reply: u32,
    /// Requests that a worker takes in a pass, at least 1.
    pub gather: u32,
    /// Posts the replies of a pass with one doorbell for each port or connection. Otherwise each reply has
    /// its own doorbell.
    pub doorbell: bool,
    /// UD QPs for replies that a worker has at each port, at least 1. Each pass uses the next one. The value
    /// is 1 if replies go by connections.
    pub queues: u32,
    /// Time after which a client sends a request again; `None` for never. Over RC the time must be longer
    /// than a reply takes, because RC never drops an unnecessary repetition.
    pub retry: Option<Span>,
}

impl Config {
    /// # Errors
    /// If a parameter is out of its range, or requests and replies do not go together.
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
            return SystemError::config(format!("window must be a power of two, not {}", self.window));
        }
        match ranges.iter().find(|(_, value, range)| !range.contains(value)) {
            None => Ok(()),
            Some((name, value, range)) => SystemError::config(format!(
                "{name} must be {} to {}, not {value}",
                range.start(),
                range.end()
            )),
        }
    }

    /// Number of latencies of a followed operation; see [`crate::SystemShape::followed`].
    pub(crate) fn followed(&self) -> Result<u32, &'static str> {
        match (self.requests, self.replies) {
            (_, Replies::ReadRc) => Err("clients READ the replies, so no message brings a reply"),
            (Requests::SendUd, _) if self.clients > TOLD_APART => {
                Err("datagrams tell at most 1024 clients apart")
            }
            _ => Ok(1),
        }
    }

    /// Slots of requests, in a worker's part of the region.
    pub(super) fn request_slots(&self) -> Slots {
        Slots::new(self.max_request, Tail::Trailer, self.window)
    }

    /// Slots of replies, at the server or at a client.
    pub(super) fn reply_slots(&self) -> Slots {
        Slots::new(self.max_reply, self.replies.tail(), self.window)
    }

    /// Offset of the bell in a worker's part of the region. Clients WRITE this word to say that they repeat
    /// requests.
    pub(super) fn bell_offset(&self) -> u64 {
        self.request_slots().bytes(self.clients).next_multiple_of(64)
    }

    /// Bytes of a worker's part of the region.
    pub(super) fn part(&self) -> u64 {
        self.bell_offset() + 64
    }

    /// Bytes of the request region. If requests are SENT, the region is an unused cache line.
    pub fn region_bytes(&self) -> u64 {
        if self.requests.are_sent() { 64 } else { self.part() * u64::from(self.workers) }
    }

    /// Whether each client has a connection to each worker. The connection carries the requests, the replies
    /// or both.
    pub(super) fn is_paired(&self) -> bool {
        let connected = self.requests.transport() != QpType::Ud;
        connected && (self.requests.are_sent() || self.replies.transport() != QpType::Ud)
    }

    /// Number of connections that a client has.
    pub(super) fn connections(&self) -> u32 {
        match self.requests.transport() {
            QpType::Ud => 0,
            _ if self.is_paired() => self.workers,
            _ => 1,
        }
    }
}

impl Config {
    /// Bytes of the slots of requests and of replies. A worker accesses each of these bytes once before it is
    /// ready.
    pub(crate) fn warmed_bytes(&self) -> u64 {
        let reply = u64::from(self.max_reply + 8) + self.replies.tail().bytes();
        let replies = u64::from(self.clients) * u64::from(self.window) * reply;
        self.region_bytes() / u64::from(self.workers) + replies
    }
}

#[cfg(test)]
pub(in crate::herd) mod tests {
    use super::*;

    pub(in crate::herd) fn config() -> Config {
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

    #[test]
    fn parameters_out_of_range_are_refused() {
        config().check().unwrap();
        let bad = Config { queues: 0, ..config() };
        assert_eq!(bad.check().unwrap_err().to_string(), "queues must be 1 to 64, not 0");
        let bad = Config { window: 3, ..config() };
        assert_eq!(bad.check().unwrap_err().to_string(), "window must be a power of two, not 3");
        let bad = Config { requests: Requests::SendUd, max_request: 5000, ..config() };
        assert_eq!(bad.check().unwrap_err().to_string(), "max_request must be 0 to 4000, not 5000");
        let bad = Config { requests: Requests::WriteRc, replies: Replies::WriteRc, ..config() };
        assert_eq!(bad.check().unwrap_err().to_string(), "queues must be 1 to 1, not 2");
        let bad = Config { replies: Replies::WriteRc, ..config() };
        assert!(bad.check().is_err());
    }
}
