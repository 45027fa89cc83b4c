//! Exponential back-off (Anderson 1990, as CLUSTER'21 cites it).

use crate::Interval;
use crate::random::Random;
use doorbell_verbs::{Provider, Span};

/// How long a client waits after a failed attempt. The paper states no constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Maximum wait after the first failure; 0 for no waits at all.
    pub first: Span,
    /// Maximum wait after any failure.
    pub most: Span,
}

impl Waits {
    /// How long a client in a queue waits before it polls again, if `turns` other clients are before it. The
    /// wait does not depend on failures, because a client that backs off by its failures may sleep through
    /// its turn (Mellor-Crummey and Scott 1991, on ticket locks).
    pub(crate) fn turns(&self, turns: u64) -> Span {
        Span::from_ps(self.first.as_ps().saturating_mul(turns)).min(self.most)
    }
}

/// The state of an operation's back-off.
#[derive(Debug)]
pub(crate) struct Backoff {
    waits: Waits,
    /// Upper bound of the next wait.
    next: Span,
}

impl Backoff {
    /// The back-off of an operation that has not failed yet.
    pub(crate) fn new(waits: Waits) -> Backoff {
        Backoff { waits, next: waits.first }
    }

    /// Draws how long to wait after a failure.
    pub(crate) fn next(&mut self, random: &mut Random) -> Span {
        let half = self.next.as_ps() / 2;
        self.next = Span::from_ps(self.next.as_ps().saturating_mul(2)).min(self.waits.most);
        Span::from_ps(half + random.below(half + 1))
    }

    /// Waits after a failure, for a drawn time between half of the bound and the bound. Clients that failed
    /// together thus try again at different times.
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
