//! Clients that are gone before their end, at a drawn point of what others may see of them.

use doorbell_systems::random::Random;
use doorbell_verbs::{Opcode, Provider, QpHandle, SendWr, Span};
use std::cell::Cell;

/// What others see of a thread changes only by what it posts and what it stores: it is gone before one of these, half a WRITE
/// included, which leaves in two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The first client of those that are killed, and how many there are.
    pub clients: (u32, u32),
    /// Each of them before one of these steps, from 0: the first, and how many there are.
    pub steps: (u64, u64),
    /// How.
    pub way: KillWay,
    /// Which steps are in the middle of something.
    pub window: KillWindow,
    /// Whether it is the first step in the middle of something, from the drawn one on, rather than the drawn one itself.
    pub aims: bool,
}

/// Which steps of a client are in the middle of something: who is gone before one of them leaves half of it behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillWindow {
    /// What is done with several work requests, of which some are posted or about to be: from an atomic that takes a number or a lock, or that reserves
    /// positions, to the WRITE or the atomic by which all is there. Lists of these are a WRITE and more, but for a word before a reservation; or follow an atomic.
    Lists,
    /// Entries of which the receiver is not told, or for which it has given no credit: the second half of a WRITE, an atomic, a READ, a WRITE of a word.
    Entries,
    /// A record of which the mark was READ: a READ of more than marks.
    Records,
    /// Steps say nothing of it: the processor of the machine takes no part.
    OfOthers,
}

/// Bytes of marks that are READ together at most.
const MARKS: u64 = 512;

/// A thing that others may see.
#[derive(Clone, Copy)]
pub(crate) enum VisibleStep<'a> {
    /// The work request of this number of a list.
    Post(&'a [SendWr<'a>], usize),
    /// The second half of the WRITE of this number.
    Half(&'a [SendWr<'a>], usize),
    /// A store to memory.
    Store,
    /// A compare-and-swap of its processor.
    Swap,
}

impl KillWindow {
    fn has(self, step: VisibleStep<'_>) -> bool {
        let (VisibleStep::Post(list, index) | VisibleStep::Half(list, index)) = step else { return false };
        let opcode = |index: usize| list[index].op.opcode();
        let is_atomic = |index| matches!(opcode(index), Opcode::FetchAdd | Opcode::CompareSwap);
        match self {
            KillWindow::Lists => {
                let is_reservation = opcode(list.len() - 1) == Opcode::FetchAdd;
                let writes = list.len() > 1 && opcode(0) == Opcode::Write && !is_reservation;
                writes || (index > 0 && is_atomic(0))
            }
            KillWindow::Entries => {
                let is_credit = opcode(index) == Opcode::Write && list[index].length() <= 8;
                matches!(step, VisibleStep::Half(..))
                    || is_atomic(index)
                    || opcode(index) == Opcode::Read
                    || is_credit
            }
            KillWindow::Records => opcode(index) == Opcode::Read && list[index].length() > MARKS,
            KillWindow::OfOthers => false,
        }
    }
}

/// A list in words: several of one kind that follow each other are one.
fn kinds(list: &[SendWr<'_>]) -> String {
    let mut names: Vec<&str> = list.iter().map(name).collect();
    names.dedup();
    names.join(", ")
}

fn name(wr: &SendWr<'_>) -> &'static str {
    match (wr.op.opcode(), wr.length()) {
        (Opcode::Write, 0..=8) => "WRITE of a word",
        (Opcode::Write, _) => "WRITE",
        (Opcode::Read, 0..=MARKS) => "READ",
        (Opcode::Read, _) => "long READ",
        (Opcode::FetchAdd, _) => "FETCH_ADD",
        (Opcode::CompareSwap, _) => "COMPARE_SWAP",
        _ => "SEND",
    }
}

impl std::fmt::Display for VisibleStep<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            VisibleStep::Post(list, 0) => write!(f, "before {}", kinds(list)),
            VisibleStep::Post(list, index) => {
                write!(f, "between {} and {}", kinds(&list[..*index]), kinds(&list[*index..]))
            }
            VisibleStep::Half(list, index) => write!(f, "in the middle of {}", kinds(&list[*index..])),
            VisibleStep::Store => f.write_str("before a store"),
            VisibleStep::Swap => f.write_str("before a compare-and-swap of its own memory"),
        }
    }
}

