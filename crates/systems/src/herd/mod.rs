//! HERD's RPCs (ATC'16, 4.1), and RPCs by other verbs.
//!
//! A server has a *request region*: for each worker and client a window of slots. A HERD client WRITEs a
//! request into its next slot of the worker it wants, over UC. Workers, one per core, find requests by
//! polling the region, and reply by UD SEND. Each optimisation is a switch of [`Config`]:
//!
//! - *Batching*: a pass takes up to [`Config::gather`] requests, and never waits for more. From the region it
//!   takes at most one request of each client. [`Config::doorbell`] posts the replies of a pass as one list
//!   per QP.
//! - *Multi-queue*: the lists of a worker go out by [`Config::queues`] UD QPs of each port in turn.
//! - *Datagrams only* ([`Requests::SendUd`]): UD SEND both ways. The server has no connected QP for each
//!   client and does not poll the slots of each client, but has RECVs to post.
//!
//! [`Requests`] and [`Replies`] name other verbs, too. WRITTEN replies go into slots of the client, which the
//! client polls. A reply that is READ stays with the server, and the client READs its slot until it finds the
//! reply. A connection carries requests and replies of one transport. If only requests are WRITTEN over
//! connections, a client has one connection; else it has one to each worker.
//!
//! # Guarantees
//! UC and UD may lose messages, and a message may come twice. A client with [`Config::retry`] sends a request
//! again if no reply comes. A worker executes a request at most once. It keeps the reply of each slot until
//! the client uses the slot again, and repeats the reply when asked. Without `retry`, a lost message is a
//! request that never ends. RC loses nothing, so a reply over it is posted once.
//!
//! WRITEs: a request becomes visible with its last 4 bytes, the sequence number. The NIC must write to
//! ascending addresses, as HERD assumes, in pieces of any size. The same holds for a reply.
//!
//! READs: a reply has a checksum, so that a reply which is READ while it is being stored is READ again.
//!
//! SENDs by UD: a server knows a client by its address and QP, which it learns from the client's first
//! request. It takes the first [`Config::clients`] that ask, and never answers requests of any other client.
//! A request for which no RECV is posted is lost, as in the network. There are RECVs for all requests that
//! clients may have outstanding, but at most 8192 for each worker and port.
//!
//! All SENDs: a request that comes more than 2^21 sequence numbers late is taken for a new one.
//!
//! A sender of datagrams is known by address, QP number and the low bits of its own number. A QP number may
//! go to another client when its client is gone. The server tells these two clients apart unless their
//! numbers are equal modulo 1024.
//!
//! # Wire format
//! A slot ends with a little-endian word: number of the repetition, length in bytes (16 bits each), and
//! sequence number (the high 32 bits, so the last bytes; from 1). The request is right before this word,
//! padded to 8 bytes.
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
