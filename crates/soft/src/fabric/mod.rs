//! The processes that use the device: how they find, map and wake each other, and how they detect that a
//! process has exited.
//!
//! - [`registry`] and [`folder`]: a process finds its peers.
//! - [`process`] and [`peer`]: this process, and another process of the fabric.
//! - [`mapping`]: a process maps shared memory of a peer.
//! - [`link`], [`service`] and [`wire`]: a process asks a peer's service thread to access the peer's memory.
//! - [`copier`] and `revoking`: a process that revokes access to its memory waits for running copies.
//! - [`words`] and [`locks`]: atomics on words that not all processes can map.
//! - [`pipe`] and [`progress`]: sleeping programs are woken, waiting requests are retried, and the exit of
//!   peers is noticed.

pub(crate) mod copier;
pub(crate) mod domains;
pub(crate) mod folder;
pub(crate) mod link;
pub(crate) mod locks;
pub(crate) mod mapping;
pub(crate) mod member;
pub(crate) mod peer;
pub(crate) mod pipe;
pub(crate) mod process;
pub(crate) mod progress;
pub(crate) mod ptrace;
pub(crate) mod registry;
mod revoking;
pub(crate) mod service;
pub(crate) mod spare_copies;
pub(crate) mod wire;
pub(crate) mod words;