/// What is said of a step by who asks to be killed, as bytes: for how many microseconds it may still live, whether the step is in the middle of something, and which it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedKill {
    /// For how long it may live, if it goes on.
    pub lives_us: Option<u64>,
    /// Whether it is in the middle of something.
    pub inside: bool,
    /// The step in words.
    pub step: String,
}

impl AskedKill {
    /// As it is published.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = [self.lives_us.unwrap_or(u64::MAX).to_le_bytes(), u64::from(self.inside).to_le_bytes()];
        [head.as_flattened(), self.step.as_bytes()].concat()
    }

    /// From that; nothing if it is something else.
    pub fn from_bytes(bytes: &[u8]) -> Option<AskedKill> {
        let (lives, rest) = bytes.split_first_chunk()?;
        let (inside, step) = rest.split_first_chunk()?;
        let lives = u64::from_le_bytes(*lives);
        let step = String::from_utf8_lossy(step).into_owned();
        Some(AskedKill {
            lives_us: (lives != u64::MAX).then_some(lives),
            inside: u64::from_le_bytes(*inside) == 1,
            step,
        })
    }
}

/// How a client is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillWay {
    /// It stops for ever. What it has posted goes on.
    Stops,
    /// Its QPs are gone as well, as those of a process are. Threads of its machine live.
    LosesQps,
    /// Who runs its machine as a process is asked to kill that. The client stands still until then, or, half of the time, goes on.
    Process,
}

/// How long a process lives at most after it has been asked for.
const LIVES_US: u64 = 3_000;

/// Published by who is to be killed, followed by its machine: with an [`AskedKill`].
pub const ASKS: &str = "kills/asks/";

/// Published when a machine, or its one thread, is gone, followed by the machine.
pub const DEAD: &str = "kills/dead/";

/// After how many steps more a client that is to be caught in the middle of something is gone anyway.
const AIMS: u64 = 300;

impl Kill {
    /// Clients that are gone before any step.
    pub fn new(clients: (u32, u32), steps: (u64, u64), way: KillWay) -> Kill {
        Kill { clients, steps, way, window: KillWindow::OfOthers, aims: false }
    }

    /// The same where steps of a window are in the middle of something. Processes are killed there with two of three seeds.
    pub fn of(self, window: KillWindow, seed: u64) -> Kill {
        Kill { window, aims: self.way == KillWay::Process && !seed.is_multiple_of(3), ..self }
    }

    pub(crate) fn concerns(&self, client: u32) -> bool {
        let (first, count) = self.clients;
        (first..first + count).contains(&client)
    }
}

/// What ends a client.
pub(crate) struct Death {
    kill: Kill,
    /// Steps until then, or until it may be; none once it was.
    left: Cell<Option<u64>>,
    /// Where it is a process: for how many microseconds it goes on.
    goes_on: Option<u64>,
}

impl Death {
    /// That of a client, if it is killed.
    pub(crate) fn of(kill: Option<Kill>, seed: u64, client: Option<u32>) -> Option<Death> {
        let kill = kill.filter(|kill| client.is_some_and(|client| kill.concerns(client)))?;
        let mut random = Random::new(seed, u64::from(client?) << 1);
        let aims = if kill.aims { AIMS } else { 0 };
        let left = Cell::new(Some(kill.steps.0 + random.below(kill.steps.1) + aims));
        let goes_on = (random.below(2) == 0).then(|| random.below(LIVES_US));
        Some(Death { kill, left, goes_on })
    }

    /// Whether a step is the last one.
    fn is_last(&self, step: VisibleStep<'_>) -> bool {
        match self.left.get() {
            None => false,
            Some(left) => {
                let is_it = left == 0 || (left <= AIMS && self.kill.aims && self.kill.window.has(step));
                self.left.set((!is_it).then(|| left - 1));
                is_it
            }
        }
    }

