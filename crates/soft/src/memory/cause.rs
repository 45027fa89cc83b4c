//! The cause of a refused or unanswered work request: the check that failed, and the values that the check
//! found.
//!
//! This module decides nothing. The checks of `doorbell_transport` refuse requests, and `engine/diagnosis.rs`
//! finds the cause afterwards. The cause becomes a line of text for the user. If a responder's QP fails, the
//! requester also records the cause in the segment of the responder's process, which can then print it.

use super::records::CauseRecord;
use super::window::domain_text;
use crate::identity::elsewhere;
use crate::wr_opcode::WrOpcode;
use doorbell_abi::{CEnum, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND};
use doorbell_launch::counts::drops::DropCause;
use doorbell_transport::KeyError;
use doorbell_verbs::{AccessFlags, QpState, QpType};
use std::fmt::{self, Display, Formatter};
use std::net::Ipv6Addr;
use std::sync::atomic::{Ordering::*, fence};

/// The memory that a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// The requester's memory: an lkey of the work request.
    Local,
    /// The responder's memory: an rkey.
    Remote,
    /// The responder's memory: an lkey of its RECV.
    Recv,
}

/// The check that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// All checks succeed by now, or the failed check cannot be determined.
    Changed,
    /// The check of a key. For a wrong protection domain, `found` is the region's domain and `other` is the
    /// QP's. For bytes outside the region, `found` is the region's first address and `other` is its length.
    /// For missing rights, `found` has these rights.
    Key(Memory, KeyError),
    /// The rkey `found` names no memory window that the QP has bound.
    NotBound,
    /// No SRQ of the QP's XRC domain has the number `found`.
    NoSrq,
    /// The region contains the bytes, but some of them are not mapped, or not for this access.
    NotThere(Memory),
    /// The responder's `qp_access_flags` lack `found`.
    NotEnabled,
    /// The responder's `max_dest_rd_atomic` is 0.
    NoResources,
    /// The requester's `max_rd_atomic` is 0.
    NoInitiator,
    /// The address of an atomic is not a multiple of 8.
    Misaligned,
    /// The RECV has room for `found` bytes.
    RecvTooSmall,
    /// The CQ holds `found` completions already.
    CqFull,
    /// No RECV was posted within `found` RNR retries.
    NoRecv,
    /// No port has the LID `found`.
    Lid,
    /// No port has the GID with the halves `found` and `other`.
    Gid,
    /// No process has a QP with this number.
    NoProcess,
    /// The responder's process has exited. `found` is its PID, or 0 if this process cannot use the PID.
    Ended,
    /// The responder's process cannot be reached for a reason that was printed before, or its shared data is
    /// invalid.
    OutOfReach,
    /// The thread of the responder's process that serves peers did not answer a request.
    NoAnswer,
    /// No QP has had this number yet.
    NoQp,
    /// The QP with this number was destroyed.
    Destroyed,
    /// The responder's QP is in state `found`.
    State,
    /// The responder's QP is of type `found`.
    Type,
    /// The responder's QP is connected to QP `found`.
    Dest,
    /// The responder's QP expects PSN `found`, but the requester sends `other`.
    Psn,
    /// The responder's Q_Key is `found`, but the datagram has `other`.
    Qkey,
    /// `--fault drop` lost all `found` transmissions of the message.
    Lost,
    /// `--fault rnr` answered all `found` transmissions of the message as if no RECV were posted.
    Feigned,
    /// `--fault port-down` took the port down.
    PortDown,
    /// `--fault kill-qp` killed the QP.
    Killed,
}

/// The checks without a [`Memory`], in the order of their words in records. The first word is 1, because the
/// word 0 means no check.
const PLAIN: [Check; 27] = [
    Check::Changed,
    Check::NotEnabled,
    Check::NoResources,
    Check::NoInitiator,
    Check::Misaligned,
    Check::RecvTooSmall,
    Check::CqFull,
    Check::NoRecv,
    Check::Lid,
    Check::Gid,
    Check::NoProcess,
    Check::Ended,
    Check::OutOfReach,
    Check::NoAnswer,
    Check::State,
    Check::Type,
    Check::Dest,
    Check::Psn,
    Check::Qkey,
    Check::Lost,
    Check::Feigned,
    Check::PortDown,
    Check::Killed,
    Check::NotBound,
    Check::NoSrq,
    Check::NoQp,
    Check::Destroyed,
];
const MEMORIES: [Memory; 3] = [Memory::Local, Memory::Remote, Memory::Recv];
const KEYS: [KeyError; KEYS_OF_MEMORY as usize] =
    [KeyError::Unknown, KeyError::ProtectionDomain, KeyError::Bounds, KeyError::Rights];
