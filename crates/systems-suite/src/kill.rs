//! Clients that are killed before they end, at a drawn step that other threads may observe.

use doorbell_systems::random::Random;
use doorbell_verbs::{Opcode, Provider, QpHandle, SendWr, Span};
use std::cell::Cell;

/// Kills clients. Others observe a thread only by its posts and its stores, so a client is killed before one
/// of these. Half of a WRITE is a step too: a WRITE leaves in two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The first killed client, and the number of killed clients.
    pub clients: (u32, u32),
    /// Steps before one of which each client is killed, counted from 0: the first, and how many there are.
    pub steps: (u64, u64),
    /// How clients are killed.
    pub way: KillWay,
    /// The steps that are in the middle of an operation.
    pub window: KillWindow,
    /// Whether the kill waits, from the drawn step on, for a step in the middle of an operation. Otherwise it
    /// comes before the drawn step.
    pub aims: bool,
}

/// The steps of a client that are in the middle of an operation. A client that is killed before one of them
/// leaves half of the operation behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillWindow {
    /// Operations of several work requests, some of which are posted or about to be. An operation begins with
    /// an atomic that draws a number, acquires a lock or reserves positions. It ends with the WRITE or the
    /// atomic that completes it. Its lists are a WRITE and more, except a word before a reservation, or they
    /// follow an atomic.
    Lists,
    /// Entries that the receiver has not been told of, or for which it has given no credit: the second half
    /// of a WRITE, an atomic, a READ, a WRITE of a word.
    Entries,
    /// A record whose mark was READ: a READ of more bytes than marks have.
    Records,
    /// No step, because the machine's processor takes no part in operations.
    OfOthers,
}

/// Largest number of bytes of marks that a READ takes together.
const MARKS: u64 = 512;

/// A step that other threads may observe.
#[derive(Clone, Copy)]
pub(crate) enum VisibleStep<'a> {
    /// The work request of this index of a list.
    Post(&'a [SendWr<'a>], usize),
    /// The second half of the WRITE of this index.
    Half(&'a [SendWr<'a>], usize),
    /// A store to memory.
    Store,
    /// A compare-and-swap by the thread's processor.
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

/// A list in words. Requests of one kind that follow each other appear once.
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

/// The request of a client to be killed, which it publishes as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedKill {
    /// Microseconds for which the client may go on. `None` if it stands still.
    pub lives_us: Option<u64>,
    /// Whether the step is in the middle of an operation.
    pub inside: bool,
    /// The step in words.
    pub step: String,
}

impl AskedKill {
    /// The request as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = [self.lives_us.unwrap_or(u64::MAX).to_le_bytes(), u64::from(self.inside).to_le_bytes()];
        [head.as_flattened(), self.step.as_bytes()].concat()
    }

    /// Parses a request's bytes. `None` if they are something else.
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
    /// The client stops for ever. Work requests that it has posted go on.
    Stops,
    /// The client's QPs are destroyed as well, as when a process exits. Threads of its machine live.
    LosesQps,
    /// The client asks the program that runs its machine as a process to kill that process. Until then the
    /// client stands still or, half of the time, goes on.
    Process,
}

/// Upper bound on the microseconds that a process lives after its request.
const LIVES_US: u64 = 3_000;

/// Name under which a client to be killed publishes an [`AskedKill`]. The client's machine follows the name.
pub const ASKS: &str = "kills/asks/";

/// Name that is published when a machine, or its only thread, is dead. The machine follows the name.
pub const DEAD: &str = "kills/dead/";

/// Further steps after which a client is killed at the latest, if it is to be killed in the middle of an
/// operation.
const AIMS: u64 = 300;

impl Kill {
    /// Kills clients before any of the steps, in the middle of an operation or not.
    pub fn new(clients: (u32, u32), steps: (u64, u64), way: KillWay) -> Kill {
        Kill { clients, steps, way, window: KillWindow::OfOthers, aims: false }
    }

    /// Sets the window of steps in the middle of an operation. With two of three seeds, processes are killed
    /// there.
    pub fn of(self, window: KillWindow, seed: u64) -> Kill {
        Kill { window, aims: self.way == KillWay::Process && !seed.is_multiple_of(3), ..self }
    }

    pub(crate) fn concerns(&self, client: u32) -> bool {
        let (first, count) = self.clients;
        (first..first + count).contains(&client)
    }
}

/// The death of a client.
pub(crate) struct Death {
    kill: Kill,
    /// Steps until the kill, or until it may come. `None` after the kill.
    left: Cell<Option<u64>>,
    /// Microseconds for which a process goes on after its request.
    goes_on: Option<u64>,
}

impl Death {
    /// The death of a client, if it is to be killed.
    pub(crate) fn of(kill: Option<Kill>, seed: u64, client: Option<u32>) -> Option<Death> {
        let kill = kill.filter(|kill| client.is_some_and(|client| kill.concerns(client)))?;
        let mut random = Random::new(seed, u64::from(client?) << 1);
        let aims = if kill.aims { AIMS } else { 0 };
        let left = Cell::new(Some(kill.steps.0 + random.below(kill.steps.1) + aims));
        let goes_on = (random.below(2) == 0).then(|| random.below(LIVES_US));
        Some(Death { kill, left, goes_on })
    }

    /// Whether this step is the last one.
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

    /// Comes to the next step. Does not return from the last one, unless the client goes on until it is
    /// killed.
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
            // Repeated pauses: in virtual time, an endless pause counts as a deadlock.
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

    /// The lists of the applications, and the requests before which a client is in the middle of an
    /// operation.
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
        // Two lists of a cold write, two of a hot write, and a read.
        assert_eq!(inside(KillWindow::Lists, &[add, read]), [false, true]);
        assert_eq!(inside(KillWindow::Lists, &[write, write]), [true, true]);
        assert_eq!(inside(KillWindow::Lists, &[swap, read]), [false, true]);
        assert_eq!(inside(KillWindow::Lists, &[write, swap]), [true, true]);
        assert_eq!(inside(KillWindow::Lists, &[read, read]), [false, false]);
        // An engine's word and reservation. Then an engine that has positions and waits for room.
        assert_eq!(inside(KillWindow::Lists, &[write, add]), [false, false]);
        assert_eq!(inside(KillWindow::Lists, &[write, read]), [true, true]);
        // A reader's READs of marks and of records.
        assert_eq!(
            (inside(KillWindow::Records, &[read]), inside(KillWindow::Records, &[records])),
            (vec![false], vec![true])
        );
        // Entries, and the requests that announce them.
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
