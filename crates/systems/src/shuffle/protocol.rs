//! An executor that shuffles one input in every round, until its interval ends.

use super::config::Shuffle;
use super::executor::Executor;
use super::incoming::TakenEntries;
use super::layout::Plan;
use super::rule::receiver;
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{AccessFlags, Mem, Program, Provider, Scan, Touch};

/// Prefix of the keys that are published.
pub const SERVICE: &str = "shuffle";

/// Bytes from one access to the next when a receiver scans arrived entries.
const LINE: u32 = 64;

/// An executor.
#[derive(Clone, Debug)]
pub(super) struct ShuffleClient {
    pub(super) number: u32,
    pub(super) shuffle: Shuffle,
    pub(super) plan: Plan,
    pub(super) inboxes: Vec<Mem>,
    pub(super) input: Mem,
    pub(super) interval: Interval,
}

impl Program for ShuffleClient {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let ShuffleClient { number, shuffle, plan, inboxes, input, interval } = self;
        let mut executor = Executor::open(&p, &plan, &shuffle.seats(), number, &inboxes, SERVICE)?;
        let source = executor.device().register(input, AccessFlags::LOCAL_WRITE)?;
        let interval = interval.begin(&p);
        executor.measure(interval.clone());
        let entry = u64::from(plan.entry);
        // The receiver scans arrived entries, as the next stage of a program would do first.
        let sink = |taken: TakenEntries| {
            let scan = Scan { touch: Touch::Load, step: LINE, instructions: 4 };
            p.scan(taken.mem, taken.offset, taken.entries * entry, scan);
            Ok(())
        };
        let entries = if plan.sending().contains(&number) { shuffle.input_entries(number) } else { 0 };
        while !executor.is_over(sink)? {
            let rule = |key| receiver(key, plan.receivers);
            let ends = || number == 0 && p.now() >= interval.end();
            executor.round(&source, 0..entries, rule, ends, sink)?;
        }
        Ok(executor.leave())
    }
}