/// Words of [`Check::Key`] for each [`Memory`].
const KEYS_OF_MEMORY: u32 = 4;
/// The first word of a [`Check::Key`], and the first word of a [`Check::NotThere`].
const KEYS_AT: u32 = 32;
const THERE_AT: u32 = 48;

// Each table is the inverse of a `match`, and the words of different kinds of checks do not overlap.
const _: () = {
    let mut at = 0;
    while at < PLAIN.len() {
        assert!(PLAIN[at].to_word() == at as u32 + 1);
        at += 1;
    }
    at = 0;
    while at < MEMORIES.len() {
        assert!(memory_word(MEMORIES[at]) == at as u32);
        at += 1;
    }
    at = 0;
    while at < KEYS.len() {
        assert!(key_error_word(KEYS[at]) == at as u32);
        at += 1;
    }
    assert!(PLAIN.len() < KEYS_AT as usize);
    assert!(KEYS_AT + KEYS_OF_MEMORY * MEMORIES.len() as u32 <= THERE_AT);
};

impl Check {
    /// The word that encodes a check in a record; never 0. Words keep their meaning forever, because
    /// processes may have different builds of the library. A new word also needs an entry in its table.
    const fn to_word(self) -> u32 {
        match self {
            Check::Changed => 1,
            Check::NotEnabled => 2,
            Check::NoResources => 3,
            Check::NoInitiator => 4,
            Check::Misaligned => 5,
            Check::RecvTooSmall => 6,
            Check::CqFull => 7,
            Check::NoRecv => 8,
            Check::Lid => 9,
            Check::Gid => 10,
            Check::NoProcess => 11,
            Check::Ended => 12,
            Check::OutOfReach => 13,
            Check::NoAnswer => 14,
            Check::State => 15,
            Check::Type => 16,
            Check::Dest => 17,
            Check::Psn => 18,
            Check::Qkey => 19,
            Check::Lost => 20,
            Check::Feigned => 21,
            Check::PortDown => 22,
            Check::Killed => 23,
            Check::NotBound => 24,
            Check::NoSrq => 25,
            Check::NoQp => 26,
            Check::Destroyed => 27,
            Check::Key(memory, error) => {
                KEYS_AT + KEYS_OF_MEMORY * memory_word(memory) + key_error_word(error)
            }
            Check::NotThere(memory) => THERE_AT + memory_word(memory),
        }
    }

    /// The check with this word; `None` for word 0 and for unknown words.
    fn from_word(word: u32) -> Option<Check> {
        let memory = |n: u32| MEMORIES.get(n as usize).copied();
        match word {
            0 => None,
            KEYS_AT..THERE_AT => {
                let at = word - KEYS_AT;
                Some(Check::Key(memory(at / KEYS_OF_MEMORY)?, KEYS[(at % KEYS_OF_MEMORY) as usize]))
            }
            THERE_AT.. => memory(word - THERE_AT).map(Check::NotThere),
            plain => PLAIN.get(plain as usize - 1).copied(),
        }
    }
}

/// The part of a check's word that encodes the memory.
const fn memory_word(memory: Memory) -> u32 {
    match memory {
        Memory::Local => 0,
        Memory::Remote => 1,
        Memory::Recv => 2,
    }
}

/// The part of a check's word that encodes the result of the key's check.
const fn key_error_word(error: KeyError) -> u32 {
    match error {
        KeyError::Unknown => 0,
        KeyError::ProtectionDomain => 1,
        KeyError::Bounds => 2,
        KeyError::Rights => 3,
    }
}

/// The cause of a refused or unanswered work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) check: Check,
    /// The key, first address and length in bytes of the access.
    pub(crate) key: u32,
    pub(crate) addr: u64,
    pub(crate) len: u64,
    /// The values that the check found, as [`Check`] documents them.
    pub(crate) found: u64,
    pub(crate) other: u64,
}

impl Cause {
    /// The cause to count if a message of UC or UD is lost because no QP takes it.
    pub(crate) fn drop_cause(&self) -> DropCause {
        match self.check {
            Check::Gid if doorbell_launch::say::broken("d-gid") => DropCause::Unknown,
            Check::Qkey if doorbell_launch::say::broken("d-qkey") => DropCause::Unknown,
            Check::Lid | Check::Gid => DropCause::NoPort,
            Check::NoProcess | Check::Ended | Check::NoQp | Check::Destroyed => DropCause::NoQp,
            Check::State => DropCause::QpState,
            Check::Type => DropCause::QpType,
            Check::Dest => DropCause::NotConnected,
            Check::Qkey => DropCause::QKey,
            Check::OutOfReach | Check::NoAnswer => DropCause::OutOfReach,
            _ => DropCause::Unknown,
        }
    }

