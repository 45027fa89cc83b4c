//! Exponential back-off (Anderson 1990, as CLUSTER'21 cites it).

use crate::Interval;
use crate::random::Random;
use doorbell_verbs::{Provider, Span};

/// How long who has failed waits. The paper has no constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// After the first failure, at most; 0 for not at all, ever.
    pub first: Span,
    /// After any failure, at most.
    pub most: Span,
}

impl Waits {
    /// How long who knows its place in a queue waits until it looks again, with so many turns before its own: one that
    /// backs off by what has failed may sleep through its turn (Mellor-Crummey and Scott 1991, of ticket locks).
    pub(crate) fn turns(&self, turns: u64) -> Span {
        Span::from_ps(self.first.as_ps().saturating_mul(turns)).min(self.most)
    }
}

/// The waits of an operation.
#[derive(Debug)]
pub(crate) struct Backoff {
    waits: Waits,
    /// The next is at most so long.
    next: Span,
}

impl Backoff {
    /// Of one that has not failed yet.
    pub(crate) fn new(waits: Waits) -> Backoff {
        Backoff { waits, next: waits.first }
    }

    /// How long to wait after a failure.
    pub(crate) fn next(&mut self, random: &mut Random) -> Span {
        let half = self.next.as_ps() / 2;
        self.next = Span::from_ps(self.next.as_ps().saturating_mul(2)).min(self.waits.most);
        Span::from_ps(half + random.below(half + 1))
    }

    /// Waits after a failure, for at least half of the span: those that failed together do not come back together.
    pub(super) fn wait<P: Provider>(&mut self, p: &P, random: &mut Random, interval: &Interval) {
        if self.next == Span::ZERO {
            // Where threads share a processor, who has the lock needs it.
            return p.pause(p.now());
        }
        let until = p.now() + self.next(random);
        while p.now() < until.min(interval.end()) {
            p.pause(until.min(interval.look()));
        }
    }
}
