//! A shuffle: executors distribute entries among all executors, by a rule on keys (CLUSTER'21, IV-C, Figures
//! 14 and 15).
//!
//! [`Executor`] is the component for other programs, and [`Shuffle`] is a benchmark of it. Executors are
//! threads, and the executors of a machine are distributed over its sockets in turn. In each round the first
//! n executors send and the last m receive. An executor that does both continues to send while it takes
//! arrived entries. An entry is a key of 8 bytes and a value. The caller's rule maps an entry's key to its
//! receiver ([`receiver`] is the usual rule).
//!
//! **Layout.** Each executor has an *inbox*: registered memory at a socket that [`Placement`] determines. An
//! inbox has these parts, in which each word has a cache line of its own:
//!
//! - a word that is not 0 once a peer has given up;
//! - for each sender two *told* words, one for even and one for odd rounds;
//! - for each receiver to which the executor sends, a *credit* word;
//! - for each sender a *segment*, a ring of entries;
//! - if receivers pull, for each receiver a ring of entries to fetch.
//!
//! **Protocol.** Sender s lists entries for receiver r. It posts them when [`Plan::batch`] entries are
//! listed, or when the round ends. A batch of one is the paper's basic shuffle. Larger batches are copied
//! into a registered buffer (SP), posted as a list of WRITEs (Doorbell), or gathered by the NIC (SGL); see
//! [`crate::vector_io`]. The entries go to s's segment at r, after earlier entries. After a quarter of a
//! segment, and at the end of a round, s adds to its told word at r, by fetch-and-add on the QP of the
//! entries. It adds the number of entries since its last addition (upper half), and one if the round has
//! ended (lower half). RC executes work requests in order, so an executor that sees the word sees the
//! entries. r polls its told words and takes the entries that they report. After a quarter of a segment, and
//! when a round has ended, r reports to s by a WRITE to r's credit word at s. The report says how many
//! entries of s r has taken in all (upper half, modulo 2^32), and how many rounds r has finished (lower
//! half). Executors of one machine use stores in place of all these verbs, and copy entries into the segment.
//!
//! With *Pull*, s copies entries into its ring for r. Once told, r fetches the entries by READs of at most
//! [`Plan::batch`] entries each.
//!
//! **Rounds.** The told words are the barrier: r has received a round when all senders have told it the
//! round's end. A sender begins round q when it has itself received round q - 1, and each receiver has
//! finished round q - 2. So two told words for each sender suffice. Executor 0 ends the shuffle: with the end
//! of round q, it may tell receivers that q + 1 is the last. Receivers pass this on with their credit. No
//! executor begins round q + 2 before it knows.
//!
//! **Visibility.** A receiver may access only the told entries of a segment. Entries of the next round follow
//! them in the segment, and are told by the other word.
//!
//! **Promise.** When [`Executor::round`] returns, this executor has taken each entry that the rule assigns to
//! it in this round, from every sender, once and whole. Entries of one sender come in order. There is no
//! order between senders. The entries that this executor sent have arrived, so its input may change.
//!
//! **Flow control.** At a receiver, a sender has at most one segment of entries that are not taken. If the
//! next post has no room, the sender stops ([`Full::Block`]), or keeps these entries listed and continues
//! with other receivers until the round's end ([`Full::Spill`]). The list refers to the input, which must not
//! change. At any time, less than a quarter of a segment is written but not told, and less than a quarter is
//! taken but not reported as credit. A post is at most half a segment, so a sender that waits for room always
//! gets enough credit. A waiting executor continues to take entries. So each receiver in the earliest round
//! makes progress and gives credit, and executors never wait for each other in a circle. A receiver that is
//! slow, or stopped for less than [`Plan::give_up`], delays other executors, but no entry is lost.
//!
//! **Failures.** There is no fault tolerance: a job that loses an executor fails. An executor gives up if a
//! work request fails, if it sees nothing new for [`Plan::give_up`] while it waits, or if a peer tells it to
//! give up. It then tells all its peers to give up, waits until these WRITEs have completed or failed, and
//! ends with an error. So after a death all other executors end with an error. The last of them ends after
//! three periods. In the first, it finishes the work that needs nothing of the dead executor, at most a
//! round. In the second, it waits for `give_up`. In the third, it tells its peers, which takes up to twice
//! the time of RC's retries (7 times 67 ms). No executor returns from a round without all its entries. The
//! death of an executor after all have received the last round does no harm: peers wait at most a second for
//! its farewell.

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
