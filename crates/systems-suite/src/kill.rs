//! Clients that are gone before their end, at a drawn point of what others may see of them.

use doorbell_systems::random::Random;
use doorbell_verbs::{Provider, QpHandle, Span};
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
    pub way: Way,
}

/// How a client is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It stops for ever. What it has posted goes on.
    Stops,
    /// Its QPs are gone as well, as those of a process are. Threads of its machine live.
    LosesQps,
    /// Who runs its machine as a process is asked to kill that. The client stands still until then, or, half of the time, goes on.
    Process,
}

/// How long a process lives at most after it has been asked for.
const LIVES_US: u64 = 3_000;

/// Published by who is to be killed, followed by its machine: with for how many microseconds it may still live.
pub const ASKS: &str = "kills/asks/";

/// Published when a machine, or its one thread, is gone, followed by the machine.
pub const DEAD: &str = "kills/dead/";

impl Kill {
    pub(crate) fn concerns(&self, client: u32) -> bool {
        let (first, count) = self.clients;
        (first..first + count).contains(&client)
    }
}

/// What ends a client.
pub(crate) struct Death {
    way: Way,
    /// Steps until then.
    left: Cell<Option<u64>>,
    /// Where it is a process: for how many microseconds it goes on.
    goes_on: Option<u64>,
}

impl Death {
    /// That of a client, if it is killed.
    pub(crate) fn of(kill: Option<Kill>, seed: u64, client: Option<u32>) -> Option<Death> {
        let kill = kill.filter(|kill| client.is_some_and(|client| kill.concerns(client)))?;
        let mut random = Random::new(seed, u64::from(client?) << 1);
        let left = Cell::new(Some(kill.steps.0 + random.below(kill.steps.1)));
        let goes_on = (random.below(2) == 0).then(|| random.below(LIVES_US));
        Some(Death { way: kill.way, left, goes_on })
    }

    /// Comes to the next step; does not return from the last one, unless it goes on until it is killed.
    pub(crate) fn step<P: Provider>(&self, below: &P, qps: impl FnOnce() -> Vec<QpHandle>) {
        let Some(left) = self.left.get() else { return };
        self.left.set(left.checked_sub(1));
        if left > 0 {
            return;
        }
        let machine = below.machine();
        match self.way {
            Way::Stops => below.publish(&format!("{DEAD}{machine}"), &[]),
            Way::LosesQps => {
                qps().into_iter().for_each(|qp| below.destroy_qp(qp));
                below.publish(&format!("{DEAD}{machine}"), &[]);
            }
            Way::Process => {
                let us = self.goes_on.unwrap_or(0);
                below.publish(&format!("{ASKS}{machine}"), &us.to_le_bytes());
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
