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
