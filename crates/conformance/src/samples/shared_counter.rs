//! Two threads of one machine count in one word of memory, and a third checks the sum. This uses no verbs.
//! The threads of a server share a sequencer in this way.

use super::ending::{SampleEnded, finish, patience};
use doorbell_verbs::{Cluster, Mem, PageSize, Program, Provider};

/// Increments of each kind by each thread.
const INCREMENTS: u64 = 1_000;
const COUNTERS: u64 = 2;

/// Offsets in the shared memory. Each word has its own cache line.
const COUNT: u64 = 0;
const FINISHED: u64 = 64;

/// Increments the count, alternately by fetch-and-add and by compare-and-swap.
struct Counter {
    shared: Mem,
}

/// Waits for the counters to finish and checks the sum.
struct SumChecker {
    shared: Mem,
}

pub(super) fn run<C: Cluster>(cluster: &mut C) -> Result<(), String> {
    let shared = cluster.alloc(0, 128, PageSize::Small).map_err(|error| error.to_string())?;
    let tasks = [
        cluster.spawn(0, 0, Counter { shared }),
        cluster.spawn(0, 1, Counter { shared }),
        cluster.spawn(0, 2, SumChecker { shared }),
    ];
    finish(cluster, &tasks)
}

impl Program for Counter {
    type Output = SampleEnded;

    fn run<P: Provider>(self, p: P) -> SampleEnded {
        let mut last = None;
        for _ in 0..INCREMENTS {
            let mine = [p.fetch_add_u64(self.shared, COUNT, 1), increment(&p, self.shared)];
            for number in mine {
                if last.is_some_and(|last| number <= last) {
                    return Err(format!("a thread drew {number} after {last:?}").into());
                }
                last = Some(number);
            }
        }
        p.fetch_add_u64(self.shared, FINISHED, 1);
        Ok(())
    }
}

/// Adds 1 by compare-and-swap. Returns the previous value.
fn increment<P: Provider>(p: &P, shared: Mem) -> u64 {
    let mut seen = p.load_u64(shared, COUNT);
    loop {
        let found = p.compare_swap_u64(shared, COUNT, seen, seen + 1);
        if found == seen {
            return found;
        }
        seen = found;
    }
}

impl Program for SumChecker {
    type Output = SampleEnded;

    fn run<P: Provider>(self, p: P) -> SampleEnded {
        let deadline = patience(&p);
        while p.load_u64(self.shared, FINISHED) < COUNTERS {
            if p.now() >= deadline {
                return Err("the counters did not finish".into());
            }
            p.pause(deadline);
        }
        let (sum, expected) = (p.load_u64(self.shared, COUNT), 2 * COUNTERS * INCREMENTS);
        if sum == expected {
            Ok(())
        } else {
            Err(format!("the threads counted to {sum} instead of {expected}").into())
        }
    }
}
