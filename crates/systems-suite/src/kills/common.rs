//! Common parts of all kills: clients that live, clients that are killed, and clients that come later.

use crate::check::Scale;
use crate::faults::Faults;
use crate::kill::{DEAD, Kill, KillWay, KillWindow};
use doorbell_systems::SystemError;
use doorbell_verbs::{PageSize, Program, Provider, Span};
use std::fmt::Debug;

/// Numbers of clients that live, that are killed, and that come later. They are numbered in this order.
pub(super) const LIVE: u32 = 2;
pub(super) const KILLED: u32 = 3;
pub(super) const LATE: u32 = 2;

/// All clients. It is also the number of the client that checks the result.
pub(super) const CLIENTS: u32 = LIVE + KILLED + LATE;

/// Machines of a check: the server's, and one for each client.
pub const MACHINES: u32 = 1 + CLIENTS;
/// Machines that exist at the start.
pub(super) const AT_FIRST: u32 = MACHINES - LATE;

/// Place of the client that checks the result. No thread of the server uses this core.
pub(super) const LOOKS: (u32, u32) = (0, 9);

/// Machine and core of a client.
pub(super) fn place(client: u32) -> (u32, u32) {
    (1 + client, 0)
}

/// Steps before one of which a client is killed.
pub(super) const STEPS: (u64, u64) = (0, 60);

/// The faults of a check: three clients are killed.
pub(super) fn faults(way: KillWay, seed: u64) -> Faults {
    faults_in(KillWindow::OfOthers, way, seed)
}

/// Like [`faults`], with a window of steps in the middle of an operation.
pub(super) fn faults_in(window: KillWindow, way: KillWay, seed: u64) -> Faults {
    let kill = Some(Kill::new((LIVE, KILLED), STEPS, way).of(window, seed));
    Faults { kill, seed, ..Faults::default() }
}

/// Whether a client is to be killed.
pub(super) fn is_killed(client: u32) -> bool {
    (LIVE..LIVE + KILLED).contains(&client)
}

/// Waits until a client is dead.
pub(super) fn lookup_death<P: Provider>(p: &P, client: u32) {
    p.lookup(&format!("{DEAD}{}", place(client).0));
}

/// Waits until a client may begin.
pub(super) fn wait_to_come<P: Provider>(p: &P, client: u32) {
    if let Some(before) = client.checked_sub(KILLED).filter(|before| *before >= LIVE) {
        lookup_death(p, before);
    }
}

pub(super) fn done_key(client: u32) -> String {
    format!("kills/done/{client}")
}

/// Announces that a client has done everything.
pub(super) fn say_done<P: Provider>(p: &P, client: u32) {
    p.publish(&done_key(client), &[]);
}

/// Waits until each client has done everything, or is dead.
pub(super) fn wait_for_all<P: Provider>(p: &P) {
    for client in 0..CLIENTS {
        if is_killed(client) {
            lookup_death(p, client);
        } else {
            p.lookup(&done_key(client));
        }
    }
}

/// Runs a client. A client that lives begins when it may, does `things` pieces of work, and announces that it
/// is done. A client that is to be killed works until then.
pub(super) fn live<P: Provider, T: Debug>(
    p: &P,
    client: u32,
    things: u64,
    does: impl FnOnce(u64) -> Result<T, SystemError>,
) -> Result<T, SystemError> {
    if is_killed(client) {
        until_killed(does(u64::MAX));
    }
    wait_to_come(p, client);
    let ended = does(things);
    say_done(p, client);
    ended
}

/// Panics. Other clients wait for the death of a client that is to be killed, so it must not end otherwise.
pub(super) fn until_killed<T: Debug>(ended: Result<T, SystemError>) -> ! {
    panic!("a client ended before it was killed: {ended:?}");
}

pub(super) fn told_key(client: u32) -> String {
    format!("kills/told/{client}")
}

/// Reports a client's progress before the client goes further. The last report outlives the client.
pub(super) fn tell<P: Provider>(p: &P, client: u32, words: &[u64]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    p.publish(&told_key(client), &bytes);
}

/// The last progress that a client reported.
pub(super) fn told<P: Provider>(p: &P, client: u32) -> Vec<u64> {
    p.lookup(&told_key(client)).as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// RC tries seven times, 67 ms each.
pub const RETRIES: Span = Span::from_ms(500);

/// Time after which a request to a dead machine has failed. NICs may make a time-out four times as long.
pub(super) const SILENCE: Span = Span::from_ms(500 * 4);

/// How long a process may wait for a processor.
pub(super) fn starved(scale: &Scale) -> Span {
    scale.retry * 200
}

/// Name that a client of a machine to be killed publishes when it gets its error. The client's number follows
/// the name. The value is when the oldest outstanding operation began, in nanoseconds, or empty if there was
/// none.
pub const UNDER_WAY: &str = "kills/under_way/";

pub(super) fn begun_key(client: u32) -> String {
    format!("kills/begun/{client}")
}

/// Ends with an error of the NIC, as a client of a dead machine must. Returns the time of that in
/// nanoseconds, and publishes when the oldest outstanding operation began.
pub(super) fn end_without_machine<P: Provider, T: Debug>(
    p: &P,
    client: u32,
    ended: Result<T, SystemError>,
    under_way: Option<u64>,
) -> Result<u64, SystemError> {
    let began = under_way.map(u64::to_le_bytes);
    p.publish(&format!("{UNDER_WAY}{client}"), began.as_ref().map_or(&[], |began| &began[..]));
    match ended {
        Err(SystemError::Completion(_)) => Ok(p.now().as_ns()),
        ended => {
            let why =
                format!("the machine of the server was killed, but client {client} ended with {ended:?}");
            Err(SystemError::Protocol(why))
        }
    }
}

/// Checks that all clients of a machine had their errors in time. `ended` has the time at which each ended
/// and, last, the time of the machine's death.
pub(super) fn in_time(ended: &[u64], scale: &Scale) -> Result<(), String> {
    let Some((gone, ended)) = ended.split_last() else { return Ok(()) };
    let most = SILENCE + starved(scale);
    match ended.iter().all(|at| at.saturating_sub(*gone) <= most.as_ns()) {
        true => Ok(()),
        false => Err(format!("the machine was gone at {gone} ns, but clients ended only at {ended:?} ns")),
    }
}

/// Returns when a machine is dead, in nanoseconds.
pub(super) struct HearsOfDeath(pub(super) u32);

impl Program for HearsOfDeath {
    type Output = Result<u64, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        p.lookup(&format!("{DEAD}{}", self.0));
        Ok(p.now().as_ns())
    }
}

/// A thread of a machine, which is killed once this many clients use the machine. The machine's other threads
/// are no clients.
pub(super) struct Dies(pub(super) u32);

impl Program for Dies {
    type Output = Result<u64, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        (0..self.0).for_each(|client| drop(p.lookup(&begun_key(client))));
        let memory = p.alloc(64, PageSize::Small)?;
        loop {
            p.store_u64(memory, 0, 0);
            let until = p.now() + Span::from_us(100);
            while p.now() < until {
                p.pause(until);
            }
        }
    }
}
