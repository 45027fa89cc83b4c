//! A log that engines append to by one-sided verbs (CLUSTER'21, IV-E). The paper says how positions are
//! reserved and records are written. The rest of the protocol is defined here.
//!
//! # Terms
//! A term uses only terms from rows above it.
//!
//! | term | meaning |
//! |---|---|
//! | log | an append-only, totally ordered sequence of records |
//! | log machine | the machine with the log in its memory |
//! | engine | an [`Appender`], which appends records to the log by its own QP |
//! | position | the number of a record in the log, from 0 |
//! | reserved | a position is reserved when an engine has got it for a record |
//! | slot, lap | the log has memory for a fixed number of records: position p is in slot p modulo slots, on lap p / slots |
//! | void | no record will ever be at a void position, so readers skip it |
//! | mark | each slot has a mark ([`Mark`]), which shows that the record is there, or that the position is void; a mark counts only for the lap that it names |
//! | hole | a reserved position without a mark |
//! | tail | a word: the number of reserved positions |
//! | warden | a thread of the log machine that passes marked positions in order ([`Warden`]); it also connects engines and closes holes |
//! | head | a word: the number of positions that the warden has passed, see Head |
//! | word of an engine | a bound of the engine's unmarked positions, see Appending |
//! | rest | an engine rests if none of its reserved positions is unmarked, and it has reported this ([`Appender::rest`]) |
//! | fence | the warden fences an engine by destroying the log machine's end of the engine's QP |
//!
//! # Layout
//! The log machine has one region ([`Layout`]):
//!
//! | part | size |
//! |---|---|
//! | tail | a word, in a cache line of its own |
//! | head | a word, in a cache line of its own |
//! | words | a word for each engine, in a cache line of its own |
//! | marks | 8 bytes for each slot |
//! | slots | a record each |
//!
//! # Appending
//! To append n records, an engine
//! 1. WRITEs its word if it has rested since its last append;
//! 2. reserves n consecutive positions by a fetch-and-add of n on the tail ([`Reserve::FetchAdd`]). With
//!    [`Reserve::Rpc`], it asks a thread of the log machine, which adds n to the tail;
//! 3. waits for room if the positions go beyond head + slots, see Full;
//! 4. WRITEs the n records, and then the n marks, in one list with one doorbell. RC places WRITEs in the
//!    order of posts, so no mark is there before its record;
//! 5. reports the append as **acknowledged** when the last of these WRITEs has completed.
//!
//! *Lists.* A WRITE gathers as many records as a work request has SGEs (with 30 SGEs, 32 records are two
//! WRITEs). If the positions go beyond the last slot, records and marks are in two runs each. All marks
//! follow all records.
//!
//! *Order.* Several appends may be in flight. Positions are reserved in the order of appends, and records are
//! posted in this order. So an engine marks its positions in ascending order. By RPC one question is
//! outstanding at a time. With two outstanding questions, the first might be lost and asked again. It would
//! then get the later positions.
//!
//! *The word of an engine* is 0 while the engine rests. Otherwise the word is one more than a position, and
//! all positions of the engine below that position are marked. The engine WRITEs its word
//! - in step 1. A fetch-and-add follows in the same list. A question goes by another QP, so the engine asks
//!   only after the WRITE has completed;
//! - while it waits for room, with each READ of the head;
//! - when it begins to rest.
//!
//! # Head
//! The warden passes marked positions in order, and writes the head. If there is a reader on the log machine,
//! the head is at most the number of positions that this reader has read. Only the warden writes void marks,
//! except for refused appends (see Full).
//!
//! # Reading
//! A [`LogReader`] reads positions in order, and stops at a hole. So it sees a record only after the record's
//! mark, and sees the whole record. It skips void positions.
//!
//! A reader on the log machine is never overtaken, because the head does not pass it. A reader on another
//! machine may be overtaken, because engines do not wait for it. To read, it
//! 1. READs marks, and waits for their completion;
//! 2. READs the marked records up to the first hole, and waits for their completion;
//! 3. READs head and tail;
//! 4. checks whether an engine may have overwritten a record. An engine overwrites a position only after two
//!    events: it has reserved the position one lap later, and has seen the head beyond the overwritten
//!    position. Tail and head show whether each event has happened. A record was READ correctly if one of the
//!    events has not happened;
//! 5. if a record may be overwritten, continues at the first position that was not overwritten. It counts the
//!    positions that it missed.
//!
//! # Words
//! The log relies on devices that READ and WRITE an aligned word of 8 bytes whole. No specification promises
//! that. HCAs do it, because a word is in one line of the PCIe link. The kernel's Soft-RoCE copies by the
//! processor, and an emulated processor may copy byte by byte. Head, tail and the words of engines rely on
//! whole words. A torn head may let an engine overwrite records that were not read.
//!
//! Marks do not rely on whole words, because readers load each mark while an engine WRITEs it. A torn mark
//! counts as no mark ([`Mark`]). Otherwise a reader might take bytes of the mark of the lap before for the
//! new mark. It would then return a record under another engine's number, or the old record of a void
//! position.
//!
//! No guarantee relies on a time. [`Warden::patience`] only decides which engines are fenced.
//!
//! # Full
//! *Wrap* ([`Full::Wrap`]). An engine with positions beyond head + slots waits for room.
//! - The wait begins when the engine would post the append.
//! - It ends when a READ of the head shows that the append's positions are below head + slots. The engine
//!   READs the head every 5 us.
//! - It takes at most [`Terms::patience`]. After this time the engine ends with an error.
//!
//! *Refuse* ([`Full::Refuse`]). Positions beyond slots are not part of the log. An append with such a
//! position is refused as a whole. The engine marks the append's other positions void. The tail may exceed
//! the number of slots, and the head stays 0.
//!
//! # After a crash
//! An engine that dies between its reservation and its marks leaves a hole. The log does not say which engine
//! owns the hole. An engine is a *possible owner* of the hole if three conditions hold:
//! - its word is not 0;
//! - its word names no position after the hole;
//! - the engine has no mark after the hole.
//!
//! The warden
//! 1. finds a hole at the first position that it has not passed;
//! 2. reads the words of all engines, and determines the possible owners. It uses the marks that it has seen
//!    before;
//! 3. goes to step 7 if all possible owners are fenced already;
//! 4. waits. The wait begins when the warden first sees the hole. It ends when the hole is marked, or when
//!    the words show that no possible owner is left that is not fenced. It takes at most
//!    [`Warden::patience`];
//! 5. reads all marks after the hole;
//! 6. determines the possible owners again, and fences them;
//! 7. reads the hole's mark again;
//! 8. marks the hole void if it is still a hole.
//!
//! *A WRITE that arrives later* is refused by the NIC of the log machine, because its QP is gone. WRITEs that
//! the NIC had accepted before are in memory when the QP is destroyed: on the PCIe link they precede the
//! completion of the destroy command. So step 7 sees them. A fenced engine may be alive, and only slow. Its
//! retries are not answered, or it finds that its peer has left. It ends with this error. It never got an
//! acknowledgement of a voided record. An idle engine that does not rest may be fenced, too. So an engine
//! that stops appending must rest.
//!
//! *The hole's owner is among the possible owners.* The owner reserved the hole after its word was in place
//! (by the same QP, or completed). The warden read the words after it had seen the tail beyond the hole.
//! Three WRITEs could exclude the owner: a word of 0, a word that names a position after the hole, and a mark
//! at a position after the hole. Each of them is placed after the hole's mark. So step 7 finds the hole's
//! mark.
//!
//! *No acknowledged record is void.* The log machine's NIC has accepted every acknowledged mark, so the mark
//! is placed when the QP has been destroyed. An engine that is not fenced does not own the hole, or has
//! marked it before step 7.
//!
//! # Guarantees
//! - All records have one order, by position: all readers see one record at one position. An append that
//!   began after another append was acknowledged has later positions.
//! - Each record of an acknowledged append is in the log whole and once. The positions are consecutive, and
//!   are never void.
//! - No reader sees a record that is torn or was never written.
//! - Each record that a killed engine had appended without an acknowledgement is either there or void.
//!   Readers pass it after about [`Warden::patience`].
//! - The records of a refused append are not in the log.
//! - No engine and no warden waits for a reader on another machine, so the death of this reader has no
//!   effect.
//! - If the log machine dies, each connected engine and reader ends with an error once its NIC has given up.
//!   With the default [`doorbell_verbs::ConnectAttr`], the specification lets a NIC give up after 7 times 67
//!   ms of silence. A NIC may take up to four times as long.
//! - If only the warden is dead, an engine that waits for room ends after its patience.
//!
//! # Limits
//! - The log is not replicated: the records are lost with the log machine.
//! - The number of engines is fixed from the start. An engine that replaces a fenced one, or comes later,
//!   needs an unused number.
//! - Laps are counted to 2^38.
//!
//! # Sockets
//! An engine's table may be at another socket than the NIC. The paper's engine then copies the records into
//! one buffer at the NIC's socket, and sends them by one WRITE ([`Log::merge`]).

mod appender;
mod config;
mod deployment;
mod engine;
mod layout;
mod mark;
mod reader;
mod reserver;
mod warden;

pub use appender::{AppendOutcome, Appender, Polled, Terms};
pub use config::{At, Full, Log, Reserve};
pub use deployment::{LogMachine, LogMemory};
pub use engine::LogEngine;
pub use layout::{Layout, SERVICE};
pub use mark::{ENGINES, Mark, MarkKind};
pub use reader::{LogReader, Record};
pub use reserver::{PositionAsker, Reserver};
pub use warden::Warden;
