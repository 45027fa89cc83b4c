//! A hashtable whose memory is on machines that only have memory (CLUSTER'21, IV-B, Figures 11 to 13).
//!
//! **Front-ends** are threads of client machines; each may read and write every key. **Back-ends** are machines whose processors take no part: one thread registers
//! memory and connects QPs. The paper draws the architecture and says what the steps of a write are; everything below that it does not say is ours, and marked (ours).
//!
//! Keys are 0 to `pairs` - 1, by frequency: key 0 is asked for most. The first of them, a share `hot`, are hot, all others cold; which are is decided before
//! the table is used (the paper's warm-up) and does not change. Keys and blocks take turns with the areas of the table, one at each socket of each back-end.
//!
//! # Cold keys
//! A key has a record: the count of numbers that were drawn, a `done` word for each of V slots, and the slots. A slot holds an entry: version, value, and a check over
//! key, version and value. Version n is in slot n modulo V; at first there is version 0.
//!
//! *Who writes what when.* A writer draws a number by fetch-and-add, and READs count and `done` words in the same list ([`Claim`]). It WRITEs its entry, then the
//! slot's `done` word, in one list. The write ends, and is acknowledged, when both have completed. The paper has the fetch-and-add and the WRITE of the entry alone; with these alone a
//! writer that stops between the two for as long as V others take overwrites a version that has been acknowledged since, perhaps the last one. So (ours) number n may be
//! written only where the number before it of the same slot, n - V, is done, and is not the newest that is. Else the writer looks again. A number whose writer is gone is passed
//! over: who has seen m numbers before its own missing for m times `table_lease` + `drift` writes anyway, unless the slot holds the newest version that is whole. A writer gives its number up and draws another
//! where it could not post its WRITE within `table_lease` of when it was entitled to. Until then it looks again after `backoff` for each number of its
//! slot that has to be done before. All times are of the writer's own clock, and begin so that of two
//! writers that reckon with each other the earlier has ended when the later begins; [`Claim`] says why.
//!
//! *What a reader sees.* A reader READs the slots, then count and `done` words, in one list. It takes the newest version that is whole. If a version is done that is newer, the ring has gone
//! round while it read, and it reads again; a number that was drawn and never written is nothing to it. So a read is at least as new as any version that was done when it began. A slot
//! that holds the newest whole version is never written, so what one reader has seen no later one misses.
//!
//! *What is relied on.* Of one QP, what is posted later is placed later (RC), and a READ sees memory no older than one before it in the list. Bytes of one WRITE may be placed in any order: the check tells what is whole. Aligned
//! words are placed whole. `drift` bounds how far two clocks go apart within a lease and how long a WRITE, or its writer, is late after its clock was read; a WRITE that is later still may
//! overwrite a newer version, as the target places whatever comes. No lease can prevent that (see [`crate::spinlock`]); where that must not be, the key has to be hot.
//!
//! # Hot keys
//! Hot keys are in blocks of 2^t entries. Block b has the hot keys k with k modulo the number of blocks = b: popularity has nothing to do with where a key's value puts it. Each block has a lock with a
//! lease and fencing ([`crate::spinlock::Leased`]): two slots for each front-end and one more, of which the lock's word names the one that is the block.
//!
//! *Who writes what when.* A front-end keeps what it writes in its cache. **The write is acknowledged then.** When theta modifications of a block are pending, or the oldest is `time_out` old (the paper's lease), the front-end
//! publishes: it takes the lock and READs the block in one list, puts its entries in, each one version newer than what was there, WRITEs the block to its own slot and gives the lock back, again in one list, by a compare-and-swap that
//! names the slot. Where that fails another has taken the lock over; nothing is lost, and it begins again. Of several modifications of an entry only the last is published. What is
//! written while a block is being published waits for the next time: a front-end has at most theta modifications of a block pending besides those under way, and a write beyond that waits.
//!
//! The lock is held to publish, not to gather (ours: the paper does not say). Held from the first modification on, as a cache line is, it would be held for up to a time-out by whichever front-end comes first, and with Zipf's law all
//! front-ends want the same blocks: a write would wait for its turn rather than for nothing.
//!
//! *What a reader sees.* A front-end reads what it has pending itself. Else it READs the slot that it last saw named, then the word. Where the word's token has grown by no more than one, nobody has begun to write that slot; where the slot
//! is still the one, or the word was seen after the read began, it takes the entry, else it reads again.
//!
//! # Sockets
//! A front-end has a QP to the NIC of each socket of each back-end (`direct`), so that all atomics on a word are one NIC's: those of two NICs are not atomic to each other (IBV_ATOMIC_HCA). Where a machine has
//! one NIC it may have a QP to one of its ports only (`home`). The paper's proxy sockets are not built.
//!
//! # What is promised
//! - No read returns a value that nobody wrote, or part of one.
//! - A front-end reads its own writes.
//! - Versions of a key never go back for a reader. Cold keys are linearizable.
//! - A cold write is seen by every read that begins after it has ended. A hot one is, once it is published: `time_out` and one publication after it ended at the latest, if the front-end runs.
//! - After a quiet end, when front-ends have published all ([`FrontEnd::run`] does so before it returns where its work is over), each key holds the acknowledged write that is last in the order of its versions.
//!
//! # What a crash leaves
//! - *Of a front-end*: what it had acknowledged of hot keys and not published is lost; a publication under way is there or not, as a whole. The lock is taken over after `table_lease` and `drift`. Cold writes under way are there or not; numbers that it
//!   drew stay unwritten, and hold up the writer V numbers later for `table_lease` + `drift`, once.
//! - *Of a back-end*: all that it held. Each front-end that asks it ends with an error once its NIC has given up: by [`doorbell_verbs::ConnectAttr`]'s usual values after 8 times 67 ms of
//!   silence by the specification, of which NICs may make four times as much. One that is not connected with it yet waits for it.
//! - Its own end of the connection of a front-end that is gone stays at the back-end; who comes later has a number of its own.

mod cache;
mod claim;
mod cold;
mod config;
mod deployment;
mod entry;
mod front_end;
mod hot;
mod io;
mod load;
mod lock;
mod table;

pub use claim::{Claim, Look, Verdict};
pub use config::Hashtable;
pub use deployment::put_up;
pub use entry::fill;
pub use front_end::{Done, FrontEnd, Op, Published, Work};
