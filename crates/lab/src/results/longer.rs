//! How much longer a run must be for a percentile of its latency.

use super::found::Found;
use super::outcome::Outcome;
use super::shown::MeasuredTime;
use super::uses::Latency;
use doorbell_programs::steady::{Ended, Warmed, needed};
use doorbell_schema::{Duration, Until};
use doorbell_verbs::Span;

/// A longer run lasts this many times as long as estimated, because operations vary.
const SPARE: f64 = 1.2;

/// Wall-clock seconds that a run may take unless the user gives another limit.
const USUAL_WALL: f64 = 60.0;

/// No run of more wall-clock seconds is suggested.
const MOST_WALL: f64 = 1e6;

/// Parts of the maximum of the virtual time, of which the last is measured if a run does not become steady.
const PARTS: f64 = 3.0;

/// Options with which a run measures enough latencies for a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Longer {
    /// The percentile that ends the run.
    pub until: Until,
    /// A maximum of the virtual time, if the run's own is too short.
    pub max_time: Option<Duration>,
    /// A maximum of the wall-clock time, if the usual one may be too short.
    pub max_wall: Option<Duration>,
}

impl Longer {
    /// Number of latencies that a percentile needs.
    pub fn needed(percentile: Until) -> u64 {
        percentile.quantile().map_or(0, needed)
    }

    /// Number of latencies with which a run probably knows a percentile.
    pub(crate) fn latencies(percentile: Until) -> f64 {
        SPARE * Longer::needed(percentile) as f64
    }

    /// The options with which a run knows `percentile`, judged by a run that had too few latencies. `None` if
    /// these are the options of that run, or if the longer run would take more than ten days.
    pub fn of(o: &Outcome, percentile: Until) -> Option<Longer> {
        let (asked, most) = o.end();
        let until = if asked == Some(Until::P999) { Until::P999 } else { percentile };
        let whole = whole(&o.measured, &o.latency_ns, until);
        let max_time = (whole > ps(most)).then(|| rounded_up(whole));
        let run = ps(o.measured.warmup) + ps(o.measured.duration);
        let seconds = o.wall_seconds * SPARE * whole / run;
        let is_cut = o.measured.ended == Ended::MaxWall;
        let max_wall = (is_cut || seconds > USUAL_WALL).then(|| rounded_up(seconds.ceil().max(1.0) * 1e12));
        let is_other = asked != Some(until) || max_time.is_some() || max_wall.is_some();
        (is_other && seconds <= MOST_WALL).then_some(Longer { until, max_time, max_wall })
    }
}

impl Found {
    /// Whether p99 probably needs more than this virtual time. Always false if the number of latencies is not
    /// known.
    pub fn exceeds(&self, max_time: Duration) -> bool {
        self.latency_ns.count > 0 && whole(&self.measured, &self.latency_ns, Until::P99) > ps(max_time)
    }
}

/// Estimated virtual time of a whole run with enough latencies for the percentile, in picoseconds.
fn whole(measured: &MeasuredTime, latency: &Latency, until: Until) -> f64 {
    let times = Longer::needed(until) as f64 / latency.count.max(1) as f64;
    let measure = ps(measured.duration) * times;
    let is_unsteady = measured.warmed == Some(Warmed::MaxTime);
    let all = if is_unsteady { PARTS * measure } else { ps(measured.warmup) + measure };
    SPARE * all
}

fn ps(duration: Duration) -> f64 {
    duration.span().as_ps() as f64
}

/// A duration of at least this many picoseconds, in two significant digits.
fn rounded_up(ps: f64) -> Duration {
    let unit = 10f64.powi((ps.max(10.0).log10().floor() as i32) - 1);
    Duration::new(Span::from_ps(((ps / unit).ceil() * unit) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(us: u64, warmed: Option<Warmed>) -> MeasuredTime {
        MeasuredTime {
            warmup: Duration::new(Span::from_us(us)),
            duration: Duration::new(Span::from_us(us)),
            ended: Ended::MaxTime,
            warmed,
            overrun: None,
            known_to: None,
        }
    }

    #[test]
    fn a_longer_run_has_enough_latencies() {
        let latency = Latency { count: 1000, ..Latency::none() };
        // 10 000 latencies take 1 ms after the warm-up of 100 us.
        let of = |warmed, until| whole(&measured(100, warmed), &latency, until) / SPARE / 1e6;
        assert!((of(None, Until::P99) - 1100.0).abs() < 0.1, "{}", of(None, Until::P99));
        assert!((of(None, Until::P999) - 10_100.0).abs() < 0.1);
        // The warm-up takes two thirds of any maximum.
        assert!((of(Some(Warmed::MaxTime), Until::P99) - 3000.0).abs() < 0.1);
    }

    #[test]
    fn durations_are_rounded_up() {
        for (ps, text) in [(1.51e12, "1600ms"), (2e12, "2s"), (61e12, "61s"), (1.0, "1ps"), (123e6, "130us")]
        {
            assert_eq!(rounded_up(ps).to_string(), text);
        }
    }
}
