//! A shuffle: executors distribute entries to executors, all to all, by a rule on keys (CLUSTER'21, IV-C, Figures 14 and 15).
//!
//! [`Executor`] is the piece for other programs, [`Shuffle`] a benchmark of it. Executors are threads, a machine's at its sockets in turn. In
//! each round the first n of them send and the last m receive; one that does both goes on with what it has to send while it takes what comes. An entry
//! is a key of 8 bytes and a value; which receiver it goes to the caller says by the key ([`receiver`] is the usual rule).
//!
//! **Layout.** Each executor has an *inbox*, registered memory at a socket that [`Placement`] names: a word that tells that somebody gave up;
//! for each sender two *told* words, of even and of odd rounds; for each receiver that it sends to a *credit* word; for each sender a *segment*, a ring of
//! entries; and, where receivers pull, for each receiver a ring of what it is to fetch. Each word has a cache line.
//!
//! **Who writes what when.** Sender s lists entries for receiver r and posts them when [`Plan::batch`] are listed, or the round ends: with one the paper's
//! basic shuffle, else copied into a registered buffer (SP), as a list of WRITEs (Doorbell), or gathered by the NIC (SGL), see [`crate::vector_io`].
//! They go to s's segment at r, behind those before. After a quarter of a segment, and at the end of a round, s adds to its told word at
//! r by fetch-and-add, on the same QP: how many entries have come since it last did so (upper half), and one where the round has ended (lower half). RC executes work requests in
//! their order, so whoever sees the word sees the entries. r polls its told words, takes what was told, and tells s by a WRITE to its credit word how
//! many it has taken altogether (upper half, modulo 2^32) and how many rounds it has finished (lower half): after a quarter of a segment, and when a round has ended.
//! Executors of one machine do the same by stores, and copy entries into the segment.
//!
//! *Pull* differs in who moves entries: s copies them into its ring for r, and r, when told, fetches them by READs of as many entries as s would post at a time.
//!
//! **Rounds.** The told words are the barrier: r has a round when all senders have ended it. A sender begins a round when it has what it receives of the one before, and each
//! receiver has finished the last but one: so two words for each sender do. Executor 0 ends the whole: its telling that round q is over may say that q + 1 is the last; receivers pass
//! that on with their credit, and nobody begins q + 2 before.
//!
//! **What a receiver may see.** Of a segment only what was told; entries of the next round lie behind and are told by the other word.
//!
//! **Promise.** When [`Executor::round`] returns, this executor has taken each entry of the round that the rule gives it, from every sender, once, its bytes whole, and
//! those of one sender in their order; between senders there is no order. What it sent has arrived; its input may change.
//!
//! **Flow control.** A sender has at most a segment's entries at a receiver that has not taken them. Where the next post has no room it stops ([`Full::Block`]), or keeps
//! these entries listed and goes on with others until the round's end ([`Full::Spill`]): the list refers to the input, which stays as it is. What a receiver was not told of,
//! and what it has taken and given no credit for, is less than a quarter each, and a post at most half: so credit comes. Whoever waits goes on taking what comes. So of the executors in the earliest round each receiver
//! gets on, gives credit, and no circle of waiting closes. A receiver that is slow, or stopped
//! for less than [`Plan::give_up`], delays the others; nothing is lost by it.
//!
//! **Who dies.** There is no fault tolerance: a job that loses an executor fails. An executor whose work request fails, that has seen nothing new for [`Plan::give_up`] while it waited, or that is told so, tells all it is
//! connected with that it gives up, waits until that has arrived or failed, and ends with an error. So after a death all others end with an error within `give_up` after the last of them has done what
//! needs nothing of the dead one, at most a round, and twice the time that RC tries again (7 times 67 ms). None returns from a round that it has not whole. An executor that dies after all have the last round changes
//! nothing: who waits for its farewell waits a second at most.

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
