//! A join of two relations (CLUSTER'21, IV-D, Figures 16 to 18). Both relations are shuffled by their keys.
//! Each executor then builds a hash map of the inner tuples that it received, and probes the map with its
//! outer tuples.
//!
//! [`Joining`] is the interface for other programs. [`Join`] is a benchmark that joins the two relations
//! again and again.
//!
//! # Terms
//! - An *executor* is a thread. All executors send and receive.
//! - A *tuple* is a key and a payload of 8 bytes each. Nothing reads the rest of a longer tuple.
//! - A *relation* is a set of tuples. Each executor has a part of the *inner* and of the *outer* relation.
//! - A *partition* is an executor's memory for the tuples of one relation that it receives.
//! - A *round* is one round of the shuffle ([`crate::shuffle`]).
//!
//! # Layout
//! Each executor has its part of both relations in registered memory, the inner one first. It also has memory
//! for the map and for its two partitions. The shuffle has all other memory.
//!
//! # Steps
//! A join is two rounds. The hash of a tuple's key determines the executor that receives the tuple.
//! 1. Round one: each executor sends its inner tuples. It appends the received tuples to its inner partition.
//! 2. Round two: each executor sends its outer tuples. It appends the received tuples to its outer partition.
//! 3. Each executor builds its map from its inner partition, without the other executors.
//! 4. Each executor probes its map with the tuples of its outer partition, without the other executors.
//!
//! A single executor does not shuffle: it builds and probes with its relations where they are.
//!
//! Each bucket of the map has a chain of nodes, and a node has a key and a payload. Each bucket also has a
//! lock, which is acquired and released for every operation, as in maps that threads share (TBB's, which the
//! paper uses). Here no other thread contends for the lock.
//!
//! # Promise
//! - An executor counts each pair of an inner and an outer tuple with one of its keys exactly once, even with
//!   duplicates and skew. It sums a hash of each pair ([`Joined`]).
//! - The results of all executors together are the join, because the shuffle brings all tuples of a key to
//!   one executor.
//! - When [`Joining::join`] returns, all executors have sent and received all tuples of both relations. Some
//!   executors may not have probed yet.
//!
//! # Failure
//! An executor that dies ends the job, as in the shuffle: all other executors end with an error. An executor
//! that is probing waits for no other executor. So it may still return its right result of this join before
//! it notices the failure. Then the results of the remaining executors are only a part of the join, and the
//! job has no result.
//!
//! # Measurement
//! An operation is a tuple of either relation that an executor has joined. A latency is the time of one join
//! of both relations.
//!
//! [`Join::tuples`] may be a sample of [`Join::real_tuples`]. Caches then hold as large a share of the maps
//! as they would hold of the full-size maps. Partitions and relations are accessed sequentially, so they are
//! in no cache. Segments of the shuffle keep their full size, because the NIC's address translation does not
//! depend on the sample.

mod config;
mod deployment;
mod map;
mod protocol;
mod tuples;

pub use config::Join;
pub use map::{Joined, Map};
pub use protocol::{Joining, Memories};
pub use tuples::{TUPLE, Tuple};
