//! A hashtable in the memory of other machines, accessed by one-sided verbs (CLUSTER'21, IV-B, Figures 11 to
//! 13).
//!
//! **Front-ends** are threads of client machines. Each front-end may read and write every key. **Back-ends**
//! are machines that only provide memory: one thread registers the memory and connects the QPs, and no
//! processor of a back-end takes part in operations. The paper draws this architecture and lists the steps of
//! a write. Our additions are marked (ours).
//!
//! # Overview
//! A key is cold or hot. Moves make a cold key hot and a hot key cold.
//!
//! | | cold key | hot key |
//! |---|---|---|
//! | its value is in | its own record, with its last V versions | an entry of a block that many keys share |
//! | writers exclude each other by | versions and time | the lock of the block |
//! | a write goes | to the back-end at once | to the front-end's cache, later to the block by a *publication* |
//! | a write is acknowledged | when its WRITEs have completed | when it is in the cache, not yet published |
//! | a read takes | the newest version of the record | the front-end's own pending value, else the block's |
//!
//! | term | meaning |
//! |---|---|
//! | list | work requests that are posted together on one QP |
//! | version | a write's number among the writes of its key; version 0 is the initial value |
//! | entry | version, value, and a check over key, version and value; *whole* if the check is right |
//! | V (`versions`), slots | the V places of a record for entries; version n is in slot n modulo V |
//! | head | the other part of a record: its count, and one `done` word per slot |
//! | draw | reserve the next version by a fetch-and-add on the count |
//! | done | a version is done when its entry and the slot's `done` word are written |
//! | missing | a version is missing from its draw until it is done |
//! | copy | a place for a block; each block has two copies per front-end, and an initial one |
//! | word, token | the word of a block's lock; its token counts acquisitions |
//! | known word | the word as the front-end last saw it or left it |
//!
//! Keys are the integers from 0 to `pairs` - 1 in the order of frequency: key 0 is the most frequent. At
//! first the most frequent keys, a share `hot` of all keys, are hot. (In the paper, the warm-up selects the
//! hot keys.) The table has one area at each socket of each back-end. Consecutive keys are in consecutive
//! areas, and so are consecutive blocks.
//!
//! # Cold keys
//! Every key has a record, even while it is hot. The `done` word of a slot names the version that was written
//! there last.
//!
//! The count holds the version that was drawn last, how many front-ends have marked the key, and how often
//! the key has moved. A marked key is hot, or is moving (see Moves). A version that is drawn from the count
//! of a marked key is void.
//!
//! *Writes.* A writer
//! 1. draws version n, and READs the head in the same list;
//! 2. asks [`SlotClaim`] whether it may write n, and READs the record again until it may;
//! 3. WRITEs the entry, then the slot's `done` word, in one list.
//!
//! The paper has only the fetch-and-add and the WRITE of the entry. With these alone, a writer may stop
//! between the two while V later versions are written. When it goes on, it overwrites an acknowledged
//! version, perhaps the newest. So (ours) a writer of version n waits until version n - V, which n
//! overwrites, is done and is not the newest done version. Between two READs of the record, the writer pauses
//! for `backoff` times the number of versions of the slot that have to be done first, at most for
//! `backoff_most`.
//!
//! *Missing versions.* A writer that exits may leave its version missing. If a writer finds m earlier
//! versions of its slot missing, it passes over them after m x (`table_lease` + `drift`), unless the slot
//! holds the newest whole version. In return, each writer may post its WRITEs only in a limited *period*. The
//! period ends at most `table_lease` after the time from which the writer may write. A writer that misses the
//! end of its period gives its version up and draws another one. Each writer measures time by its own clock.
//! The periods of two writers of one slot do not overlap: see [`SlotClaim`].
//!
//! *Reads.* A reader READs the slots and then the head, in one list, and takes the newest whole version. If a
//! `done` word names a newer version, writers have overwritten slots during the read, and the reader reads
//! again. Missing versions do not delay readers. So a read is at least as new as any version that was done
//! when the read began. The newest whole version is never overwritten, so no later reader misses a version
//! that a reader has seen.
//!
//! *Assumptions.*
//! - RC places the requests of one QP in the order in which they were posted. A READ sees memory no older
//!   than an earlier READ of its list.
//! - The bytes of one WRITE may be placed in any order, but aligned words are placed whole.
//! - `drift` bounds how far two clocks diverge within `table_lease`. It also bounds the delay from a writer's
//!   look at its clock to its WRITE at the target, including the delay of a proxy (see Sockets).
//! - A WRITE with a longer delay may overwrite a newer version, because the target places every WRITE that
//!   arrives. No time limit can prevent that (see [`crate::spinlock`]). A key for which this must not happen
//!   has to be hot.
//!
//! # Hot keys
//! Hot keys are in blocks of 2^t entries (`block_log2` is t). Each of these entries also names its key. With
//! H entries in all blocks together, key k belongs to entry k modulo H, and entry e is in block e modulo the
//! number of blocks.
//!
//! Each block has a lock with a lease and fencing ([`crate::spinlock::Leased`], which calls a copy a slot).
//! The word names the current copy.
//!
//! *Writes.* A front-end puts the values that it writes into its cache. **This acknowledges the write.** The
//! front-end publishes a block when `theta` writes to the block are pending, or when the oldest is `time_out`
//! old (the paper calls this age a lease). To publish a block, it
//! 1. acquires the lock and READs the current copy, in one list;
//! 2. puts its pending values into the block, each with the version after the entry's version;
//! 3. WRITEs the block to a copy of its own and releases the lock, in one list. The release is a
//!    compare-and-swap that makes this copy the current one.
//!
//! If that compare-and-swap fails, another front-end has taken the lock over. Nothing is lost, and the
//! front-end begins again. Of several pending writes to an entry only the last is published. A write to a
//! block that is being published joins the next publication. Besides the writes that are being published, a
//! front-end has at most `theta` pending writes to a block. A further write waits.
//!
//! The lock is held only to publish (ours: the paper does not say). A front-end could hold it from the first
//! pending write on, as a core holds a cache line. But with Zipf's law all front-ends want the same blocks,
//! so they would wait for the holder, each time for up to `time_out`.
//!
//! *Reads.* A front-end without a pending value READs the copy that the known word names, then the word, in
//! one list. It accepts the copy if both conditions hold, and reads again otherwise:
//! - No front-end has begun to overwrite the copy. If the known word shows the lock as free, this holds as
//!   long as the token has grown by at most one. If the known word shows the lock as held, this holds as long
//!   as the token is unchanged.
//! - The copy is recent enough: the word that was READ still names it, or the known word is from an
//!   earlier try of this read.
//!
//! # Moves
//! [`TableOp::Move`] moves a key k into its block. It moves the key j, which has k's entry of the block, into
//! j's record (ours: in the paper, hot keys stay hot). Any front-end may move a key at any time.
//!
//! *Steps.* A front-end that moves key k
//! 1. marks k by a fetch-and-add on k's count. It then READs the head of k's record until all writers that
//!    drew versions before the mark have ended. For each slot, this wait ends when a writer of the slot's
//!    next version could pass over all missing versions ([`SlotClaim`]);
//! 2. acquires the lock of the block, and READs block and record. It begins again if k is no longer marked or
//!    has moved since step 1. It takes k's newest whole version, which is k's last version;
//! 3. counts the move in k's count, by a compare-and-swap of the count that it READ;
//! 4. if the lock's lease has not ended, WRITEs j's record: the entry to the slot of j's version v, and
//!    `done` words as if all versions up to v had been written;
//! 5. WRITEs the block with k in the place of j and releases the lock, as a publication does. **Now k has
//!    moved**;
//! 6. removes the marks from j's count, by a compare-and-swap of the count that it READ before step 4. The
//!    new count has v as the version drawn last.
//!
//! k keeps its version, and the next version of j is v + 1. So the versions of a key never go back.
//!
//! *Finding a key that has moved.*
//! - A reader that finds a record marked READs the block. If the key is not there, the reader READs the
//!   record again and takes its newest version despite the mark. The record then holds every write that ended
//!   before the block was READ.
//! - A reader that finds another key in the entry reads the record.
//! - A writer that drew a void version READs the block. If the key is there, the write becomes a hot write.
//!   Otherwise the writer waits for the move to end, at most `table_lease` + `drift`. After that time the
//!   writer moves the key itself, because the front-end that marked the key may have exited.
//! - A front-end that publishes may find that a key has left its block. The front-end then writes the value
//!   to the key's record. If the record is marked, the front-end continues like a writer that drew a void
//!   version.
//!
//! *Assumptions.* As for a cold write, `drift` bounds the delay of the WRITEs of step 4. The count has the
//! number of moves modulo 4096. So a key must not move 4096 times between two looks of a front-end at the
//! key's count.
//!
//! # Sockets
//! All atomics on a word have to go through one NIC, because the atomics of two NICs are not atomic to each
//! other (IBV_ATOMIC_HCA). A front-end reaches an area by one of three paths:
//! - `direct`: the front-end has a QP to the NIC of each socket of each back-end.
//! - `home`: the front-end has a QP to one port of each back-end. This is for machines with one NIC.
//! - `proxy` (the paper's): the front-end has a QP to the socket of each back-end that matches its own. It
//!   hands a list for another socket to a proxy, by a queue in shared memory ([`Neighbours`]). The proxy is a
//!   front-end of the same machine at that socket. It posts the list, and its NIC reads and writes the
//!   scratch memory of the front-end that asked. If the machine has no front-end at a socket, the asking
//!   front-end has a QP of its own to that socket.
//!
//! Besides its own work, every front-end serves as proxy. It does so until all front-ends of its machine are
//! done, or until long after the measured time. A proxy that fails reports its error to the front-ends that
//! ask it, and they end with this error. A proxy that hangs answers nothing.
//!
//! # Guarantees
//! - No read returns a value that was never written, or part of a value.
//! - A front-end reads its own writes.
//! - Versions of a key never go back for a reader, even if the key moves. Cold keys are linearizable.
//! - Every read that begins after a cold write has ended sees that write. Reads see a hot write once it is
//!   published. This takes at most `time_out` and the time of one publication, if the front-end that wrote
//!   runs.
//! - After a quiet end each key holds the acknowledged write with the highest version. An end is quiet when
//!   all front-ends have published everything. [`FrontEnd::run`] publishes everything before it returns, if
//!   its work is over.
//!
//! # After a crash
//! - *Of a front-end*: its acknowledged and unpublished hot writes are lost. A publication in flight happens
//!   as a whole or not at all. Another front-end can take the lock over after `table_lease` + `drift`. A cold
//!   write in flight happens or not. A drawn version n that was not written stays missing. It delays the
//!   writer of version n + V by `table_lease` + `drift`. After that write, it delays nothing. A move of k in
//!   flight happens or not. If the front-end exits before step 5, k may stay marked. If it exits between
//!   steps 5 and 6, j stays marked. The newest version of a key that is marked, but is not in its block, is
//!   in the key's record. The next write of the key, or a move, brings the key into its block.
//! - *Of a back-end*: everything that it held is lost. Each front-end that accesses the back-end ends with an
//!   error once its NIC has given up. With the default [`doorbell_verbs::ConnectAttr`], the specification
//!   lets a NIC give up after 7 times 67 ms of silence. A NIC may take up to four times as long. A front-end
//!   that is not yet connected to the back-end waits for it without end.
//! - A back-end keeps its end of the connection of a front-end that has exited. A front-end that starts later
//!   has an identity and copies of its own.

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
