//! The papers' systems, each in a module of its own, written against `doorbell_verbs` alone.
//!
//! Systems are plain poll loops over a [`doorbell_verbs::Provider`], so one source runs in virtual time and
//! on real devices. Threads share nothing but [`doorbell_verbs::Mem`].
//!
//! - [`rpc_sequencer`], [`spec_sequencer`], [`atomics_sequencer`], [`local_sequencer`]: a counter from which
//!   clients draw numbers.
//! - [`herd_kv`], [`read_kv`], [`drtm_kv`]: key-value stores.
//! - [`rpc`]: any RPC.
//! - [`touch`]: a server that scans a buffer before it answers, over RDMA or kernel TCP.
//! - [`ping_pong`]: messages that go back and forth, as in latency tests.
//! - [`vector_io`]: writes of many small pieces.
//! - [`local_memory`]: loads and stores of a machine's own memory.
//! - [`spinlock`]: locks in memory of the client's machine or of another machine, or kept by a server's
//!   thread.
//! - [`proxy`]: READs of memory at sockets that do not match the reader's socket.
//! - [`consolidate`]: small writes that are held back and posted block by block.
//! - [`hashtable`]: a hashtable in memory of other machines, accessed by one-sided verbs.
//! - [`shuffle`]: executors that distribute entries to each other by their keys.
//! - [`join`]: a join of two relations, by shuffles and hash maps.
//! - [`log`]: a log in one machine's memory, to which other machines append.
//!
//! Several systems share [`herd`] (RPC by UC WRITE and UD SEND, by UD SEND both ways, or by other verbs),
//! [`drawing`] and [`kv`]. All systems use [`config`], [`device`], [`outbox`] and [`site`]. Systems in other
//! crates use these modules, too.
#![forbid(unsafe_code)]

pub mod atomics_sequencer;
mod checksum;
pub mod config;
pub mod consolidate;
pub mod device;
pub mod drawing;
pub mod drtm_kv;
mod ends;
mod error;
pub mod hashtable;
pub mod herd;
pub mod herd_kv;
pub mod join;
pub mod kv;
mod latencies;
pub mod local_memory;
pub mod local_sequencer;
pub mod log;
mod measure;
mod measurement;
pub mod memory_server;
mod names;
pub mod outbox;
pub mod pace;
pub mod ping_pong;
pub mod proxy;
pub mod random;
pub mod read_kv;
mod record;
mod recv_ring;
mod register;
pub mod rpc;
pub mod rpc_sequencer;
pub mod series;
mod shape;
pub mod shuffle;
pub mod site;
pub mod spec_sequencer;
pub mod spinlock;
mod strategy;
mod system;
pub mod touch;
pub mod vector_io;
mod work;

pub use drawing::Drawing;
pub use error::SystemError;
pub use latencies::Latencies;
pub use measure::{Interval, Measured, Phase, Spent};
pub use measurement::Measurement;
pub use record::Record;
pub use register::visit_all;
pub use shape::{Round, SystemShape};
pub use strategy::VectorCalls;
pub use system::{System, Visit};
