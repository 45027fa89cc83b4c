//! A join of two relations (CLUSTER'21, IV-D, Figures 16 to 18). Both relations are shuffled by their keys.
//! Each executor then builds a hash map of the inner tuples that it received, and probes the map with its
//! outer tuples.
//!
//! [`Joining`] is the interface for other programs. [`Join`] is a benchmark that joins the two relations
//! again and again.
//!
//! **Layout.** Each executor has its part of both relations in registered memory, the inner one first. A
//! tuple is a key and a payload of 8 bytes each; nothing reads the rest of a longer tuple. The executor has
//! further memory for the map, and a *partition* for the tuples that it receives of each relation. Everything
//! else belongs to the shuffle ([`crate::shuffle`]).
//!
//! **Steps.** A join is two rounds of the shuffle. In the first round each executor sends its inner tuples,
//! in the second its outer ones. The hash of a tuple's key determines the executor that receives the tuple.
//! An executor appends the received tuples to the partition of the round. After the second round, the
//! executor builds and probes its map without the others. Each bucket of the map has a chain of nodes, and a
//! node has a key and a payload. Each bucket has a lock, which is acquired and released for every operation,
//! as in maps that threads share (TBB's, which the paper uses). Here no other thread contends for the lock. A
//! single executor does not shuffle: it builds and probes with its relations where they are.
//!
//! **Promise.** An executor counts each pair of an inner and an outer tuple with one of its keys exactly
//! once, even with duplicates and skew. It sums a hash of each pair ([`Joined`]). The results of all
//! executors together are the join, because the shuffle brings all tuples of a key to one executor. When
//! [`Joining::join`] returns, all executors have sent and received all tuples of both relations. Some may not
//! have probed yet.
//!
//! **Failure.** An executor that dies ends the job, as in the shuffle: all other executors end with an error.
//! An executor that is probing waits for no other executor. So it may still return its right result of this
//! join before it notices the failure. Then the results of the remaining executors are only a part of the
//! join, and the job has no result.
//!
//! **Measurement.** An operation is a tuple of either relation that an executor has joined. A latency is the
//! time of one join of both relations. [`Join::tuples`] may be a sample of [`Join::real_tuples`]. Caches then
//! hold as large a share of the maps as they would hold of the full-size maps. Partitions and relations are
//! accessed sequentially, so they are in no cache. Segments of the shuffle keep their full size, because the
//! NIC's address translation does not depend on the sample.

mod config;
mod deployment;
mod map;
mod protocol;
mod tuples;

pub use config::Join;
pub use map::{Joined, Map};
pub use protocol::{Joining, Memories};
pub use tuples::{TUPLE, Tuple};
