//! A hashtable in the memory of other machines, accessed by one-sided verbs (CLUSTER'21, IV-B, Figures 11 to
//! 13).
//!
//! The paper draws the architecture and lists the steps of a write. Our additions are marked (ours).
//!
//! # Terms
//! A term uses only terms from rows above it.
//!
//! | term | meaning |
//! |---|---|
//! | front-end | a thread of a client machine; each front-end may read and write every key |
//! | back-end | a machine that only provides memory: one thread registers it and connects the QPs, and no processor of the machine takes part in operations |
//! | area | the part of the table at one socket of one back-end |
//! | list | work requests that are posted together on one QP |
//! | version | the number of a write among the writes of its key; version 0 is the initial value |
//! | entry | a version, its value, and a check over key, version and value |
//! | whole | an entry is whole if its check is right; a version is whole if its entry is |
//! | record | the memory of one key for its last V versions (`versions`); every key has a record |
//! | slot | a record has V slots, each for one entry; the entry of version n belongs in slot n modulo V |
//! | `done` word | each slot has a `done` word, which names the version that was written to the slot last |
//! | done | a version is done when its entry and the slot's `done` word are written |
//! | block | memory for 2^t entries (`block_log2` is t); each entry of a block also names its key |
//! | copy | a place for the content of a block; each block has two copies per front-end, and an initial one |
//! | word, token | each block has a lock, and the lock has a word; the word names the holder and one of the copies, and its token counts acquisitions |
//! | current copy | the copy that the word names |
//! | known word | the word of a lock as the front-end last saw it or wrote it |
//! | cold key | a key with its value in its record |
//! | hot key | a key with its published value in an entry of a block; it keeps its record |
//! | move | makes a cold key hot, and makes the key in its entry cold |
//! | mark | a front-end marks a key before it moves the key into its block; a hot key stays marked |
//! | draw | reserve the next version of a key |
//! | count | a word of the record with three parts: the version that was drawn last, the number of marks on the key, and the number of moves of the key; a fetch-and-add on the count draws a version or sets a mark |
//! | head | the count and the `done` words of a record |
//! | missing | a version is missing if it is drawn, but not done |
//! | void | a version that was drawn while the key was marked is void: no front-end writes it |
//! | pending | a write of a hot key is pending if a front-end has acknowledged it, but no publication has taken it |
//! | publication | takes the pending writes of a front-end to a block, and WRITEs the block to the back-end |
//!
//! # Overview
//!
//! | | cold key | hot key |
//! |---|---|---|
//! | writers exclude each other by | versions and time | the lock of the block |
//! | a write goes | to the back-end at once | to the front-end's cache at once, to the back-end by a later publication |
//! | a write is acknowledged | when its WRITEs have completed | when it is in the cache, not yet published |
//! | a read takes | the newest version of the record | the front-end's own pending value, else the block's |
//!
//! Keys are the integers from 0 to `pairs` - 1 in the order of frequency: key 0 is the most frequent. At
//! first the most frequent keys, a share `hot` of all keys, are hot. (In the paper, the warm-up selects the
//! hot keys.) Consecutive keys have their records in consecutive areas. Consecutive blocks are in consecutive
//! areas, too.
//!
//! With H entries in all blocks together, key k belongs to entry k modulo H. Entry e is in block e modulo the
//! number of blocks. Many keys share an entry, but at any time the entry has one of them.
//!
//! # Writes of a cold key
//! 1. The writer draws version n by a fetch-and-add on the count, and READs the head in the same list. If the
//!    key was marked, n is void: see Keys that have moved.
//! 2. The writer asks [`SlotClaim`] whether it may write n. The answer is *yes*, *not yet* or *never*.
//! 3. After *never*, the writer gives n up and begins again at step 1.
//! 4. After *not yet*, the writer pauses. It then READs the slots and the head in one list, and goes back to
//!    step 2.
//! 5. After *yes*, the writer computes the entry.
//! 6. If the writer's period has ended, the writer begins again at step 1.
//! 7. The writer WRITEs the entry, and then the slot's `done` word, in one list.
//!
//! The paper has only the fetch-and-add and the WRITE of the entry. With these alone, a writer may stop
//! between the two while V later versions are written. When it goes on, it overwrites an acknowledged
//! version, perhaps the newest. Steps 2 to 6 and the `done` words prevent this (ours).
//!
//! *The writer's wait* (steps 2 to 4). Version n overwrites version n - V. So the writer waits for two
//! events: version n - V is done, and the key has a newer version that is done or whole.
//! - The wait begins when the list of step 1 has completed. A version below V overwrites nothing, so its
//!   writer does not wait.
//! - The wait ends with *yes* when both events have happened.
//! - A writer that exits may leave its version missing. If m earlier versions of the slot are missing, the
//!   writer passes over them. It does so m x (`table_lease` + `drift`) after it first saw the present `done`
//!   word of the slot. The wait then ends with *yes*. But if the slot has the newest whole version, the wait
//!   ends with *never*: this version is not overwritten.
//! - The wait ends with *never* when the slot has version n or a later one, or when the writer's period ends.
//! - The wait takes at most m x (`table_lease` + `drift`) + `table_lease`. This time counts from the last
//!   list of step 1 or 4 that did not find the present `done` word of the slot. If all lists found this word,
//!   the time counts from step 1. It begins anew when the `done` word changes, with a smaller m.
//!
//! *The writer's pause* (step 4) begins when the answer is known. It takes `backoff` times the number of
//! versions of the slot that have to be done first, but at most `backoff_most`. It ends earlier when the
//! writer may pass over missing versions.
//!
//! *The writer's period* is the time in which the writer may post its WRITEs. It begins when the writer may
//! write. It ends at most `table_lease` later. Each writer measures time by its own clock. The periods of two
//! writers of one slot do not overlap: see [`SlotClaim`].
//!
//! # Reads of a cold key
//! 1. The reader READs the slots and then the head, in one list. If the key is marked, see Keys that have
//!    moved.
//! 2. The reader takes the newest whole version in the slots.
//! 3. If a `done` word names a newer version, writers have overwritten slots during the READs. Then the
//!    reader begins again at step 1.
//!
//! Missing versions do not delay a reader. So a reader gets a version at least as new as each version that
//! was done when the read began. Once a reader has seen a version, each later reader sees that version or a
//! newer one, because the newest whole version is never overwritten.
//!
//! # Assumptions about cold keys
//! - RC places the requests of one QP in the order in which they were posted. A READ sees memory no older
//!   than an earlier READ of its list.
//! - The bytes of one WRITE may be placed in any order, but aligned words are placed whole.
//! - `drift` bounds how far two clocks diverge within `table_lease`. It also bounds the delay from a writer's
//!   look at its clock to its WRITE at the target, including the delay of a proxy (see Sockets).
//! - A WRITE with a longer delay may overwrite a newer version, because the target places every WRITE that
//!   arrives. No time limit can prevent that (see [`crate::spinlock`]). A key for which this must not happen
//!   has to be hot.
//!
//! # Writes of a hot key
//! A front-end puts the value into its cache. **This acknowledges the write.** Then the write is pending. The
//! front-end publishes a block when `theta` writes to the block are pending, or when the oldest of them is
//! `time_out` old (the paper calls this age a lease).
//!
//! To publish a block, the front-end
//! 1. acquires the lock by a compare-and-swap, and READs the current copy in the same list;
//! 2. repeats step 1 while the compare-and-swap fails (see the wait for a lock);
//! 3. puts its pending values into the block, each with the version after the entry's version;
//! 4. WRITEs the block to one of its own copies that is not current. In the same list, it releases the lock
//!    by a compare-and-swap that makes this copy the current one;
//! 5. pauses and begins again at step 1 if this compare-and-swap fails, because then another front-end has
//!    taken the lock over. Nothing is lost.
//!
//! *The wait for a lock* (step 2). The lock has a lease and fencing ([`crate::spinlock::Leased`], which calls
//! a copy a slot).
//! - The wait begins when a compare-and-swap fails because another front-end holds the lock.
//! - It ends when a compare-and-swap succeeds: the holder has released the lock, or `table_lease` + `drift`
//!   have passed since the holder acquired it.
//! - It takes at most `table_lease` + `drift` and one pause for each front-end that gets the lock first.
//!   Other front-ends may get the lock first any number of times.
//! - A front-end repeats a failed compare-and-swap at once, with the word that it returned. If the repetition
//!   fails, too, the front-end pauses for a drawn time. The longest pause is `backoff` at first. It doubles
//!   with each pause, up to `backoff_most`.
//! - At most one operation of a front-end asks for a lock or holds it. Others wait for this operation.
//!
//! *Pending writes.* Of several pending writes to an entry only the last is published. A write to a block
//! that is being published joins the next publication. A write waits for a publication in two cases: `theta`
//! writes to the block are pending, or the cache has an unpublished value of another key for the entry.
//! Writes that are being published do not count as pending.
//!
//! The lock is held only to publish (ours: the paper does not say). A front-end could hold it from the first
//! pending write on, as a core holds a cache line. But with Zipf's law all front-ends want the same blocks,
//! so they would wait for the holder, each time for up to `time_out`.
//!
//! # Reads of a hot key
//! 1. If the front-end's cache has a value of the key that is not published yet, the read takes it and ends.
//! 2. The front-end READs the copy that its known word names, and then the word, in one list.
//! 3. The front-end accepts the copy if it is *unchanged* and *recent*. If the copy has another key in the
//!    entry, see Keys that have moved.
//! 4. If the front-end does not accept the copy, the word that it READ becomes the known word. The front-end
//!    begins again at step 2.
//!
//! The copy is *unchanged* if no front-end has begun to overwrite it. A front-end overwrites only a copy of
//! its own that is not current. So one acquisition has to make another copy current first. Only a later
//! acquisition can overwrite the copy that was READ. The front-end subtracts the token of the known word from
//! the token of the word that it READ. The difference is the number of acquisitions since the known word.
//! - If the known word shows the lock as free, the copy is unchanged if the difference is at most one.
//! - If the known word shows the lock as held, the holder's acquisition came before the known word. So the
//!   copy is unchanged only if the difference is zero.
//!
//! The copy is *recent* if it was current at some time during the read. The front-end knows this in two
//! cases:
//! - The word that was READ still names the copy.
//! - The known word was READ in an earlier try of this read, so the copy was current at that time.
//!
//! # Moves
//! [`TableOp::Move`] moves a key k into its entry of its block. It moves the key j, which has this entry,
//! into j's record (ours: in the paper, hot keys stay hot). Any front-end may move a key at any time.
//!
//! To move key k, the front-end
//! 1. READs the block. If the block has k, the move ends;
//! 2. READs the slots and the head of k's record, in one list;
//! 3. if k is marked, pauses for `backoff` and begins again at step 1 (see the wait for another mover);
//! 4. marks k by a fetch-and-add on k's count, and READs the head of k's record in the same list;
//! 5. goes to step 7 if all writers that drew versions before the mark have ended (see the wait for writers);
//! 6. pauses for at most `backoff`, READs the head of k's record, and goes back to step 5. It begins again at
//!    step 1 if k is no longer marked, or has moved since the front-end set or found the mark;
//! 7. acquires the lock and READs the block, as a publication does. If the block has k, the front-end
//!    releases the lock, and the move ends. Otherwise the block has j, with version v;
//! 8. READs the slots and the head of k's record, in one list. It takes the newest whole version, which is
//!    the last version of k. If k is no longer marked or has moved, as in step 6, the front-end releases the
//!    lock and begins again at step 1;
//! 9. counts the move in k's count, by a compare-and-swap of the count that it READ in step 8;
//! 10. READs the head of j's record;
//! 11. WRITEs j's record, in one list: the entry to the slot of v, and `done` words as if all versions up to
//!     v had been written. If the lock's lease has ended, the front-end instead releases the lock and begins
//!     again at step 1;
//! 12. WRITEs the block with k in the place of j and releases the lock, as a publication does. **Now k has
//!     moved.** If the compare-and-swap fails, the front-end pauses and begins again at step 7;
//! 13. removes the marks from j's count, by a compare-and-swap of the count that it READ in step 10. The new
//!     count has v as the version drawn last.
//!
//! Void draws and further marks change a count, too. So the compare-and-swap of step 9 or 13 may fail
//! although the key has not moved. The front-end then repeats the step with the count that the
//! compare-and-swap returned.
//!
//! k keeps its version, and the next version of j is v + 1. So the versions of a key never go back.
//!
//! *The wait for another mover* (step 3):
//! - It begins when the front-end first finds k marked and not in the block.
//! - It ends when k is in the block, or when k is no longer marked.
//! - It takes at most `table_lease` + `drift`. After that time the front-end that marked k may have exited.
//!   So the waiting front-end goes on at step 5, with the mark that it found.
//!
//! *The wait for writers* (steps 5 and 6):
//! - It begins when the front-end has marked k, or has ended the wait for another mover.
//! - It ends when each slot of k's record has settled. A slot has settled when the writer of the slot's next
//!   version could pass over all missing versions of the slot ([`SlotClaim`]).
//! - It takes at most m x (`table_lease` + `drift`) for a slot with m missing versions. This time begins anew
//!   when the slot's `done` word changes, with a smaller m.
//!
//! # Keys that have moved
//! A front-end takes a key for hot if it last saw the key in its block. It also takes a key for hot if its
//! cache has an unpublished value of the key. It takes all other keys for cold. Operations find out where the
//! key is:
//! - A reader of a record finds the key marked. It READs the block. If the key is not there, the reader READs
//!   the record again, and takes its newest version despite the mark. The record then has every write that
//!   ended before the block was READ.
//! - A reader of a block finds another key in the entry. It reads the record, and takes its newest version
//!   despite a mark.
//! - A writer draws a void version. It READs the block. If the key is there, the write becomes a write of a
//!   hot key. Otherwise the writer waits for another mover, as in step 3 of a move. If the key is no longer
//!   marked then, the writer draws again. If the wait reaches its longest time, the writer moves the key
//!   itself.
//! - A front-end that publishes a block finds another key in the entry of its pending value. It publishes the
//!   other values, and then writes this value as a write of a cold key. If the drawn version is void, the
//!   previous rule applies.
//!
//! # Assumptions about moves
//! - As for the WRITEs of a cold key, `drift` bounds the delay of the WRITEs of step 11.
//! - The count has the number of moves modulo 4096. So a key must not move 4096 times between two looks of a
//!   front-end at the key's count.
//!
//! # Sockets
//! All atomics on a word have to go through one NIC, because the atomics of two NICs are not atomic to each
//! other (IBV_ATOMIC_HCA). A front-end reaches an area by one of three paths:
//! - `direct`: the front-end has a QP to the NIC of each socket of each back-end.
//! - `home`: the front-end has a QP to one port of each back-end. This is for machines with one NIC.
//! - `proxy` (the paper's): the front-end has one QP to each back-end, to the socket with the number of the
//!   front-end's own socket. Proxies post its lists for other sockets.
//!
//! A proxy is a front-end of the same machine at another socket. The asking front-end hands a list to the
//! proxy by a queue in shared memory ([`Neighbours`]). The proxy posts the list, and the proxy's NIC reads
//! and writes the scratch memory of the asking front-end. If the machine has no front-end at a socket, the
//! asking front-end has a QP of its own to that socket.
//!
//! Besides its own work, every front-end serves as proxy. It does so until all front-ends of its machine are
//! done, or until one second after its interval has ended. A proxy that fails reports its error to the
//! front-ends that ask it, and they end with this error. A proxy that hangs answers nothing.
//!
//! # Guarantees
//! - No read returns a value that was never written, or part of a value.
//! - A front-end reads its own writes.
//! - Versions of a key never go back for a reader, even if the key moves. Cold keys are linearizable.
//! - Every read that begins after a cold write has ended sees that write.
//! - Reads see a hot write once it is published. If the front-end that wrote it runs, this takes at most
//!   `time_out` and the time of one publication.
//! - After a quiet end each key has the acknowledged write with the highest version. An end is quiet when all
//!   front-ends have published everything. [`FrontEnd::run`] publishes everything before it returns, if its
//!   work is over.
//!
//! # After a crash of a front-end
//! - *Hot writes.* Its acknowledged and unpublished hot writes are lost.
//! - *A publication in flight* happens as a whole or not at all. Another front-end can take the lock over
//!   after `table_lease` + `drift`.
//! - *A cold write in flight* happens or not. A drawn version n that was not written stays missing. It delays
//!   the writer of version n + V by `table_lease` + `drift`. After that write, it delays nothing.
//! - *A move of k in flight* happens or not. If the front-end exits before step 12, k may stay marked. If it
//!   exits between steps 12 and 13, j stays marked. If a key is marked, but is not in its block, the key's
//!   newest version is in its record. The next write of this key, or a move, brings the key into its block.
//! - *QPs.* A back-end keeps its end of the connection of a front-end that has exited. A front-end that
//!   starts later has an identity and copies of its own.
//!
//! # After a crash of a back-end
//! - Everything in its memory is lost.
//! - Each front-end that accesses the back-end ends with an error once its NIC has given up. With the default
//!   [`doorbell_verbs::ConnectAttr`], the specification lets a NIC give up after 7 times 67 ms of silence. A
//!   NIC may take up to four times as long.
//! - A front-end that is not yet connected to the back-end waits for it without end.

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
