//! A log that engines append to by one-sided verbs (CLUSTER'21, IV-E). The log is an append-only, totally
//! ordered sequence of records in the memory of one machine, the log machine. The paper says how positions
//! are reserved and records are written. The rest of the protocol is defined here.
//!
//! # Layout
//! The log machine has one region ([`Layout`]):
//!
//! | part | size | content |
//! |---|---|---|
//! | **tail** | a word | the number of reserved positions |
//! | **head** | a word | the number of positions that have been read |
//! | **words** | a word for each engine | a bound of the engine's unmarked positions, see below |
//! | **marks** | 8 bytes for each slot | lap, engine, and whether the record is there or the position is void |
//! | **slots** | a record each | the records |
//!
//! Head, tail and the engines' words have lines of their own. Position p is in slot p modulo slots, on lap p
//! / slots. A mark ([`Mark`]) counts only for the lap that it names.
//!
//! # Appending
//! An **engine** ([`Appender`]) appends n records in three steps:
//! 1. It reserves n consecutive positions by a fetch-and-add of n on the tail ([`Reserve::FetchAdd`]). With
//!    [`Reserve::Rpc`] a thread of the log machine adds n to the tail.
//! 2. It posts one list with one doorbell: WRITEs of the records from its table, then a WRITE of the n marks.
//!    A WRITE gathers as many records as a work request has SGEs (with 30 SGEs, 32 records are two WRITEs).
//!    If the positions go beyond the last slot, records and marks are in two runs each, and all marks follow
//!    all records. RC places WRITEs in the order of posts, so no mark is there before its record.
//! 3. The append is **acknowledged** when the last of these WRITEs has completed.
//!
//! Several appends may be in flight. Positions are reserved in the order of appends, and records are posted
//! in that order. So an engine marks its positions in ascending order. By RPC one question is outstanding at
//! a time. With two outstanding questions, the first might be lost and asked again, and then get the later
//! positions.
//!
//! An engine's **word** is 0 while the engine rests: it has no position that is reserved and unmarked
//! ([`Appender::rest`]). Otherwise the word is one more than a position, and all positions of the engine
//! below that position are marked. After a rest, the engine WRITEs the word before its first fetch-and-add,
//! in one list. With RPC the WRITE has to complete before the first question, because the question goes by
//! another QP. The word is also WRITTEN while the engine waits for room.
//!
//! The **warden** ([`Warden`]) is a thread of the log machine. It passes the marked positions in order and
//! writes the head. The head is the number of positions that the warden has passed. If there is a reader on
//! the log machine, the head is at most the number of positions that this reader has read. Only the warden
//! writes void marks, except for refused appends (see Full).
//!
//! # Reading
//! A [`LogReader`] reads positions in order. It stops at a **hole**: a reserved position without a mark of
//! its lap. So it sees a record only after the record's mark, and sees the whole record. It skips void
//! positions.
//!
//! A reader on the log machine is never overtaken, because the head does not pass it. A reader on another
//! machine may be overtaken, because engines do not wait for it. It READs marks, then records, then head and
//! tail, one after the other. An engine overwrites a position only after it has reserved the position one lap
//! later and has seen the head beyond the overwritten position. So a record was READ correctly if head or
//! tail show that one of these two has not happened. Otherwise the reader continues at the first position
//! that was not overwritten, and counts the positions that it missed.
//!
//! # Full
//! *Wrap*: an engine with positions beyond head + slots waits, and READs the head repeatedly. After its
//! patience it ends with an error.
//!
//! *Refuse*: positions beyond slots are not part of the log. An append with such a position is refused as a
//! whole. The engine marks the append's other positions void. The tail may exceed the number of slots, and
//! the head stays 0.
//!
//! # After a crash
//! An engine that dies between its reservation and its marks leaves a hole. The log does not say which engine
//! owns the hole. When the warden has seen one hole for `patience`, it determines the possible owners. An
//! engine is a possible owner if its word is not 0 and names no position after the hole, and if the engine
//! has no mark after the hole. The warden **fences** these engines: it destroys the log machine's ends of
//! their QPs. Then it reads the hole's mark again, and marks the hole void if it is still a hole. If all
//! possible owners are already fenced, the warden does not wait for `patience`.
//!
//! *A WRITE that arrives later* is refused by the NIC of the log machine, because its QP is gone. WRITEs that
//! the NIC had accepted before are in memory when the QP is destroyed: on the PCIe link they precede the
//! completion of the destroy command. So the second look at the hole sees them. A fenced engine may be alive,
//! and only slow. Its retries are not answered, or it finds that its peer has left, and it ends with this
//! error. It never got an acknowledgement of a voided record. An idle engine that is not at rest may be
//! fenced, too. So an engine that stops appending must rest.
//!
//! *The hole's owner is among the possible owners.* The owner reserved the hole after its word was in place
//! (by the same QP, or completed). The warden read the words after it had seen the tail beyond the hole. The
//! word becomes 0 again, or names a position after the hole, only by a WRITE that is placed after the hole's
//! mark. A mark of the engine at a position after the hole is also placed after the hole's mark. In each of
//! these cases the second look finds the hole's mark.
//!
//! *No acknowledged record is void.* The log machine's NIC has accepted every acknowledged mark, so the mark
//! is placed when the QP has been destroyed. An engine that is not fenced does not own the hole, or has
//! marked it before the second look.
//!
//! # Guarantees
//! - All records have one order, by position: all readers see one record at one position. An append that
//!   began after another append was acknowledged has later positions.
//! - Each record of an acknowledged append is in the log whole and once. The positions are consecutive, and
//!   are never void.
//! - No reader sees a record that is torn or was never written.
//! - Each record that a killed engine had appended without an acknowledgement is either there or void.
//!   Readers pass it after about `patience`.
//! - The records of a refused append are not in the log.
//! - No engine and no warden waits for a reader on another machine, so its death has no effect.
//! - If the log machine dies, each connected engine and reader ends with an error once its NIC has given up.
//!   With the default [`doorbell_verbs::ConnectAttr`], the specification lets a NIC give up after 7 times 67
//!   ms of silence. A NIC may take up to four times as long. If only the warden is dead, an engine that waits
//!   for room ends after its patience.
//!
//! # Limits
//! The log is not replicated: the records are lost with the log machine. The number of engines is fixed from
//! the start. An engine that replaces a fenced one, or comes later, needs an unused number. Laps are counted
//! to 2^39.
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
