//! Sequential accesses of a core. Some lines of a stream are in flight before the core asks for them.

use crate::core::ps::Ps;

/// Streams tracked per core: the most recent ones. Processors track more (32 pages), but programs here use
/// few.
const FOLLOWED: usize = 8;

/// A line of memory: its allocation, and its number within the allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineNumber {
    pub(super) allocation: u32,
    pub(super) line: u32,
}

/// Times to get a line from its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FetchTime {
    /// Latency of a line outside any stream.
    pub(super) whole: Ps,
    /// Time from one line of a stream to the next: the latency divided by the number of lines in flight.
    pub(super) interval: Ps,
}

impl FetchTime {
    /// The times for a latency of `whole`. The number of lines in flight is the number that gives one line
    /// per `interval` at a latency of `near`.
    pub(super) fn of(whole: Ps, (near, interval): (Ps, Ps)) -> FetchTime {
        let interval = whole.share(interval.0, near.0.max(1));
        FetchTime { whole, interval: interval.min(whole) }
    }
}

/// A stream of accesses. The core last accessed the line before `next`.
#[derive(Clone, Copy)]
struct Stream {
    next: LineNumber,
    /// When `next` will be there.
    due: Ps,
}

impl Stream {
    /// Number of lines that the core skips if it continues the stream at line `at`; `None` if this line is
    /// not in flight yet.
    fn left_out(&self, at: LineNumber, way: FetchTime) -> Option<u64> {
        if self.next.allocation != at.allocation {
            return None;
        }
        let left_out = u64::from(at.line.checked_sub(self.next.line)?);
        (way.interval * (left_out + 1) <= way.whole).then_some(left_out)
    }
}

/// The streams of a core.
#[derive(Clone)]
pub(super) struct Streams([Stream; FOLLOWED]);

impl Default for Streams {
    fn default() -> Streams {
        let nowhere = LineNumber { allocation: u32::MAX, line: 0 };
        Streams([Stream { next: nowhere, due: Ps::ZERO }; FOLLOWED])
    }
}

impl Streams {
    /// When line `at` reaches a core that requests the line at time `asked`. A line of a stream comes one
    /// interval after the previous line. If the core is slow, the lines in flight are already there. Any
    /// other line takes the whole latency, and may begin a stream.
    pub(super) fn there(&mut self, asked: Ps, at: LineNumber, way: FetchTime) -> Ps {
        let next = LineNumber { line: at.line.wrapping_add(1), ..at };
        for stream in &mut self.0 {
            let Some(left_out) = stream.left_out(at, way) else { continue };
            let due = stream.due + way.interval * left_out;
            let there = due.max(asked);
            let ahead = way.whole - way.interval;
            *stream = Stream { next, due: due.max(there.saturating_sub(ahead)) + way.interval };
            return there;
        }
        let there = asked + way.whole;
        let oldest =
            self.0.iter_mut().min_by_key(|stream| stream.due).expect("a core has at least one stream");
        *oldest = Stream { next, due: there + way.interval };
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Five and a quarter lines are in flight.
    const FETCH: FetchTime = FetchTime { whole: Ps(84), interval: Ps(16) };

    fn line(line: u32) -> LineNumber {
        LineNumber { allocation: 0, line }
    }

    /// Time of each line for a core that loads the lines one after another, with `between` of other work
    /// before each.
    fn times(lines: impl IntoIterator<Item = LineNumber>, way: FetchTime, between: u64) -> Vec<u64> {
        let (mut streams, mut now) = (Streams::default(), Ps::ZERO);
        lines
            .into_iter()
            .map(|at| {
                let asked = now + Ps(between);
                now = streams.there(asked, at, way);
                (now - asked).0
            })
            .collect()
    }

    #[test]
    fn a_walk_takes_an_interval_for_each_line_and_a_way_to_the_first() {
        assert_eq!(times((7..11).map(line), FETCH, 0), [84, 16, 16, 16]);
    }

    #[test]
    fn what_is_not_in_order_takes_the_whole_way() {
        let lines = [5, 3, 4, 2, 900, 902];
        assert_eq!(
            times(lines.map(line), FETCH, 0),
            [84, 84, 16, 84, 84, 32],
            "4 goes on, 902 leaves one out"
        );
        assert_eq!(times([0, 6].map(line), FETCH, 0), [84, 84], "not under way yet");
        assert_eq!(times([0, 5].map(line), FETCH, 0), [84, 80], "the last that is");
        let other = LineNumber { allocation: 1, line: 1 };
        assert_eq!(times([line(0), other], FETCH, 0), [84, 84]);
    }

    #[test]
    fn who_is_slower_than_the_lines_finds_them() {
        assert_eq!(times((0..4).map(line), FETCH, 16), [84, 0, 0, 0]);
        assert_eq!(times((0..4).map(line), FETCH, 10), [84, 6, 6, 6]);
    }

    #[test]
    fn as_many_wait_for_a_core_as_are_under_way() {
        let (mut streams, mut late) = (Streams::default(), Ps(10_000));
        streams.there(Ps::ZERO, line(0), FETCH);
        let waits: Vec<u64> = (1..9)
            .map(|number| {
                let asked = late;
                late = streams.there(asked, line(number), FETCH);
                (late - asked).0
            })
            .collect();
        assert_eq!(waits, [0, 0, 0, 0, 0, 12, 16, 16]);
    }

    #[test]
    fn walks_side_by_side_do_not_disturb_each_other() {
        let both = (0..4).flat_map(|number| (0..FOLLOWED as u32).map(move |of| line(1000 * of + number)));
        let all = times(both, FETCH, 0);
        assert!(all[..FOLLOWED].iter().all(|time| *time == 84));
        assert!(all[FOLLOWED..].iter().all(|time| *time <= 16));
        let more = (0..4).flat_map(|number| (0..=FOLLOWED as u32).map(move |of| line(1000 * of + number)));
        assert!(times(more, FETCH, 0).iter().all(|time| *time == 84), "one too many");
    }

    #[test]
    fn a_longer_way_has_as_many_lines_under_way() {
        let of = |whole, interval| FetchTime::of(Ps(whole), (Ps(84), Ps(interval)));
        assert_eq!(of(84, 16), FETCH);
        assert_eq!(of(168, 16), FetchTime { whole: Ps(168), interval: Ps(32) });
        assert_eq!(of(84, 100).interval, Ps(84), "a walk is no slower than steps at random");
    }

    proptest! {
        /// In any order of accesses, a line takes at most twice the latency. Lines come no faster than the
        /// number in flight per latency allows.
        #[test]
        fn lines_come_no_faster_than_they_can(
            steps in prop::collection::vec((0u32..3, 0u64..200), 1..60),
            interval in 1u64..84,
        ) {
            let way = FetchTime { whole: Ps(84), interval: Ps(interval) };
            let (mut streams, mut now, mut at) = (Streams::default(), Ps::ZERO, 0);
            let mut came: Vec<u64> = Vec::new();
            for (left_out, between) in steps {
                let asked = now + Ps(between);
                now = streams.there(asked, line(at), way);
                prop_assert!(now - asked <= way.whole * 2);
                came.push(now.0);
                at += left_out + 1;
            }
            let under_way = 84 / interval + 1;
            for window in came.windows(under_way as usize + 2) {
                prop_assert!(window[window.len() - 1] - window[0] >= interval, "{window:?}");
            }
        }
    }
}
