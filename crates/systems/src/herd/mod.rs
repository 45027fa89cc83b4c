//! HERD's RPCs (ATC'16, 4.1), and RPCs by other verbs.
//!
//! # Terms
//! A term uses only terms from rows above it.
//!
//! | term | meaning |
//! |---|---|
//! | worker | a thread of the server that executes requests, one per core |
//! | window | the requests that a client may have outstanding at a worker ([`Config::window`]) |
//! | slot | memory for one request or one reply; a client has a window of slots at each worker |
//! | request region | memory of the server with the slots of all requests, if requests are WRITTEN |
//! | pass | a worker's work between two polls: it finds requests, executes them, and replies |
//! | sequence number | the number of a request among the requests of a client to a worker, from 1 |
//!
//! # Protocol
//! 1. A client chooses a worker, and WRITEs a request into its next slot at this worker, over UC.
//! 2. The worker finds the request by polling its slots in the request region.
//! 3. The worker executes the request, and stores the reply in a slot.
//! 4. The worker SENDs the reply over UD.
//!
//! This is HERD's protocol. Each optimisation is a switch of [`Config`]:
//! - *Batching*: a pass takes up to [`Config::gather`] requests, and never waits for more. It takes at most
//!   one request of each client if requests are WRITTEN. [`Config::doorbell`] posts the replies of a pass as
//!   one list per QP.
//! - *Multi-queue*: a worker has [`Config::queues`] UD QPs at each port, and its passes use them in turn.
//! - *Datagrams only* ([`Requests::SendUd`]): UD SEND in both directions. The server has no QP for each
//!   client, and polls no slots. But it has RECVs to post.
//!
//! [`Requests`] and [`Replies`] name other verbs, too. WRITTEN replies go into slots of the client, which the
//! client polls. A reply that is READ stays in a slot of the server, and the client READs this slot until it
//! finds the reply.
//!
//! *Connections.* If requests and replies both use connections, they share the connections, and so have one
//! transport. If connections only carry requests by WRITE, a client has one connection. Otherwise it has one
//! to each worker.
//!
//! # Guarantees
//! - UC and UD may lose messages, and a message may come twice. RC loses nothing, so a reply over RC is
//!   posted once.
//! - A client with [`Config::retry`] sends a request again if no reply comes. Without `retry`, a lost message
//!   is a request that never ends.
//! - A worker executes a request at most once. It keeps the reply of each slot until the client uses the slot
//!   again. It repeats the reply when the client repeats the request.
//! - *WRITEs*: a request or a reply counts as complete once its last 4 bytes, the sequence number, are
//!   visible. As in HERD, this assumes that the NIC writes to ascending addresses, in pieces of any size.
//! - *READs*: a reply has a checksum. A client that READs a reply while the server stores it finds a wrong
//!   checksum, and READs the reply again.
//! - *SENDs by UD*: a server learns a client's address and QP from the client's first request. It accepts the
//!   first [`Config::clients`] clients, and never answers requests of any other client.
//! - *RECVs*: a datagram for which no RECV is posted is lost, as in the network. There are RECVs for all
//!   requests that clients may have outstanding, but at most 8192 for each worker and port.
//! - *All SENDs*: a request may arrive more than 2^21 sequence numbers late. A worker then takes this old
//!   request for a new one.
//! - *Identity*: the server identifies a sender of datagrams by its address, its QP number, and the low bits
//!   of its client number. A new client may get the QP number of a client that has exited. The server tells
//!   these two clients apart unless their client numbers are equal modulo 1024.
//!
//! # Wire format
//! A request that is WRITTEN is at the end of its slot. The slot's last 8 bytes are a little-endian word,
//! which has these fields from the lowest bit on:
//!
//! | field | bits |
//! |---|---|
//! | number of the repetition | 16 |
//! | length of the encoded request in bytes | 16 |
//! | sequence number | 32 |
//!
//! So the sequence number is in the last 4 bytes. The encoded request is right before this word, padded to 8
//! bytes.
//!
//! A reply that is WRITTEN or READ has this format, too, with its status in the field for the repetition. A
//! reply that is READ has 8 more bytes between text and word: the checksum of both.
//!
//! A request that is SENT is the encoded request with an immediate: low bits of the client's number (10
//! bits), sequence number (22).
//!
//! A reply that is SENT is the encoded reply with an immediate: status (2 bits), worker (8), sequence number
//! (22). The SEND is header-only if the encoded reply is empty.

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
