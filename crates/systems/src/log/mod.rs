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
//! 2. It posts one list with one doorbell: WRITEs of the records, from where they lie in its table, then a
//!    WRITE of the n marks. The NIC gathers as many records in a WRITE as a work request has SGEs (32 records
//!    at 30 SGEs are two WRITEs). If the slots end in between, records and marks are in two runs each, and
//!    all marks follow all records. RC places WRITEs in the order of posts, so no mark is there before its
//!    record.
//! 3. The append is **acknowledged** when the last of these WRITEs has completed.
//!
//! Several appends may be in flight. Positions are reserved in the order of appends, and records are posted
//! in that order. So an engine marks its positions in ascending order. By RPC one question is outstanding at
//! a time. Otherwise the answer to a question that was lost and asked again might be older than the answer to
//! the next one.
//!
//! An engine's **word** is 0 while the engine has no position that is reserved and unmarked
//! ([`Appender::rest`]). Else the word is one more than a position, and all positions of the engine below
//! that position are marked. The WRITE of the word goes before the first fetch-and-add after a rest, in one
//! list. By RPC the question goes another way, so the WRITE has to complete before the first question. The
//! word is also WRITTEN while the engine waits for room.
//!
//! The **warden** ([`Warden`]), a thread of the log machine, goes over the marks in order and writes the
//! head. The head is the number of positions that the warden has passed. If a reader of its machine reports
//! how far it has read, the head does not go beyond that. Only the warden writes void marks, except for
//! refused appends (see Full).
//!
//! # Reading
//! A [`LogReader`] takes positions in order. It stops at a **hole**: a position that is reserved, and whose
//! mark is not of its lap. So it sees a record only after the record's mark, and sees the whole record. It
//! passes void positions.
//!
//! A reader on the log machine is never overtaken: the head does not pass it. A reader on another machine may
//! be overtaken, because nobody waits for it. It READs marks, then records, then head and tail, one after the
//! other. An engine overwrites a position only after it has reserved the position one lap later and has seen
//! the head beyond the first position. The record of a position is right if head or tail says that this has
//! not happened. Otherwise the reader goes on at the first position that was not overwritten, and counts the
//! positions that it missed.
//!
//! # Words
//! The log relies on devices that READ and WRITE an aligned word of 8 bytes whole. No specification promises
//! that. HCAs do it, because a word is in one line of the PCIe link. The kernel's Soft-RoCE copies by the
//! processor, and an emulated processor may copy byte by byte. Head, tail and the engines' words rely on
//! whole words. A torn head may let an engine overwrite records that were not read.
//!
//! Marks do not rely on it, because readers load each of them while engines WRITE it. A torn mark counts as
//! no mark ([`Mark`]). Otherwise a reader might take bytes of the mark of the lap before for the new one:
//! it would return a record under another engine's number, or a void position's old record.
//!
//! No guarantee relies on a time. `patience` only decides which engines are fenced.
//!
//! # Full
//! *Wrap*: an engine with positions beyond head + slots waits, and READs the head now and then. After its
//! patience it ends with an error.
//!
//! *Refuse*: positions beyond slots are not part of the log. An append with such a position is refused as a
//! whole. It marks its other positions void. The tail may overshoot; the head stays.
//!
//! # After a crash
//! An engine that dies between its reservation and its marks leaves a hole. The log does not say which engine
//! owns the hole. When the warden has seen one hole for `patience`, it determines the possible owners. An
//! engine is one if its word is not 0 and names no position behind the hole, and if it has no mark behind the
//! hole. The warden **fences** these engines: it destroys its ends of their QPs. Only then does it look at
//! the hole again, and marks it void if it is still one. If all possible owners are already fenced, the
//! warden does not wait for `patience`.
//!
//! *A WRITE that arrives later* is refused by the NIC of the log machine, because its QP is gone. WRITEs that
//! the NIC had accepted before are in memory when the QP is destroyed: on the PCIe link they precede the
//! completion of that command. So the second look sees them. A fenced engine that lives and was only slow
//! finds that its retries are not answered, or that its peer has left, and ends with that error. It never had
//! an acknowledgement of a voided record. An engine that is not at rest and does nothing may be fenced, too,
//! so an engine that stops appending must rest.
//!
//! *The hole's owner is among the possible owners.* It reserved the hole after its word was there (same QP,
//! or completed), and the warden saw the tail behind the hole before it looked at the words. The word goes
//! back to 0, or behind the hole, only by a WRITE that is placed after the hole's mark. A mark of the engine
//! behind the hole is placed after the hole's mark, too. In each of these cases the second look finds the
//! mark.
//!
//! *No acknowledged record is void.* Acknowledged marks have been accepted by the log machine's NIC, so they
//! are placed when the QP has been destroyed. An engine that is not fenced does not own the hole, or has
//! marked it by then.
//!
//! # Guarantees
//! - All records have one order, by position: all readers see one record at one position. An append that
//!   began after another append was acknowledged is behind that append.
//! - The records of an acknowledged append are there, whole, once, at consecutive positions, and are never
//!   void.
//! - No reader sees a record that is torn or was never written.
//! - Each record that a killed engine had appended without an acknowledgement is either there or void.
//!   Readers pass it after about `patience`.
//! - The records of a refused append are not there.
//! - A reader of another machine that dies leaves nothing behind: nobody waits for it.
//! - If the log machine dies, each connected engine and reader ends with an error once its NIC has given up.
//!   With the usual values of [`doorbell_verbs::ConnectAttr`] a NIC gives up after 7 times 67 ms of silence
//!   by the specification. NICs may take up to four times as long. If only the warden is dead, an engine that
//!   waits for room ends after its patience.
//!
//! # Limits
//! There is no copy: the records are lost with the log machine. Engines are known from the start. An engine
//! that was fenced, or that comes later, needs a number of its own. Laps are counted to 2^38.
//!
//! # Sockets
//! An engine's table may be at another socket than the NIC. The paper then copies and merges the records into
//! a buffer at the NIC's socket, from where one WRITE sends them ([`Log::merge`]).

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
