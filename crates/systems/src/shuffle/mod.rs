//! A shuffle: executors distribute entries among all executors, by a rule on keys (CLUSTER'21, IV-C, Figures
//! 14 and 15).
//!
//! [`Executor`] is the component for other programs, and [`Shuffle`] is a benchmark of it. Executors are
//! threads, and a machine's executors take its sockets in turn. In each round the first n executors send and
//! the last m receive. An executor that does both goes on sending while it takes arrived entries. An entry is
//! a key of 8 bytes and a value. The caller's rule names an entry's receiver by its key ([`receiver`] is the
//! usual rule).
//!
//! **Layout.** Each executor has an *inbox*, registered memory at a socket that [`Placement`] names. In it,
//! each word has a cache line. An inbox has these parts:
//!
//! - a word that says that an executor gave up;
//! - for each sender two *told* words, one for even and one for odd rounds;
//! - for each receiver that it sends to, a *credit* word;
//! - for each sender a *segment*, a ring of entries;
//! - if receivers pull, for each receiver a ring of entries to fetch.
//!
//! **Protocol.** Sender s lists entries for receiver r. It posts them when [`Plan::batch`] are listed, or the
//! round ends. A batch of one is the paper's basic shuffle. Larger batches are copied into a registered
//! buffer (SP), posted as a list of WRITEs (Doorbell), or gathered by the NIC (SGL); see
//! [`crate::vector_io`]. They go to s's segment at r, behind earlier entries. After a quarter of a segment,
//! and at the end of a round, s adds to its told word at r by fetch-and-add on that QP. It adds the number of
//! entries since its last addition (upper half), and one if the round has ended (lower half). RC executes
//! work requests in order, so an executor that sees the word sees the entries. r polls its told words and
//! takes the entries that they tell of. After a quarter of a segment, and when a round has ended, r reports
//! to s by a WRITE to its credit word. The report is how many entries r has taken in all (upper half, modulo
//! 2^32) and how many rounds it has finished (lower half). Executors of one machine do all this by stores,
//! and copy entries into the segment.
//!
//! With *Pull*, s copies entries into its ring for r. Once told, r fetches them by READs, each of as many
//! entries as s would post at a time.
//!
//! **Rounds.** The told words are the barrier: r has a round when all senders have ended it. A sender begins
//! a round when it has received the round before, and each receiver has finished the last round but one. So
//! two words for each sender suffice. Executor 0 ends the shuffle: with the end of round q it may tell that q
//! + 1 is the last. Receivers pass this on with their credit, and nobody begins q + 2 before.
//!
//! **Visibility.** A receiver may see only the told entries of a segment. Entries of the next round lie
//! behind them, and the other word tells of them.
//!
//! **Promise.** When [`Executor::round`] returns, this executor has taken each entry of the round that the
//! rule gives it, from every sender, once and whole. Entries of one sender come in order; between senders
//! there is no order. The executor's own entries have arrived, and its input may change.
//!
//! **Flow control.** A sender has at most a segment's entries at a receiver that has not taken them. If the
//! next post has no room, the sender stops ([`Full::Block`]), or keeps these entries listed and goes on with
//! other receivers until the round's end ([`Full::Spill`]). The list refers to the input, which must not
//! change. Entries that the receiver was not told of are less than a quarter of a segment, and so are entries
//! taken without credit. A post is at most half, so credit comes. A waiting executor goes on taking entries.
//! So each receiver in the earliest round makes progress and gives credit, and no cycle of waiting closes. A
//! receiver that is slow, or stopped for less than [`Plan::give_up`], delays other executors; nothing is lost
//! by it.
//!
//! **Failures.** There is no fault tolerance: a job that loses an executor fails. An executor gives up if a
//! work request fails, if it sees nothing new for [`Plan::give_up`] while it waits, or if a peer tells it to
//! give up. It then tells all its peers to give up, waits until that has arrived or failed, and ends with an
//! error. So after a death all other executors end with an error, in three steps. The last executor finishes
//! the work that needs nothing of the dead one, at most a round. It waits for `give_up`. Telling its peers
//! takes up to twice the time of RC's retries (7 times 67 ms). No executor returns from a round that it does
//! not have in full. If an executor dies after all have the last round, nothing changes: peers wait at most a
//! second for its farewell.

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
