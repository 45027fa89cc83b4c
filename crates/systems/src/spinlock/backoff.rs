//! Exponential back-off (Anderson 1990, as CLUSTER'21 cites it).

use crate::Interval;
use crate::random::Random;
use doorbell_verbs::{Provider, Span};

/// How long a client waits after a failure. The paper has no constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Maximum wait after the first failure; 0 for no waits at all.
    pub first: Span,
    /// Maximum wait after any failure.
    pub most: Span,
}

impl Waits {
    /// How long a client in a queue waits before it polls again, with this many turns before its own. A
    /// client that backs off by its failures may sleep through its turn (Mellor-Crummey and Scott 1991, on
    /// ticket locks).
    pub(crate) fn turns(&self, turns: u64) -> Span {
        Span::from_ps(self.first.as_ps().saturating_mul(turns)).min(self.most)
    }
}

/// The waits of an operation.
#[derive(Debug)]
pub(crate) struct Backoff {
    waits: Waits,
    /// Maximum of the next wait.
    next: Span,
}

impl Backoff {
    /// Waits of an operation that has not failed yet.
    pub(crate) fn new(waits: Waits) -> Backoff {
        Backoff { waits, next: waits.first }
    }

    /// How long to wait after a failure.
    pub(crate) fn next(&mut self, random: &mut Random) -> Span {
        let half = self.next.as_ps() / 2;
        self.next = Span::from_ps(self.next.as_ps().saturating_mul(2)).min(self.waits.most);
        Span::from_ps(half + random.below(half + 1))
    }

    /// Waits after a failure, for at least half of the span. So clients that failed together do not come back
    /// together.
    pub(super) fn wait<P: Provider>(&mut self, p: &P, random: &mut Random, interval: &Interval) {
        if self.next == Span::ZERO {
            // If threads share a processor, the lock's holder needs it.
            return p.pause(p.now());
        }
        let until = p.now() + self.next(random);
        while p.now() < until.min(interval.end()) {
            p.pause(until.min(interval.look()));
        }
    }
}
