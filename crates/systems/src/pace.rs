//! When a thread's operations are due, in a closed loop or an open loop.

use crate::random::Random;
use doorbell_schema::Arrivals;
use doorbell_verbs::{Span, Time};
use std::collections::VecDeque;

/// Picoseconds of a second.
const SECOND: u64 = 1_000_000_000_000;

/// The mean span between two operations of a thread. All threads together have `rate` operations due per
/// second.
pub fn between(rate: u64, threads: u64) -> Span {
    Span::from_ps((u128::from(SECOND) * u128::from(threads) / u128::from(rate.max(1))) as u64)
}

/// Spans between operations in an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Fixed(Span),
    /// Exponential, with this mean.
    Poisson(Span),
}

/// Operations of a thread that are due now or later.
#[derive(Debug)]
pub struct Pace(Loop);

#[derive(Debug)]
enum Loop {
    /// An operation is due when earlier operations end.
    Closed {
        /// Due times of the operations that may begin, in order.
        due: VecDeque<Time>,
        outstanding: u32,
        /// Operations begin when the whole previous window has ended. Otherwise each begins when one
        /// operation has ended.
        windows: bool,
        think: Span,
    },
    /// Operations are due whether or not earlier ones have ended.
    Open { next: Time, between: Between, random: Random },
}

impl Pace {
    /// A closed loop that begins now.
    pub fn closed(outstanding: u32, windows: bool, think: Span, now: Time) -> Pace {
        Pace(Loop::Closed { due: vec![now; outstanding as usize].into(), outstanding, windows, think })
    }

    /// An open loop that begins at `now`, with a mean span of `between`. The thread has `number` among
    /// `threads` threads. If spans are fixed, the operations of the threads are due in turn.
    pub fn open(
        arrivals: Arrivals,
        between: Span,
        (number, threads): (u64, u64),
        now: Time,
        random: Random,
    ) -> Pace {
        let turn = u128::from(between.as_ps()) * u128::from(number) / u128::from(threads.max(1));
        match arrivals {
            Arrivals::Poisson => Pace::drawn(Between::Poisson(between), now, random),
            _ => Pace::drawn(Between::Fixed(between), now + Span::from_ps(turn as u64), random),
        }
    }

    /// An open loop. Its first operation is due at `first` if spans are fixed, else a drawn span later.
    fn drawn(between: Between, first: Time, mut random: Random) -> Pace {
        let next = match between {
            Between::Fixed(_) => first,
            Between::Poisson(mean) => first + random.exponential(mean),
        };
        Pace(Loop::Open { next, between, random })
    }

    /// When the next operation is due. [`Time::NEVER`] if an outstanding operation has to end first.
    pub fn next(&self) -> Time {
        match &self.0 {
            Loop::Closed { due, .. } => due.front().copied().unwrap_or(Time::NEVER),
            Loop::Open { next, .. } => *next,
        }
    }

    /// Begins an operation if one is due. Returns the time from which its latency counts: `now` in a closed
    /// loop, and the time at which it was due in an open loop.
    pub fn take(&mut self, now: Time) -> Option<Time> {
        if self.next() > now {
            return None;
        }
        match &mut self.0 {
            Loop::Closed { due, .. } => due.pop_front().map(|_| now),
            Loop::Open { next, between, random } => {
                let due = *next;
                *next += match between {
                    Between::Fixed(span) => *span,
                    Between::Poisson(mean) => random.exponential(*mean),
                };
                Some(due)
            }
        }
    }

    /// Notes that an operation has ended. `under_way` operations are still outstanding.
    pub fn ended(&mut self, now: Time, under_way: u32) {
        if let Loop::Closed { due, outstanding, windows, think } = &mut self.0 {
            let begin = match (windows, under_way) {
                (false, _) => 1,
                (true, 0) if due.is_empty() => *outstanding,
                (true, _) => 0,
            };
            due.extend((0..begin).map(|_| now + *think));
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ns: u64) -> Time {
        Time::START + Span::from_ns(ns)
    }

    #[test]
    fn a_closed_loop_replaces_what_ends() {
        let mut pace = Pace::closed(2, false, Span::from_ns(5), at(10));
        assert_eq!(
            (pace.take(at(9)), pace.take(at(11)), pace.take(at(11))),
            (None, Some(at(11)), Some(at(11)))
        );
        assert_eq!((pace.take(at(12)), pace.next()), (None, Time::NEVER));
        pace.ended(at(20), 1);
        assert_eq!((pace.next(), pace.take(at(24)), pace.take(at(26))), (at(25), None, Some(at(26))));
    }

    #[test]
    fn a_window_begins_when_all_have_ended() {
        let mut pace = Pace::closed(2, true, Span::from_ns(5), at(0));
        assert!(pace.take(at(0)).is_some() && pace.take(at(0)).is_some());
        pace.ended(at(7), 1);
        assert_eq!(pace.next(), Time::NEVER);
        pace.ended(at(9), 0);
        assert_eq!(pace.next(), at(14));
        assert!(pace.take(at(14)).is_some() && pace.take(at(14)).is_some() && pace.take(at(14)).is_none());
    }

    #[test]
    fn an_open_loop_is_late_by_what_it_waits() {
        let mut pace = Pace::drawn(Between::Fixed(Span::from_ns(10)), at(3), Random::new(1, 0));
        assert_eq!(
            [pace.take(at(24)), pace.take(at(24)), pace.take(at(24))],
            [Some(at(3)), Some(at(13)), Some(at(23))]
        );
        assert_eq!((pace.take(at(24)), pace.next()), (None, at(33)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        /// An interval of ten means has ten requests on average, with variance ten. The bounds are five
        /// standard errors: sqrt(10/n) for the mean, sqrt((2*100 + 10)/n) for the variance.
        #[test]
        fn poisson_counts_have_their_mean_and_variance(seed: u64, mean_ns in 1..1_000_000u64) {
            const INTERVALS: u64 = 4000;
            let mut pace = Pace::drawn(Between::Poisson(Span::from_ns(mean_ns)), at(0), Random::new(seed, 3));
            let count = |interval: u64| {
                let end = at((interval + 1) * 10 * mean_ns);
                std::iter::from_fn(|| pace.take(end)).count() as f64
            };
            let counts: Vec<f64> = (0..INTERVALS).map(count).collect();
            let n = INTERVALS as f64;
            let mean = counts.iter().sum::<f64>() / n;
            let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / n;
            prop_assert!((mean - 10.0).abs() < 5.0 * (10.0 / n).sqrt(), "mean {}", mean);
            prop_assert!((variance - 10.0).abs() < 5.0 * (210.0 / n).sqrt(), "variance {}", variance);
        }
    }
}
