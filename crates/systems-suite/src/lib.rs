//! Checks of the papers' systems. They run on any [`Cluster`](doorbell_verbs::Cluster): in virtual time, on a
//! real device with threads, and with a process for each machine.
//!
//! Each system has a module of its name with its checks, and a line in the register, [`checks`]. [`herd`] has
//! checks that several systems share. Modules share [`drawing`] (numbers are unique, dense and monotone),
//! [`kv`] (histories are linearizable), [`deployed`] (a deployed system serves its clients), [`stage`] and
//! [`Faults`].
//!
//! [`kills`] has the checks of killed clients. They need a process for each machine.
//!
//! The cases ([`herd::HerdCase`], [`drawing::DrawingCase`], [`kv::KvCase`]) take parameters. Tests in virtual
//! time draw them at random. [`checks`] is a fixed list of cases for devices in real time. No check depends
//! on how long something takes: a check that does not end gives up after [`Scale::patience`].
#![forbid(unsafe_code)]

pub mod atomics_sequencer;
mod check;
pub mod consolidate;
pub mod deployed;
pub mod drawing;
pub mod drtm_kv;
mod faults;
pub mod hashtable;
pub mod herd;
pub mod herd_kv;
pub mod join;
mod kill;
pub mod kills;
pub mod kv;
mod layer;
pub mod local_memory;
pub mod local_sequencer;
pub mod log;
pub mod ping_pong;
pub mod proxy;
pub mod read_kv;
mod register;
pub mod rpc;
pub mod rpc_sequencer;
pub mod shuffle;
pub mod spec_sequencer;
pub mod spinlock;
pub mod stage;
pub mod touch;
pub mod vector_io;

pub use check::{Check, MACHINES, Scale, run_all};
pub use faults::{Apart, Faults, LateWrite, Stop};
pub use kill::{ASKS, AskedKill, DEAD, Kill, KillWay, KillWindow};
pub use layer::{Layer, Layered};
pub use register::checks;
