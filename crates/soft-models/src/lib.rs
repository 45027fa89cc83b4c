//! Models of the software NIC's locks, queues and copy records.
//!
//! Each model is a short program of two or three threads on one lock, queue or segment. loom runs it in every
//! order in which its threads can be scheduled, up to a bound. loom also tries every value that the memory
//! model lets a load return. A model fails if one of its assertions fails, or if two threads use a
//! `LockedCell` without an order between them.
//!
//! The models run the software NIC's own source. This crate has the module tree of `doorbell-soft`, and
//! includes each checked file by `#[path]`. The modules around those files are stand-ins: loom's types for
//! the atomics (`sync/atomics.rs`), `SeqCst` fences for membarrier(2) and the compiler's fence
//! (`sync/platform.rs`), and a table for the shared memory (`memory/segment.rs`). Nothing in the checked
//! files depends on the models, so a release build compiles exactly the checked code.
//!
//! `tests/models.rs` runs the models.

// The checked files' own tests are not tests of this crate.
#![cfg(not(test))]

pub mod completions;
pub mod copies;
pub mod locks;
pub mod recvs;
pub mod regions;
mod run;

// No model uses all of the software NIC's modules.
#[allow(dead_code)]
mod fabric;
#[allow(dead_code)]
mod memory;
#[allow(dead_code)]
#[path = "../../soft/src/point.rs"]
mod point;
#[allow(dead_code)]
mod rings;
#[allow(dead_code)]
mod sync;
