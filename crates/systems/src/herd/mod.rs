//! HERD's RPCs (ATC'16, 4.1), and RPCs by other verbs.
//!
//! A server has a *request region*: for each worker and client a window of slots. A HERD client chooses a
//! worker and WRITEs a request into its next slot at this worker, over UC. Workers, one per core, find
//! requests by polling the region, and reply by UD SEND. Each optimisation is a switch of [`Config`]:
//!
//! - *Batching*: a pass of a worker takes up to [`Config::gather`] requests, and never waits for more. A pass
//!   over the region takes at most one request of each client. [`Config::doorbell`] posts the replies of a
//!   pass as one list per QP.
//! - *Multi-queue*: a worker has [`Config::queues`] UD QPs at each port, and its passes use them in turn.
//! - *Datagrams only* ([`Requests::SendUd`]): UD SEND in both directions. The server has no QP for each
//!   client, and polls no slots. But it has RECVs to post.
//!
//! [`Requests`] and [`Replies`] name other verbs, too. WRITTEN replies go into slots of the client, which the
//! client polls. A reply that is READ stays in a slot of the server, and the client READs this slot until it
//! finds the reply. If requests and replies both use connections, they share the connections, and so have one
//! transport. If connections only carry requests by WRITE, a client has one connection; else it has one to
//! each worker.
//!
//! # Guarantees
//! UC and UD may lose messages, and a message may come twice. A client with [`Config::retry`] sends a request
//! again if no reply comes. A worker executes a request at most once. It keeps the reply of each slot until
//! the client uses the slot again, and repeats the reply when asked. Without `retry`, a lost message is a
//! request that never ends. RC loses nothing, so a reply over it is posted once.
//!
//! WRITEs: a request or a reply counts as complete once its last 4 bytes, the sequence number, are visible.
//! As in HERD, this assumes that the NIC writes to ascending addresses, in pieces of any size.
//!
//! READs: a reply has a checksum. A client that READs a reply while the server stores it finds a wrong
//! checksum, and READs the reply again.
//!
//! SENDs by UD: a server learns a client's address and QP from the client's first request. It accepts the
//! first [`Config::clients`] clients, and never answers requests of any other client. A request for which no
//! RECV is posted is lost, as in the network. There are RECVs for all requests that clients may have
//! outstanding, but at most 8192 for each worker and port.
//!
//! All SENDs: a worker mistakes an old request for a new one if it arrives more than 2^21 sequence numbers
//! late.
//!
//! The server identifies a sender of datagrams by its address, its QP number, and the low bits of its client
//! number. The QP number of a client that has exited may be given to another client. The server tells these
//! two clients apart unless their client numbers are equal modulo 1024.
//!
//! # Wire format
//! A slot ends with a little-endian word. From the lowest bit on, it has the number of the repetition (16
//! bits), the length in bytes (16), and the sequence number (32, from 1). So the sequence number is in the
//! last 4 bytes. The request is right before this word, padded to 8 bytes.
//!
//! A reply that is SENT carries an immediate: status (2 bits), worker (8), sequence number (22). Its payload
//! is the encoded reply. The SEND is header-only if the encoded reply is empty. A request that is SENT is the
//! encoded request with an immediate: low bits of the client's number (10), sequence number (22).
//!
//! A reply that is WRITTEN or READ has the format of a request that is WRITTEN, with its status in place of
//! the repetition. A reply that is READ has 8 more bytes between text and word: the checksum of both.

mod client;
mod config;
mod connections;
mod images;
mod immediates;
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
mod worker;

pub use client::{Done, HerdClient, RpcOutcome};
pub use config::Config;
pub use message::{Handler, Message};
pub use verbs::{Replies, Requests, ways};
pub use worker::Worker;