    /// A cause that concerns no memory.
    pub(crate) fn of(check: Check, found: u64) -> Cause {
        Cause { check, key: 0, addr: 0, len: 0, found, other: 0 }
    }
}

/// A work request that put a QP of another process into Err, and the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blame {
    /// The requester's QP number and PID. The PID is 0 if other processes cannot use it, because of PID
    /// namespaces.
    pub(crate) from: u32,
    pub(crate) pid: u32,
    /// The claimer number of the requester's process.
    pub(crate) claimer: u32,
    pub(crate) opcode: WrOpcode,
    /// Number of the work request in its send queue, counted from 1.
    pub(crate) number: u64,
    pub(crate) cause: Cause,
}

impl CauseRecord {
    /// Records the cause of a QP's transition to Err.
    pub(crate) fn write(&self, blame: &Blame) {
        let Cause { check, key, addr, len, found, other } = blame.cause;
        // The last store is Release, for the Acquire in `read`: a reader that sees the check sees the other
        // fields. The fences let a reader that sees one of the new fields find another check at its end. If
        // two requesters write at once, the fields may still be mixed. They only appear in a message.
        self.check.store(0, Relaxed);
        fence(Release);
        self.from.store(blame.from, Relaxed);
        self.pid.store(blame.pid, Relaxed);
        self.claimer.store(blame.claimer, Relaxed);
        self.opcode.store(blame.opcode.to_c(), Relaxed);
        self.number.store(blame.number, Relaxed);
        self.key.store(key, Relaxed);
        self.addr.store(addr, Relaxed);
        self.len.store(len, Relaxed);
        self.found.store(found, Relaxed);
        self.other.store(other, Relaxed);
        let word = check.to_word();
        debug_assert_eq!(Check::from_word(word), Some(check), "the table has no entry for word {word}");
        self.check.store(word, Release);
    }

    /// Removes the cause, for a new QP with this record.
    pub(crate) fn clear(&self) {
        self.check.store(0, Release);
    }

    /// The recorded cause, if it is valid.
    pub(crate) fn read(&self) -> Option<Blame> {
        let word = self.check.load(Acquire);
        let check = Check::from_word(word)?;
        let cause = Cause {
            check,
            key: self.key.load(Relaxed),
            addr: self.addr.load(Relaxed),
            len: self.len.load(Relaxed),
            found: self.found.load(Relaxed),
            other: self.other.load(Relaxed),
        };
        let blame = Blame {
            from: self.from.load(Relaxed),
            pid: self.pid.load(Relaxed),
            claimer: self.claimer.load(Relaxed),
            opcode: WrOpcode::from_c(self.opcode.load(Relaxed))?,
            number: self.number.load(Relaxed),
            cause,
        };
        fence(Acquire);
        (self.check.load(Relaxed) == word).then_some(blame)
    }
}

