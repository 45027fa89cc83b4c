//! A hashtable in the memory of other machines, used by one-sided verbs (CLUSTER'21, IV-B, Figures 11 to 13).
//!
//! **Front-ends** are threads of client machines. Each front-end may read and write every key. **Back-ends**
//! are machines that only provide memory: one thread registers the memory and connects the QPs, and the
//! processors take no part in operations. The paper draws this architecture and lists the steps of a write.
//! Everything below that the paper does not say is marked (ours).
//!
//! # Overview
//! A key is cold or hot.
//!
//! | | cold key | hot key |
//! |---|---|---|
//! | its value is in | a record of its own, with the last V versions | an entry of a block that many keys share |
//! | writers agree by | version numbers and leases | the lock of the block |
//! | a write goes | to the back-end at once | to the front-end's cache, and is published later with other writes |
//! | a write is acknowledged | when its WRITEs have completed | when it is in the cache, before it is published |
//! | a read takes | the newest version of the record | the front-end's own pending value, else the block |
//!
//! Keys are numbered 0 to `pairs` - 1 by frequency: key 0 is the most frequent. At first the most frequent
//! keys, a share `hot` of all, are hot, and the others are cold. (In the paper, the warm-up decides.) A
//! front-end that finds another key more used moves it (see Moves). The table has one area at each socket of
//! each back-end. Keys and blocks are assigned to the areas in turn.
//!
//! # Cold keys
//! Every key has a record: its count, V `done` words, and V slots. A slot holds an entry: version, value, and
//! a check over key, version and value. An entry is whole if its check is right. Version n is in slot n
//! modulo V. The `done` word of a slot names the version that was written there last. At first there is
//! version 0.
//!
//! The count holds the version number that was drawn last, how many front-ends have marked the key, and how
//! often the key has moved. A marked key has left its record, or is about to leave it (see Moves). A number
//! drawn from the count of a marked key is void.
//!
//! *Writes.* A writer
//! 1. draws a number by fetch-and-add on the count, and READs count and `done` words in the same list;
//! 2. looks whether it may write the number ([`SlotClaim`]), and looks again until it may;
//! 3. WRITEs its entry, then the slot's `done` word, in one list.
//!
//! The write ends, and is acknowledged, when both WRITEs have completed.
//!
//! The paper has only the fetch-and-add and the WRITE of the entry. With these alone, a writer may stop
//! between the two while V others write. It then overwrites a version that has been acknowledged since,
//! perhaps the newest. So (ours) number n may be written only if n - V, the number before it in its slot, is
//! done and is not the newest version that is done. Otherwise the writer looks again. Before that it waits
//! `backoff`, at most `backoff_most`, for each number of its slot that has to be done first.
//!
//! *Leases.* A missing number of a writer that is gone is passed over. A writer that sees m earlier numbers
//! of its slot missing for m x (`table_lease` + `drift`) writes anyway, unless the slot holds the newest
//! whole version. A writer gives its number up and draws another if it could not post its WRITE within
//! `table_lease` of when it was entitled to. Each writer measures time by its own clock. For two writers of
//! one slot, the periods are such that the earlier one has ended when the later one begins. [`SlotClaim`] has
//! the argument.
//!
//! *Reads.* A reader READs the slots, then count and `done` words, in one list. It takes the newest whole
//! version. If a `done` word names a newer version, the ring has gone round during the read, and the reader
//! reads again. A number that was drawn and never written does not matter to a reader. So a read is at least
//! as new as any version that was done when the read began. A slot that holds the newest whole version is
//! never overwritten, so no later reader misses a version that a reader has seen.
//!
//! *Assumptions.*
//! - Requests of one QP are placed in the order in which they were posted (RC). A READ sees memory no older
//!   than an earlier READ of its list.
//! - The bytes of one WRITE may be placed in any order: the check tells which entries are whole. Aligned
//!   words are placed whole.
//! - `drift` bounds how far two clocks go apart within a lease. It also bounds how late a WRITE, its writer
//!   or the proxy that posts it is after the writer's clock was read.
//! - A WRITE that is later still may overwrite a newer version, because the target places every WRITE that
//!   arrives. No lease can prevent that (see [`crate::spinlock`]). A key for which this must not happen has
//!   to be hot.
//!
//! # Hot keys
//! Hot keys are in blocks of 2^t entries. Each entry names the key that it holds. With H entries in all, key
//! k belongs to entry k modulo H, and entry n is in block n modulo the number of blocks. The number of a key
//! alone decides its entry, however often the key is used.
//!
//! Each block has a lock with a lease and fencing ([`crate::spinlock::Leased`]), and several slots: two for
//! each front-end, and one more. The lock's word names the slot that holds the block.
//!
//! *Writes.* A front-end keeps the values that it writes in its cache. **The write is acknowledged then.** It
//! publishes a block when theta modifications of the block are pending, or when the oldest one is `time_out`
//! old (the paper's lease). To publish a block, it
//! 1. acquires the lock and READs the block, in one list;
//! 2. puts its entries into the block, each one version newer than the entry that was there;
//! 3. WRITEs the block to a slot of its own and releases the lock, in one list. A compare-and-swap that names
//!    the slot releases the lock.
//!
//! If that compare-and-swap fails, another front-end has taken the lock over. Nothing is lost, and the
//! front-end begins again. Of several modifications of an entry only the last is published. A write to a
//! block that is being published waits for the next publication. Besides the writes that are being published,
//! a front-end has at most theta modifications of a block pending. A write beyond that waits.
//!
//! The lock is held to publish, not to gather (ours: the paper does not say). A front-end could hold it from
//! the first modification on, as a core holds a cache line. Then the front-end that comes first would hold it
//! for up to a time-out. With Zipf's law all front-ends want the same blocks, so writes would wait for the
//! lock.
//!
//! *Reads.* A front-end reads its own pending value. Otherwise it READs the slot that the last known word
//! names, then the word, in one list. It uses the slot if both conditions hold, and reads again otherwise:
//! - Nobody has begun to write the slot: the word's token has grown by no more than one. If the lock was held
//!   when the known word was seen, the token has not grown at all.
//! - The slot is recent enough: the new word still names it, or the known word was seen after the read began.
//!
//! # Moves
//! [`TableOp::Move`] moves a key k into its block, and the key j that has k's entry there into j's record
//! (ours: the paper's hot keys stay). Any front-end may move a key at any time. Other front-ends learn of the
//! move from the records and blocks that they read.
//!
//! *Steps.* A front-end that moves key k
//! 1. marks k by a fetch-and-add on k's count. It then reads the head of k's record until all writers that
//!    drew numbers before have ended. It waits as a writer that drew the next number of each slot would
//!    ([`SlotClaim`]);
//! 2. acquires the lock of the block, and READs block and record. It begins again if k is no longer marked or
//!    has moved meanwhile. It takes the newest whole version of k, which is the last one;
//! 3. counts the move in k's count, by a compare-and-swap that names the count as it was READ;
//! 4. if its lease has not ended, WRITEs j to j's record: the entry to the slot of j's version v, and `done`
//!    words as if all versions up to v had been written;
//! 5. WRITEs the block with k in j's place and releases the lock, as a publication does: **k has moved
//!    then**;
//! 6. takes the marks off j's count, by a compare-and-swap that names j's count as it was in step 4 and makes
//!    v the number drawn last.
//!
//! k keeps its version, and the next version of j is v + 1. So versions do not go back, wherever a key is.
//!
//! *Finding a key that has moved.*
//! - A reader that finds a record marked READs the block. If the key is not there, it READs the record again
//!   and takes the version found there: the record holds every write that ended before the block was READ.
//! - A reader that finds another key in the block reads the record.
//! - A writer that drew a void number looks into the block. If the key is there, its write is held back like
//!   all hot writes. Otherwise it waits for the move to end, at most `table_lease` + `drift`. It then moves
//!   the key itself, because the front-end that marked the key may be gone.
//! - A front-end that publishes may find that a key has left its block. It writes the value to the key's
//!   record. If the record is marked, it goes on like a writer that drew a void number.
//!
//! *Assumptions.* Step 4 is like a cold write: `drift` bounds how late it is. The count tells 4096 moves of
//! one key apart.
//!
//! # Sockets
//! All atomics on a word have to go by one NIC, because atomics of two NICs are not atomic to each other
//! (IBV_ATOMIC_HCA). There are three paths from a front-end to an area:
//! - `direct`: the front-end has a QP to the NIC of each socket of each back-end.
//! - `home`: it has a QP to one port of each back-end. This is for machines that have one NIC.
//! - `proxy` (the paper's): it has a QP to its own socket of each back-end. It hands a list for another
//!   socket to a front-end of its machine at that socket, by a queue in shared memory ([`Neighbours`]). The
//!   proxy's NIC reads and writes the scratch of the front-end that asked. If its machine has no front-end at
//!   a socket, it has QPs of its own to that socket.
//!
//! Every front-end is a proxy beside its own work. It serves until all front-ends of its machine are done, or
//! until long after the end of its interval. A proxy that fails reports this to the front-ends that ask it,
//! and they end with its error. A proxy that stops for ever answers nothing.
//!
//! # Guarantees
//! - No read returns a value that nobody wrote, or part of one.
//! - A front-end reads its own writes.
//! - Versions of a key never go back for a reader, not even when the key moves. Cold keys are linearizable.
//! - Every read that begins after a cold write has ended sees that write. Reads see a hot write once it is
//!   published: at the latest `time_out` and one publication after it ended, if the front-end runs.
//! - After a quiet end each key holds the acknowledged write that is last in the order of its versions. An
//!   end is quiet when all front-ends have published everything. [`FrontEnd::run`] publishes before it
//!   returns, if its work is over.
//!
//! # After a crash
//! - *Of a front-end*: hot writes that it acknowledged and did not publish are lost. A publication in flight
//!   is there as a whole or not at all. The lock is taken over after `table_lease` and `drift`. Cold writes
//!   in flight are there or not. A number that it drew and did not write stays unwritten. It delays the
//!   writer V numbers later by `table_lease` + `drift`, once. A move in flight is made or not. A key may stay
//!   marked, or stay without the compare-and-swap of step 6. Its newest version is then in its record until a
//!   write moves it into its block, or until it is moved.
//! - *Of a back-end*: everything that it held is lost. Each front-end that asks it ends with an error once
//!   its NIC has given up. With the usual values of [`doorbell_verbs::ConnectAttr`] a NIC gives up after 7
//!   times 67 ms of silence by the specification. NICs may take up to four times as long. A front-end that is
//!   not connected with the back-end yet waits for it.
//! - A back-end keeps its end of the connection of a front-end that is gone. A front-end that comes later has
//!   a number of its own.

mod asking;
mod cache;
mod claim;
mod cold;
mod config;
mod count;
mod deployment;
mod entry;
mod exchange;
mod front_end;
mod hot;
mod io;
mod load;
mod locks;
mod moves;
mod neighbours;
mod request;
mod scratch;
mod table;
mod terms;
mod turn;

pub use claim::{Look, SlotClaim, Verdict};
pub use config::Hashtable;
pub use deployment::put_up;
pub use entry::fill;
pub use front_end::{Done, FrontEnd, Published, TableOp, TableOutcome, Work};
pub use neighbours::Neighbours;
