//! A hashtable whose memory is on machines that only have memory (CLUSTER'21, IV-B, Figures 11 to 13).
//!
//! **Front-ends** are threads of client machines; each may read and write every key. **Back-ends** are machines whose processors take no part: one thread registers
//! memory and connects QPs. The paper draws the architecture and says what the steps of a write are; everything below that it does not say is ours, and marked (ours).
//!
//! Keys are 0 to `pairs` - 1, by frequency: key 0 is asked for most. At first the first of them, a share `hot`, are hot, all others cold (the paper's warm-up decides); who finds that another
//! key is used more moves it (below). Keys and blocks take turns with the areas of the table, one at each socket of each back-end.
//!
//! # Cold keys
//! Every key has a record: its count, a `done` word for each of V slots, and the slots. A slot holds an entry: version, value, and a check over
//! key, version and value. Version n is in slot n modulo V; at first there is version 0. The count has the number that was drawn last, how many front-ends have marked the key as one that
//! has left its record, and how often it has moved. Who draws a number of a key that is marked has drawn in vain.
//!
//! *Who writes what when.* A writer draws a number by fetch-and-add, and READs count and `done` words in the same list ([`SlotClaim`]). It WRITEs its entry, then the
//! slot's `done` word, in one list. The write ends, and is acknowledged, when both have completed. The paper has the fetch-and-add and the WRITE of the entry alone; with these alone a
//! writer that stops between the two for as long as V others take overwrites a version that has been acknowledged since, perhaps the last one. So (ours) number n may be
//! written only where the number before it of the same slot, n - V, is done, and is not the newest that is. Else the writer looks again. A number whose writer is gone is passed
//! over: who has seen m numbers before its own missing for m times `table_lease` + `drift` writes anyway, unless the slot holds the newest version that is whole. A writer gives its number up and draws another
//! where it could not post its WRITE within `table_lease` of when it was entitled to. Until then it looks again after `backoff` for each number of its
//! slot that has to be done before. All times are of the writer's own clock, and begin so that of two
//! writers that reckon with each other the earlier has ended when the later begins; [`SlotClaim`] says why.
//!
//! *What a reader sees.* A reader READs the slots, then count and `done` words, in one list. It takes the newest version that is whole. If a version is done that is newer, the ring has gone
//! round while it read, and it reads again; a number that was drawn and never written is nothing to it. So a read is at least as new as any version that was done when it began. A slot
//! that holds the newest whole version is never written, so what one reader has seen no later one misses.
//!
//! *What is relied on.* Of one QP, what is posted later is placed later (RC), and a READ sees memory no older than one before it in the list. Bytes of one WRITE may be placed in any order: the check tells what is whole. Aligned
//! words are placed whole. `drift` bounds how far two clocks go apart within a lease and how long a WRITE, or its writer, or the proxy that posts it, is late after the writer's clock was read; a WRITE that is later still may
//! overwrite a newer version, as the target places whatever comes. No lease can prevent that (see [`crate::spinlock`]); where that must not be, the key has to be hot.
//!
//! # Hot keys
//! Hot keys are in blocks of 2^t entries, each of which says whose it is. Of H entries in all, key k has that of number k modulo H, number n being in block n modulo the number of blocks: popularity has
//! nothing to do with where a key's value puts it. Each block has a lock with a
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
//! *What a reader sees.* A front-end reads what it has pending itself. Else it READs the slot that it last saw named, then the word. Where the word's token has grown by no more than one, or not at all if the word by which it READ was that of
//! a lock that was taken, nobody has begun to write that slot; where the slot is still the one, or the word was seen after the read began, it takes the entry, else it reads again.
//!
//! # Moves
//! A key moves into its block ([`TableOp::Move`], ours: the paper's hot keys stay), and the key that is in its place there goes to the record of its own. Any front-end may do so at any time; others find out by what they read.
//!
//! *Who writes what when.* Who moves key k
//! 1. marks it, by a fetch-and-add on its count, and reads its head until all who drew numbers before have ended, as a writer that drew the next number of each slot would ([`SlotClaim`]);
//! 2. takes the lock of the block, READs block and record, and looks whether k is still marked and has not moved meanwhile; else it begins again. It takes the newest whole version, which is the last;
//! 3. counts the move in k's count, by a compare-and-swap that names the count as it was READ;
//! 4. WRITEs the key j that is in k's place to j's record: the entry to the slot of its version v, and `done` words as if all versions up to v had been written; if its lease has not ended;
//! 5. WRITEs the block with k in j's place and gives the lock back, as who publishes does: **k has moved then**;
//! 6. takes the marks off j's count, by a compare-and-swap that names j's count as it was in 4 and makes v the number drawn last.
//!
//! k keeps its version, and the next one of j is v + 1: versions do not go back, wherever a key is.
//!
//! *Who finds a key elsewhere.* Who reads a record that is marked READs the block; if the key is not there, the record again, and then what it says counts: it holds all that ended before the block was READ. Who reads a block that has another key
//! reads the record. Who has drawn in vain looks into the block: if the key is there, what it writes is held back as all hot writes are; else it waits until who moves the key has ended, at most `table_lease` + `drift`, and then moves
//! it itself, as who marked it may be gone. Who is about to publish a write of a key that is not in the block any more writes it to the record, or, where that is marked, as one that has drawn in vain.
//!
//! *What is relied on.* 4 is as a cold write: `drift` bounds how late it is. Of the moves of one key 4096 are told apart.
//!
//! # Sockets
//! A front-end has a QP to the NIC of each socket of each back-end (`direct`), so that all atomics on a word are one NIC's: those of two NICs are not atomic to each other (IBV_ATOMIC_HCA). Where a machine has
//! one NIC it may have a QP to one of its ports only (`home`). Or (`proxy`, the paper's) it has QPs to its own socket of each back-end, and hands lists for others to a front-end of its machine that is at theirs, by a queue in shared
//! memory ([`Neighbours`]); that one's NIC reads and writes its scratch. Where there is none it has QPs of its own. Every front-end is a proxy beside its own work, and goes on until all of its machine are done, or long after its time is over. A front-end that fails says so to those
//! that ask it, which end with its error; one that stops for ever answers nothing.
//!
//! # What is promised
//! - No read returns a value that nobody wrote, or part of one.
//! - A front-end reads its own writes.
//! - Versions of a key never go back for a reader, also where it moves. Cold keys are linearizable.
//! - A cold write is seen by every read that begins after it has ended. A hot one is, once it is published: `time_out` and one publication after it ended at the latest, if the front-end runs.
//! - After a quiet end, when front-ends have published all ([`FrontEnd::run`] does so before it returns where its work is over), each key holds the acknowledged write that is last in the order of its versions.
//!
//! # What a crash leaves
//! - *Of a front-end*: what it had acknowledged of hot keys and not published is lost; a publication under way is there or not, as a whole. The lock is taken over after `table_lease` and `drift`. Cold writes under way are there or not; numbers that it
//!   drew stay unwritten, and hold up the writer V numbers later for `table_lease` + `drift`, once.
//!   A move is made or not; a key that is left marked, or was not said to be cold, is where its newest version is: in its record, until it is written, and moves, or until it is moved.
//! - *Of a back-end*: all that it held. Each front-end that asks it ends with an error once its NIC has given up: by [`doorbell_verbs::ConnectAttr`]'s usual values after 7 times 67 ms of
//!   silence by the specification, of which NICs may make four times as much. One that is not connected with it yet waits for it.
//! - Its own end of the connection of a front-end that is gone stays at the back-end; who comes later has a number of its own.

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