impl Display for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Cause { check, key, addr, len, found, other } = *self;
        match check {
            Check::Changed => {
                f.write_str("the cause is no longer known because something has changed since the failure")
            }
            Check::Key(memory, error) => self.key_text(memory, error, f),
            Check::NotThere(memory) => write!(
                f,
                "the region of {} {key:#x} contains the {len} bytes at {addr:#x}, but some of their memory \
                 is not mapped, or not for this access",
                key_name(memory)
            ),
            Check::NotBound => {
                write!(f, "the responder has bound no memory window of type 2 with rkey {found:#x}")
            }
            Check::NoSrq => write!(f, "no SRQ of the responder's XRC domain has the number {found:#x}"),
            Check::NotEnabled => write!(f, "the responder's qp_access_flags lack {}", rights(found)),
            Check::NoResources => f.write_str("the responder's max_dest_rd_atomic is 0"),
            Check::NoInitiator => f.write_str("the requester's max_rd_atomic is 0"),
            Check::Misaligned => {
                write!(f, "an atomic needs 8 aligned bytes, but the bytes at {addr:#x} are not aligned")
            }
            Check::RecvTooSmall => {
                write!(f, "the RECV has room for {found} bytes, but the message has {len} bytes")
            }
            Check::CqFull => write!(f, "the CQ of the responder's RECVs was full with {found} completions"),
            Check::NoRecv if found == 0 => f.write_str("the responder had no RECV posted"),
            Check::NoRecv => write!(f, "the responder had no RECV posted, even after {found} RNR retries"),
            // No port has LID 0 or GID 0: the program has not set the address.
            Check::Lid if found == 0 => f.write_str("no port has the LID of the path, 0"),
            Check::Gid if (found, other) == (0, 0) => f.write_str("no port has the GID of the path, ::"),
            Check::Lid => {
                let elsewhere = elsewhere(|fabric| u64::from(fabric.lid()) == found);
                write!(f, "no port has the LID of the path, {found:#x}{elsewhere}")
            }
            Check::Gid => {
                let gid = Ipv6Addr::from(u128::from(found) << 64 | u128::from(other));
                let elsewhere = elsewhere(|fabric| fabric.has_gid(gid.octets()));
                write!(f, "no port has the GID of the path, {gid}{elsewhere}")
            }
            Check::NoProcess => f.write_str("no process has a QP with this number"),
            Check::Ended if found == 0 => f.write_str("the responder's process has exited or was killed"),
            Check::Ended => write!(f, "the responder's process {found} has exited or was killed"),
            Check::OutOfReach => f.write_str(
                "the responder's process is unreachable, as an earlier message explains, or \
                 its shared data is invalid",
            ),
            Check::NoAnswer => f.write_str(
                "the thread of the responder's process that serves peers has not answered: the \
                 thread is stopped, or gets no processor",
            ),
            Check::NoQp => f.write_str("no QP of the responder's process has had this number"),
            Check::Destroyed => f.write_str("the responder's QP was destroyed"),
            Check::State => write!(f, "the responder is in state {}", state_name(found)),
            Check::Type => {
                let name = match found as u32 {
                    IBV_QPT_XRC_SEND => "XRC_SEND".into(),
                    IBV_QPT_XRC_RECV => "XRC_RECV".into(),
                    other => QpType::from_c(other).map_or("unknown".into(), |known| known.to_string()),
                };
                write!(f, "the responder is of type {name}")
            }
            Check::Dest => write!(f, "the responder's dest_qp_num is {found:#x}"),
            Check::Psn => {
                write!(f, "the responder's rq_psn is {found:#x}, but the requester's sq_psn is {other:#x}")
            }
            Check::Qkey => {
                write!(f, "the responder's Q_Key is {found:#x}, but the datagram's Q_Key is {other:#x}")
            }
            Check::Lost => write!(f, "--fault drop lost each transmission, {found} in total"),
            Check::Feigned => {
                write!(
                    f,
                    "--fault rnr answered each transmission as if no RECV were posted, {found} in total"
                )
            }
            Check::PortDown => f.write_str("--fault port-down took the port down"),
            Check::Killed => f.write_str("--fault kill-qp killed the QP"),
        }
    }
}

impl Cause {
    fn key_text(&self, memory: Memory, error: KeyError, f: &mut Formatter<'_>) -> fmt::Result {
        let (Cause { key, addr, len, found, other, .. }, name) = (*self, key_name(memory));
        let end = |from: u64, len: u64| u128::from(from) + u128::from(len);
        match error {
            KeyError::Unknown => write!(f, "no region has {name} {key:#x}"),
            KeyError::ProtectionDomain => match domain_text(found) {
                Some(whose) => write!(f, "{name} {key:#x} belongs to a memory window {whose}"),
                None => write!(
                    f,
                    "the region of {name} {key:#x} belongs to protection domain {found}, but the QP belongs \
                     to {other}"
                ),
            },
            KeyError::Bounds => write!(
                f,
                "[{addr:#x}, {:#x}) is not entirely within the region of {name} {key:#x}, which is \
                 [{found:#x}, {:#x})",
                end(addr, len),
                end(found, other)
            ),
            KeyError::Rights => write!(f, "the region of {name} {key:#x} lacks {}", rights(found)),
        }
    }
}

/// The name of a key in messages.
fn key_name(memory: Memory) -> &'static str {
    match memory {
        Memory::Local => "lkey",
        Memory::Remote => "rkey",
        Memory::Recv => "the RECV's lkey",
    }
}

/// Access rights with their names in verbs.h.
fn rights(bits: u64) -> String {
    let names = AccessFlags::from_bits_truncate(bits as u32).iter_names();
    names.map(|(name, _)| format!("IBV_ACCESS_{name}")).collect::<Vec<_>>().join(" and ")
}

