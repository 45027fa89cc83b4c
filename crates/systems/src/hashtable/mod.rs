//! A hashtable in the memory of other machines, accessed by one-sided verbs (CLUSTER'21, IV-B, Figures 11 to
//! 13).
//!
//! The paper draws the architecture and lists the steps of a write. Our additions are marked (ours). This
//! page has the terms, an overview and the guarantees. Each file begins with the rules that it implements.
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
//! | whole | an entry is whole if its check is right; a version is whole if its entry is whole |
//! | record | the memory of one key for its last V versions (`versions`); every key has a record |
//! | slot | a record has V slots, each for one entry; the entry of version n belongs in slot n modulo V |
//! | `done` word | each slot has a `done` word, which names the version that was written to the slot last |
//! | done | a version is done when its entry and the slot's `done` word are written |
//! | block | memory for 2^t entries (`block_log2` is t); each entry has the number of its key stored before it |
//! | copy | a place for the content of a block; each block has two copies per front-end, and an initial one |
//! | word, token | each block has a lock, and the lock has a word; the word names the holder and one of the copies, and its token counts acquisitions |
//! | current copy | the copy that the word names |
//! | known word | the word of a lock as the front-end last saw it or wrote it |
//! | publication | a front-end puts values from its cache into a block, and WRITEs the block to the back-end |
//! | pending | a write is pending from when its value is in the cache until a publication takes the value |
//! | cold key | a key with its value in its record |
//! | hot key | a key with its published value in an entry of a block; it keeps its record |
//! | move | makes a cold key hot: the key gets an entry of a block, and the key that had this entry becomes cold |
//! | mark | a front-end marks a key before it moves the key into a block; a hot key stays marked |
//! | draw | reserve the next version of a key |
//! | count | a 64-bit integer of the record. Its parts are the version that was drawn last, the number of marks on the key, and the number of moves of the key. A fetch-and-add on the count draws a version or sets a mark |
//! | head | the count and the `done` words of a record |
//! | missing | a version is missing if it is drawn, but not done |
//! | void | a version that was drawn while the key was marked is void: no front-end writes it |
//!
//! # Overview
//!
//! | | cold key | hot key |
//! |---|---|---|
//! | writers exclude each other by | versions and time | the lock of the block |
//! | a write goes | to the back-end at once | to the front-end's cache at once, to the back-end by a later publication |
//! | a write is acknowledged | when its WRITEs have completed | when it is in the cache, not yet published |
//! | a read takes | the newest version of the record | the front-end's own unpublished value, else the block's |
//!
//! Keys are the integers from 0 to `pairs` - 1 in the order of frequency: key 0 is the most frequent. At
//! first the most frequent keys, a share `hot` of all keys, are hot. (In the paper, the warm-up selects the
//! hot keys.) Consecutive keys have their records in consecutive areas. Consecutive blocks are in consecutive
//! areas, too.
//!
//! With H entries in all blocks together, key k belongs to entry k modulo H. Entry e is in block e modulo the
//! number of blocks. Many keys share an entry, but at any time the entry has one of them.
//!
//! | file | rules |
//! |---|---|
//! | `cold.rs` | writes and reads of cold keys, and the assumptions that they need |
//! | `claim.rs` | when the writer of a cold version may write it ([`SlotClaim`]) |
//! | `cache.rs` | writes of hot keys, and when a block is published |
//! | `hot.rs` | publications of blocks, and reads of hot keys |
//! | `asking.rs` | the wait for the lock of a block |
//! | `moves.rs` | moves ([`TableOp::Move`]), operations on keys that have moved, and the assumptions about moves |
//! | `exchange.rs` | the steps of a move under the lock |
//! | `io.rs`, `neighbours.rs` | the paths to an area, and proxies ([`Neighbours`]) |
//!
//! # Guarantees
//! - No read returns a value that was never written, or part of a value.
//! - A front-end reads its own writes.
//! - Versions of a key never go back for a reader, even if the key moves. Cold keys are linearizable.
//! - Every read that begins after a cold write has ended sees that write.
//! - Reads see a hot write once it is published. If the front-end that wrote it keeps running, the block is
//!   due for publication at most `time_out` after the write. `cache.rs` lists what a due block waits for.
//! - [`FrontEnd::run`] returns after all writes of the front-end are published, unless its interval ends
//!   first. Once all front-ends have published everything, each key has the acknowledged write with the
//!   highest version.
//!
//! # After a crash of a front-end
//! - *Hot writes.* Its acknowledged and unpublished hot writes are lost.
//! - *A publication in flight* happens as a whole or not at all. Another front-end can take the lock over
//!   after `table_lease` + `drift`.
//! - *A cold write in flight* happens or not. A drawn version n that was not written stays missing. It delays
//!   the writer of version n + V by `table_lease` + `drift`. After that write, it delays nothing.
//! - *A move in flight* happens or not. It moves key k into its entry of a block, and key j out of this
//!   entry. If the front-end exits before the block has k, k may stay marked. If it exits later, and before
//!   it has removed the marks of j, j stays marked. If a key is marked, but is not in its block, the key's
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
