//! A log that engines append to, one-sided (CLUSTER'21, IV-E): an append-only, totally ordered sequence of records in the memory of one
//! machine, the log machine. The paper says how positions are reserved and records written; the rest of the protocol is this page's.
//!
//! # Layout
//! One region of the log machine ([`Layout`]): the **tail**, a word that counts reserved positions; the **head**, a word that counts those that
//! have been read; a **word** for each engine; a **mark** of 8 bytes for each slot; the slots, each of which holds a record. Words have lines of their
//! own. Position p is in slot p modulo slots, on lap p / slots; its mark ([`Mark`]) names the lap, the engine, and whether the record is there or the
//! position is void. A mark of another lap is none.
//!
//! # Who writes what when
//! An **engine** ([`Appender`]) appends n records by
//! 1. a fetch-and-add of n on the tail, which gives it n positions that follow each other ([`Reserve::FetchAdd`]; with [`Reserve::Rpc`] a thread of the log
//!    machine counts the tail up);
//! 2. one list with one doorbell: WRITEs of the records, from where they lie in its table, then a WRITE of the n marks. The NIC gathers as many records in
//!    a WRITE as a work request has SGEs (32 records at 30 SGEs are two WRITEs); where the slots end in between, all is in two runs, marks behind both.
//!    RC places WRITEs in the order of posts, so no mark is there before its record.
//! 3. The append is **acknowledged** when the last of these WRITEs has completed.
//!
//! Several appends may be under way. Positions come in the order of appends, and records are posted in that order: an engine marks its positions in
//! ascending order. (By RPC one question is under way at a time: a reply that is lost, and asked for again, might else be older than the next.)
//!
//! An engine's **word** is 0 while nothing of its own is reserved and unmarked ([`Appender::rest`]); else it is one more than a position below which none
//! is. It is WRITTEN in the same list before the first fetch-and-add after a rest (before the first question by RPC, which goes another way, it has
//! completed), and again while the engine waits for room.
//!
//! The **warden** ([`Warden`]), a thread of the log machine, goes over marks in order and writes the head: what it has passed, or, if a reader of its machine
//! says how far it is, what that has read. It is the only one to write void marks, but for who is refused (below).
//!
//! # What a reader may see
//! A [`LogReader`] takes positions in order, and stops at a position whose mark is not of its lap: a **hole**, reserved, and not marked. So it sees a
//! record only after its mark, and all of it. It passes void positions.
//!
//! The log machine's own reader is never overtaken: the head does not pass it. Who READs from another machine may be: nobody waits for it. It READs
//! marks, then records, then head and tail, one after the other; a position is overwritten only by who has reserved the one a lap later and has seen the head beyond the first. Where neither
//! can have been, what it READ is right; else it goes on at the first position of which that holds, and counts what it missed.
//!
//! # Full
//! *Wrap*: who has positions beyond head + slots waits, and READs the head now and then; after its patience it ends with an error. *Refuse*:
//! positions beyond slots are not part of the log. An append that has one is refused as a whole; those of its positions that are part of the log it marks
//! void. The tail may overshoot; the head stays.
//!
//! # What a crash leaves
//! An engine that dies between its reservation and its marks leaves a hole. Nothing in the log says whose it is. When the warden has seen the same hole
//! for `patience`, it takes as possible owners all engines whose word is not 0 and not from behind the hole on, and which have no mark
//! behind the hole. It **fences** those: it destroys its ends of their QPs. Only then it looks at the hole again, and marks it void if it is one still. Of a hole that may only be of engines that are fenced, no patience is needed.
//!
//! *Who refuses a WRITE that comes later?* The log machine's NIC: there is no such QP any more. What it had accepted before is in memory when the QP is destroyed
//! (on the PCIe link it is before the completion of that command), and is seen by the second look. An engine that lives and was only slow meets retries that nobody answers, or its peer's end as an error, and
//! ends with that; it never had an acknowledgement of what was voided. An engine that is not at rest and does nothing may be fenced, too: who stops appending, rests.
//!
//! *Why the hole's owner is among them.* It reserved it after its word was there (same QP, or completed), and the warden saw the tail behind the hole
//! before it looks at words. The word goes back to 0, or from behind the hole on, only by a WRITE that is placed after the hole's mark, and a mark of its own behind the hole is
//! placed after it, too: in each of these cases the second look finds the mark. *Why nothing acknowledged is void.* Acknowledged marks have been accepted by the log machine's
//! NIC; so they are placed when the QP has been destroyed, and whoever is not fenced does not own the hole, or has marked it by then.
//!
//! # What is promised
//! - All records are in one order, by position: all readers see the same at the same position, and an append that began after another was acknowledged is behind it.
//! - The records of an acknowledged append are there, whole, once, at positions that follow each other, and are never void.
//! - No reader sees a record that is torn or was never written.
//! - What a killed engine had appended without an acknowledgement is, per record, there whole or void; readers pass it after about `patience`.
//! - A refused append is not there.
//! - A reader of another machine that dies leaves nothing behind: nobody waits for it.
//! - If the log machine dies, each engine and reader that is connected ends with an error once its NIC has given up: by [`doorbell_verbs::ConnectAttr`]'s usual values after 7 times 67 ms of
//!   silence by the specification, of which NICs may make four times as much. Who waits for room ends after its patience where only the warden is dead.
//!
//! # What is not
//! There is no copy: what the log machine held is gone with it. Engines are known from the start; one that was fenced, or that comes later, needs a number of its own.
//! Laps are counted to 2^39.
//!
//! # Sockets
//! Where an engine's table is at another socket than the NIC, the paper has its records copied and merged into a buffer at the NIC's socket, and written from there
//! by one WRITE ([`Log::merge`]).

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