    /// Comes to the next step; does not return from the last one, unless it goes on until it is killed.
    pub(crate) fn step<P: Provider>(
        &self,
        below: &P,
        step: VisibleStep<'_>,
        qps: impl FnOnce() -> Vec<QpHandle>,
    ) {
        if !self.is_last(step) {
            return;
        }
        let machine = below.machine();
        match self.kill.way {
            KillWay::Stops => below.publish(&format!("{DEAD}{machine}"), &[]),
            KillWay::LosesQps => {
                qps().into_iter().for_each(|qp| below.destroy_qp(qp));
                below.publish(&format!("{DEAD}{machine}"), &[]);
            }
            KillWay::Process => {
                let (lives_us, inside) = (self.goes_on, self.kill.window.has(step));
                let asked = AskedKill { lives_us, inside, step: step.to_string() };
                below.publish(&format!("{ASKS}{machine}"), &asked.to_bytes());
                if self.goes_on.is_some() {
                    return;
                }
            }
        }
        loop {
            // Not without an end: a run in virtual time would take it for a deadlock.
            below.pause(below.now() + Span::from_ms(1_000));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_verbs::{RemoteAddr, SendOp, Sge};

    #[test]
    fn what_is_asked_comes_back_from_its_bytes() {
        for lives_us in [None, Some(0), Some(7)] {
            let asked = AskedKill { lives_us, inside: lives_us.is_some(), step: "before WRITE".into() };
            assert_eq!(AskedKill::from_bytes(&asked.to_bytes()), Some(asked));
        }
        assert_eq!(AskedKill::from_bytes(&[0; 15]), None);
    }

    /// The lists of the applications, and before which of their requests somebody would be in the middle of something.
    #[test]
    fn windows_are_between_what_begins_and_what_ends() {
        let remote = RemoteAddr::default();
        let sges = |length| [Sge { addr: 0, length, lkey: 0 }];
        let (word, record) = (sges(8), sges(1024));
        let write = SendWr::new(0, SendOp::Write(remote), &word);
        let (read, records) =
            (SendWr::new(0, SendOp::Read(remote), &word), SendWr::new(0, SendOp::Read(remote), &record));
        let add = SendWr::new(0, SendOp::FetchAdd { remote, add: 1 }, &word);
        let swap = SendWr::new(0, SendOp::CompareSwap { remote, compare: 0, swap: 1 }, &word);
        let inside = |window: KillWindow, list: &[SendWr<'_>]| -> Vec<bool> {
            (0..list.len()).map(|index| window.has(VisibleStep::Post(list, index))).collect()
        };
        // A cold write, a hot one, reads, and a lock of another.
        assert_eq!(inside(KillWindow::Lists, &[add, read]), [false, true]);
        assert_eq!(inside(KillWindow::Lists, &[write, write]), [true, true]);
        assert_eq!(inside(KillWindow::Lists, &[swap, read]), [false, true]);
        assert_eq!(inside(KillWindow::Lists, &[write, swap]), [true, true]);
        assert_eq!(inside(KillWindow::Lists, &[read, read]), [false, false]);
        // An engine's word and reservation, and its wait for room with positions.
        assert_eq!(inside(KillWindow::Lists, &[write, add]), [false, false]);
        assert_eq!(inside(KillWindow::Lists, &[write, read]), [true, true]);
        // A reader's marks and records.
        assert_eq!(
            (inside(KillWindow::Records, &[read]), inside(KillWindow::Records, &[records])),
            (vec![false], vec![true])
        );
        // Entries and what tells of them.
        let entries = SendWr { op: SendOp::Write(remote), ..records };
        assert_eq!(inside(KillWindow::Entries, &[entries]), [false]);
        assert!(KillWindow::Entries.has(VisibleStep::Half(&[entries], 0)));
        assert_eq!(
            (inside(KillWindow::Entries, &[write]), inside(KillWindow::Entries, &[add])),
            (vec![true], vec![true])
        );
        assert_eq!(
            VisibleStep::Post(&[entries, entries, write, swap], 1).to_string(),
            "between WRITE and WRITE, WRITE of a word, COMPARE_SWAP"
        );
    }
}
