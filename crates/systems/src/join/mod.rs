//! A join of two relations: both are shuffled by their keys, then each executor builds a hash map of its part of the inner one and probes it with its part of the
//! outer one (CLUSTER'21, IV-D, Figures 16 to 18).
//!
//! [`Joining`] is the piece for other programs, [`Join`] a benchmark of it, which joins the same relations again and again.
//!
//! **Layout.** Each executor has its part of both relations, one behind the other, in registered memory: tuples of a key and a payload of 8 bytes, and bytes that nobody looks at where
//! tuples are longer. It has memory of its own for what it receives of each relation (*partitions*), and for the map. All else is the shuffle's ([`crate::shuffle`]).
//!
//! **Who does what when.** A join is two rounds of the shuffle: in the first each executor sends its inner tuples, in the second its outer ones, to the executor that the hash of the key
//! says; what it takes it appends to the partition of the round. When the second round has ended, it builds and probes, alone. Its map chains nodes of a key and a payload at buckets, each with
//! a lock, which is taken and given back for every operation, as maps do that threads share (TBB's, which the paper uses); here nobody contends for it. One executor alone does not shuffle: it builds and probes with its relations where they lie.
//!
//! **Promise.** An executor counts each pair of an inner and an outer tuple with a key of its, once, duplicates and skew included, and sums a hash of each pair ([`Joined`]). Over all executors that is the
//! join: a key's tuples are all at one executor, by the shuffle's promise. When [`Joining::join`] returns, all executors have sent and received all of both relations; not all need have probed.
//!
//! **Who dies** takes the job with it, as the shuffle says: all others end with an error. An executor that is probing waits for nobody, so it may still return what it has of this join, which is right, before it finds out.
//! What the others have is then a part of the join, and the job has no result.
//!
//! **What is measured.** An operation is a tuple of either relation that an executor has joined; a latency is a join's, of both relations. [`Join::tuples`] may be a sample of [`Join::real_tuples`]: caches then hold as small a part of maps
//! as they would of the real ones; partitions and relations, which are gone over in order, are in no cache. Segments of the shuffle are as large as ever: what a NIC translates does not depend on the sample.

mod config;
mod deployment;
mod map;
mod protocol;
mod tuples;

pub use config::Join;
pub use map::{Joined, Map};
pub use protocol::{Joining, Memories};
pub use tuples::{TUPLE, Tuple};
