//! Decides for how long a run whose rate and mean latency are known continues, so that it also knows the 99th
//! percentile of latency.
//!
//! The decision depends on virtual times and counts, so it is equal on every machine.

use super::quantile::BEYOND;
use doorbell_verbs::{Span, Time};

/// The 99th percentile.
const USUAL: f64 = 0.99;

/// The run may become this many times as long.
const TIMES: u64 = 2;

/// The run may have this many events. With half a microsecond for an event, they take about ten seconds.
const EVENTS: f64 = 20e6;

/// The progress of a run whose rate and mean latency are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Start of the run.
    pub(super) begin: Time,
    /// Start of the measured time.
    pub(super) from: Time,
    /// The present time.
    pub(super) now: Time,
    /// Events so far.
    pub(super) events: u64,
    /// Latencies in the measured time so far.
    pub(super) timed: u64,
}

impl Progress {
    /// The progress at a later time, if events and latencies come as often as so far.
    pub(super) fn at(self, later: Time) -> Progress {
        let Progress { begin, from, now, events, timed } = self;
        let grown = |count: u64, since: Time| {
            let [so_far, then] = [now, later].map(|at| (at - since).as_ps().max(1) as f64);
            (count as f64 * then / so_far) as u64
        };
        Progress { begin, from, now: later, events: grown(events, begin), timed: grown(timed, from) }
    }

    /// Virtual time until which the run continues for the percentile; the present time if the percentile
    /// would cost too much.
    pub(super) fn continue_until(self) -> Time {
        let Progress { begin, from, now, events, timed } = self;
        let needed = BEYOND / (1.0 - USUAL);
        let measured = (now - from).as_ps() as f64;
        // The time of the whole run, if latencies come as often as so far.
        let all = (from - begin).as_ps() as f64 + measured * needed / timed.max(1) as f64;
        let run = (now - begin).as_ps().max(1) as f64;
        let affordable = all <= run * TIMES as f64 && events as f64 * all.max(run) / run <= EVENTS;
        let most = Span::from_ps((now - begin).as_ps().saturating_mul(TIMES));
        if affordable { begin + most } else { now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::START + Span::from_us(us)
    }

    /// A run that warmed up for 40 us and then measured for 60 us.
    const fn progress(timed: u64, events: u64) -> Progress {
        let (begin, from, now) = (Time::START, Time::from_ps(40_000_000), Time::from_ps(100_000_000));
        Progress { begin, from, now, events, timed }
    }

    #[test]
    fn a_run_continues_if_that_costs_no_more_than_twice_the_time() {
        // 10 000 latencies are needed. In 160 us, there are 8/3 as many as in 60 us.
        assert_eq!(progress(3750, 1_000_000).continue_until(), at(200));
        assert_eq!(progress(3749, 1_000_000).continue_until(), at(100));
        assert_eq!(progress(0, 1_000_000).continue_until(), at(100));
        // Enough latencies are there, but neighbours may still depend on each other.
        assert_eq!(progress(50_000, 1_000_000).continue_until(), at(200));
    }

    #[test]
    fn progress_goes_on_as_so_far() {
        let Progress { begin, from, now, events, timed } = progress(3000, 1_000_000).at(at(160));
        assert_eq!((begin, from, now, events, timed), (at(0), at(40), at(160), 1_600_000, 6000));
    }

    #[test]
    fn a_large_run_does_not_continue() {
        assert_eq!(progress(5000, 12_500_000).continue_until(), at(200));
        assert_eq!(progress(5000, 12_500_001).continue_until(), at(100));
    }
}
