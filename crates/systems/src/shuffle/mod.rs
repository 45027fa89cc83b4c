//! A shuffle: executors distribute entries among all executors, by a rule on keys (CLUSTER'21, IV-C, Figures
//! 14 and 15).
//!
//! [`Executor`] is the component for other programs, and [`Shuffle`] is a benchmark of it.
//!
//! # Terms
//! A term uses only terms from rows above it.
//!
//! | term | meaning |
//! |---|---|
//! | entry | a key of 8 bytes and a value |
//! | executor | a thread; the executors of a machine are distributed over its sockets in turn |
//! | sender, receiver | in each round the first executors send ([`Plan::senders`]) and the last receive ([`Plan::receivers`]); an executor may do both |
//! | rule | maps an entry's key to its receiver; the caller chooses it ([`receiver`] is the usual rule) |
//! | inbox | registered memory of an executor, at a socket that [`Placement`] determines |
//! | segment | a ring of entries in the inbox of a receiver, one for each sender |
//! | told word | a word in the inbox of a receiver by which a sender reports entries; each sender has one for even and one for odd rounds |
//! | told | an entry is told when the sender has reported it by a told word |
//! | taken | an entry is taken when the receiver has passed it to its caller |
//! | credit word | a word in the inbox of a sender by which a receiver reports taken entries; each receiver has one |
//!
//! An inbox also has a word that is not 0 once a peer has given up. If receivers pull ([`Transfer::Pull`]),
//! the inbox of a sender also has a ring of entries for each receiver. Each word has a cache line of its own.
//!
//! # Protocol
//! For a receiver r, a sender s
//! 1. lists the entries that the rule maps to r;
//! 2. waits until r's segment has room for a post, see Flow control;
//! 3. posts listed entries to its segment at r, after earlier entries. It does so when [`Plan::batch`]
//!    entries are listed, or when the round ends;
//! 4. adds to its told word at r by a fetch-and-add, on the QP of the entries. It does so after a quarter of
//!    a segment, and at the end of a round. The upper half of the word gets the number of entries since the
//!    last addition. The lower half gets one if the round has ended.
//!
//! The receiver r
//! 1. polls its told words. RC executes work requests in order, so an executor that sees the addition sees
//!    the entries, too;
//! 2. takes the told entries;
//! 3. WRITEs its credit word at s. It does so after a quarter of a segment, and when it has finished a round.
//!    The upper half of the word has the number of s's entries that r has taken in all, modulo 2^32. The
//!    lower half has the number of rounds that r has finished.
//!
//! A batch of one is the paper's basic shuffle. Larger batches are copied into a registered buffer (SP),
//! posted as a list of WRITEs (Doorbell), or gathered by the NIC (SGL); see [`crate::vector_io`]. Executors
//! of one machine use stores in place of all these verbs, and copy entries into the segment. An executor that
//! sends and receives takes arrived entries while it sends.
//!
//! With *Pull*, s copies entries into its ring for r in step 3. In step 2, r fetches told entries into its
//! segment by READs of at most [`Plan::batch`] entries each, and then takes them.
//!
//! # Rounds
//! The told words are the barrier: r has received a round when all senders have told it the end of the round.
//! A sender begins round q when two conditions hold:
//! - The sender has itself received round q - 1.
//! - Each receiver has finished round q - 2.
//!
//! So two told words for each sender suffice. A receiver may access only the told entries of a segment.
//! Entries of the next round follow them in the segment, and are told by the other word.
//!
//! Executor 0 ends the shuffle. With the end of a round q, it may tell receivers that q + 1 is the last.
//! Receivers pass this on with their credit. No executor begins round q + 2 before it knows.
//!
//! # Promise
//! When [`Executor::round`] returns, this executor has taken each entry that the rule assigns to it in this
//! round, from every sender, once and whole. Entries of one sender come in order. There is no order between
//! senders. The entries that this executor sent have arrived, so its input may change.
//!
//! # Flow control
//! A sender has at most one segment of entries at a receiver that are not taken. If the next post has no
//! room, [`Plan::full`] decides:
//! - [`Full::Block`]: the sender waits until the post has room.
//! - [`Full::Spill`]: the sender keeps these entries listed, and continues with other receivers until the end
//!   of the round. The list refers to the input, which must not change.
//!
//! *The wait for room* begins when the next post has no room. It ends when the receiver gives enough credit.
//! It takes at most [`Plan::give_up`] after the executor last saw anything new.
//!
//! The wait always ends if all executors run. At any time, less than a quarter of a segment is written but
//! not told, and less than a quarter is taken but not reported as credit. A post is at most half a segment,
//! so the sender gets enough credit. A waiting executor continues to take entries. So each receiver in the
//! earliest round makes progress and gives credit, and executors never wait for each other in a circle. A
//! receiver that is slow, or stops for less than [`Plan::give_up`], delays other executors. But no entry is
//! lost.
//!
//! # Failures
//! There is no fault tolerance: a job that loses an executor fails. An executor gives up in three cases:
//! - A work request fails.
//! - The executor waits, and sees nothing new for [`Plan::give_up`].
//! - A peer tells it to give up.
//!
//! An executor that gives up
//! 1. tells all its peers to give up, by WRITEs;
//! 2. waits until these WRITEs have completed or failed;
//! 3. ends with an error.
//!
//! So after a death all other executors end with an error. The last of them ends after three periods:
//! 1. It finishes the work that needs nothing of the dead executor, at most a round.
//! 2. It waits for `give_up`.
//! 3. It tells its peers. This takes up to twice the time of RC's retries (7 times 67 ms).
//!
//! No executor returns from a round without all its entries. The death of an executor after all have received
//! the last round does no harm: peers wait at most a second for its farewell.

mod config;
mod connections;
mod deployment;
mod executor;
mod incoming;
mod layout;
mod outgoing;
mod protocol;
mod rule;
mod words;

pub use config::{Placement, Shuffle};
pub use deployment::{Inboxes, put_up_inboxes};
pub use executor::Executor;
pub use incoming::TakenEntries;
pub use layout::{Full, Plan, Transfer};
pub use protocol::SERVICE;
pub(crate) use rule::hash;
pub use rule::{receiver, share_of_fullest};