fn state_name(state: u64) -> &'static str {
    match QpState::from_c(state as u32) {
        Some(QpState::Reset) => "IBV_QPS_RESET",
        Some(QpState::Init) => "IBV_QPS_INIT",
        Some(QpState::Rtr) => "IBV_QPS_RTR",
        Some(QpState::Rts) => "IBV_QPS_RTS",
        Some(QpState::Sqd) => "IBV_QPS_SQD",
        Some(QpState::Sqe) => "IBV_QPS_SQE",
        Some(QpState::Err) => "IBV_QPS_ERR",
        None => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All checks, with the words that they have had since they were added.
    const WORDS: [(u32, Check); 42] = [
        (1, Check::Changed),
        (2, Check::NotEnabled),
        (3, Check::NoResources),
        (4, Check::NoInitiator),
        (5, Check::Misaligned),
        (6, Check::RecvTooSmall),
        (7, Check::CqFull),
        (8, Check::NoRecv),
        (9, Check::Lid),
        (10, Check::Gid),
        (11, Check::NoProcess),
        (12, Check::Ended),
        (13, Check::OutOfReach),
        (14, Check::NoAnswer),
        (15, Check::State),
        (16, Check::Type),
        (17, Check::Dest),
        (18, Check::Psn),
        (19, Check::Qkey),
        (20, Check::Lost),
        (21, Check::Feigned),
        (22, Check::PortDown),
        (23, Check::Killed),
        (24, Check::NotBound),
        (25, Check::NoSrq),
        (26, Check::NoQp),
        (27, Check::Destroyed),
        (32, Check::Key(Memory::Local, KeyError::Unknown)),
        (33, Check::Key(Memory::Local, KeyError::ProtectionDomain)),
        (34, Check::Key(Memory::Local, KeyError::Bounds)),
        (35, Check::Key(Memory::Local, KeyError::Rights)),
        (36, Check::Key(Memory::Remote, KeyError::Unknown)),
        (37, Check::Key(Memory::Remote, KeyError::ProtectionDomain)),
        (38, Check::Key(Memory::Remote, KeyError::Bounds)),
        (39, Check::Key(Memory::Remote, KeyError::Rights)),
        (40, Check::Key(Memory::Recv, KeyError::Unknown)),
        (41, Check::Key(Memory::Recv, KeyError::ProtectionDomain)),
        (42, Check::Key(Memory::Recv, KeyError::Bounds)),
        (43, Check::Key(Memory::Recv, KeyError::Rights)),
        (48, Check::NotThere(Memory::Local)),
        (49, Check::NotThere(Memory::Remote)),
        (50, Check::NotThere(Memory::Recv)),
    ];

    #[test]
    fn words_of_checks_keep_their_meaning() {
        for word in 0..64 {
            let check = WORDS.iter().find(|(of, _)| *of == word).map(|(_, check)| *check);
            assert_eq!(Check::from_word(word), check, "{word}");
            assert!(check.is_none_or(|check| check.to_word() == word), "{word}");
        }
    }

    #[test]
    fn a_cause_survives_its_record() {
        let record = CauseRecord::default();
        assert_eq!(record.read(), None);
        for (_, check) in WORDS {
            let cause = Cause { check, key: 5, addr: 1 << 40, len: 7, found: u64::MAX, other: 3 };
            let blame = Blame {
                from: 9,
                pid: 77,
                claimer: 78,
                opcode: WrOpcode::AtomicWrite,
                number: 1 << 33,
                cause,
            };
            record.write(&blame);
            assert_eq!(record.read(), Some(blame));
            assert!(!cause.to_string().is_empty());
        }
        record.clear();
        assert_eq!(record.read(), None);
    }

    #[test]
    fn an_address_that_was_not_set_belongs_to_nobody() {
        let lid = Cause::of(Check::Lid, 0).to_string();
        assert_eq!(lid, "no port has the LID of the path, 0");
        assert_eq!(Cause::of(Check::Gid, 0).to_string(), "no port has the GID of the path, ::");
    }

    proptest::proptest! {
        /// A peer may write anything into the record.
        #[test]
        fn any_record_is_read(words in proptest::collection::vec(proptest::num::u64::ANY, 10)) {
            let record = CauseRecord::default();
            record.check.store(words[0] as u32 % 64, Relaxed);
            record.opcode.store(words[1] as u32 % 17, Relaxed);
            let to = [&record.number, &record.addr, &record.len, &record.found, &record.other];
            to.into_iter().zip(&words[2..]).for_each(|(to, word)| to.store(*word, Relaxed));
            if let Some(blame) = record.read() {
                let _ = blame.cause.to_string();
            }
        }
    }
}
