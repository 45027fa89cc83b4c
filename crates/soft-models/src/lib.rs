//! Models of the software NIC's locks and queues.
//!
//! Each model is a short program of two or three threads on one lock or queue. loom runs it in every order in
//! which its threads can be scheduled, and with every value that the memory model lets a load return, up to a
//! bound. A model fails where an assertion of its own does, and where two threads use a
//! `LockedCell` without an order between them.
//!
//! The models run the software NIC's own source. The tree of this crate is that of `doorbell-soft`, with a
//! `#[path]` to each file there that is checked. The modules around those files are
//! stand-ins: loom's types for the atomics (`sync/atomics.rs`), `SeqCst` fences for membarrier(2) and the
//! compiler's fence (`sync/platform.rs`), a table for the shared memory (`memory/segment.rs`). Nothing in the
//! checked files knows of the models, so that a release build is the code as it stands.
//!
//! `tests/models.rs` runs the models.

// The checked files' own tests are no tests of this crate.
#![cfg(not(test))]

pub mod completions;
pub mod locks;
pub mod recvs;
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
