//! How precisely a run knows its rate and mean latency, and why these may differ from the long-run values.

use doorbell_nic::{Digits, counted};
use doorbell_programs::steady::{Drift, Ended, FEWEST, Interval, Means, TURNS, Warmed, are_within, needed};
use doorbell_schema::{Duration, Share, Until};
use doorbell_verbs::Span;

/// At most this share of the measured time may look like warm-up.
const LOOKS_WARM: f64 = 0.1;

/// The end of a run, and its observations.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtEnd {
    /// Why the run ended.
    pub(super) ended: Ended,
    /// Why the warm-up ended; `None` if its length was given.
    pub(super) warmed: Option<Warmed>,
    /// The requested precision.
    pub(super) precision: Share,
    /// Means with their intervals, if they are known.
    pub(super) means: Option<Means>,
    /// Operations that completed in the measured time.
    pub(super) completed: u64,
    /// Virtual time that was measured.
    pub(super) span: Span,
    /// Maximum of the virtual time, and the time beyond it.
    pub(super) max_time: (Duration, Option<Duration>),
    /// Whether the measured time has the longest operation and the period of recurring events several times.
    pub(super) has_turned: bool,
    /// Whether a longer measurement had confirmed the intervals.
    pub(super) confirmed: bool,
    /// The requested percentile, if it is not known.
    pub(super) percentile: Option<Until>,
    /// Whether the run did not wait for a latency, because too few operations are signalled.
    pub(super) untimed: bool,
    /// Growth of the senders' lead over receivers, as a share of the operations that ended; 0 if small.
    pub(super) ahead: f64,
    /// Trends of the whole measured time that are no accident.
    pub(super) drift: Drift,
    /// Those of these trends that are straight lines. A short measurement of a given length may show another
    /// trend by chance.
    pub(super) straight: Drift,
    /// The first part of the measured time that looks like warm-up; `None` if the rate still changes.
    pub(super) warm: Option<Span>,
}

/// The share within which the rate and the mean latency are known, in two significant digits and rounded up;
/// `None` if one of them has no interval.
pub(super) fn known_to(means: Option<Means>) -> Option<Share> {
    let Means { rate, latency } = means?;
    Some(within(rate).max(within(latency?)))
}

/// The share within which a mean is known, in two significant digits and rounded up.
fn within(of: Interval) -> Share {
    let share = if of.half == 0.0 { 0.0 } else { of.half / of.mean };
    let millionths = (share * 1e6).ceil();
    let unit = 10f64.powi((millionths.max(1.0).log10().floor() as i32 - 1).max(0));
    Share::of_millionths(((millionths / unit).ceil() * unit).min(f64::from(u32::MAX)) as u32)
}

/// Says how precisely rate and mean latency are known, the less precise one first; `None` if one of them has
/// no interval.
fn less_precise(means: Option<Means>) -> Option<String> {
    let Means { rate, latency } = means?;
    let [rate, latency] = [rate, latency?].map(within);
    Some(match latency > rate {
        true => format!("the mean latency is known to {latency} only (the rate to {rate})"),
        false => format!("the rate is known to {rate} only (the mean latency to {latency})"),
    })
}

/// Until when a settled run lasted, in words. It knew the requested percentile, if one was requested. The
/// precision applies to rate and mean latency only.
pub(super) fn until(precision: Share, known_to: Option<Share>, percentile: Option<Until>) -> String {
    let percentile = percentile.filter(|until| until.quantile().is_some());
    match (known_to.map(|known| known.max(precision)), percentile) {
        (Some(known), None) => format!("until known to {known}"),
        (Some(known), Some(percentile)) => {
            format!("until rate and mean latency are known to {known} and {percentile} has an interval")
        }
        (None, _) => "until settled".to_owned(),
    }
}

impl AtEnd {
    /// Why the measured rate may differ from the long-run rate, in words; `None` if there is no reason.
    pub(super) fn doubt(&self) -> Option<String> {
        match self.ended {
            Ended::Overload => None,
            // Operations that were outstanding when the end was decided may have widened the intervals.
            Ended::Settled if self.is_known() => None,
            Ended::Settled => Some(self.not_known(&self.end())),
            Ended::MaxTime | Ended::MaxWall | Ended::Interrupted => self.cut_short(&self.end()),
            Ended::Duration => self.of_duration(),
        }
    }

    /// Why the requested percentile is not known, in words, for this number of latencies; `None` if it is
    /// known, or if none was requested.
    pub(super) fn no_percentile(&self, latencies: u64) -> Option<String> {
        let percentile = self.percentile?;
        let needed = needed(percentile.quantile()?);
        let end = self.end();
        Some(match latencies < needed {
            true => {
                format!("{percentile} has {latencies} of the {needed} latencies that it needs when {end}")
            }
            false => format!(
                "{percentile} has no interval when {end}, because neighbouring spans of time depend on each other"
            ),
        })
    }

    /// The end of the run, in words.
    fn end(&self) -> String {
        match self.ended {
            Ended::MaxTime => self.max_time_is_over(),
            Ended::MaxWall => "the run's share of the wall-clock time (--max-wall) is over".to_owned(),
            Ended::Interrupted => "the run is interrupted".to_owned(),
            Ended::Duration | Ended::Settled | Ended::Overload => "the run ends".to_owned(),
        }
    }

    fn is_known(&self) -> bool {
        are_within(self.means, self.precision, self.untimed)
    }

    fn is_few(&self) -> bool {
        self.completed < FEWEST
    }

    fn few(&self) -> String {
        let completed = counted(self.completed, "operation");
        format!("only {completed} completed, and an interval needs at least {FEWEST}")
    }

    fn max_time_is_over(&self) -> String {
        let (max_time, overrun) = self.max_time;
        let later = |over: Duration| {
            let us = over.span().as_ns() / 1000;
            format!(
                ", plus {us} us, the shortest time that can be measured after the work that threads had begun"
            )
        };
        let later = overrun.map_or_else(String::new, later);
        format!("the {max_time} of virtual time (--max-time) are over{later}")
    }

    /// The doubt about a run with intervals that are too wide.
    fn not_known(&self, when: &str) -> String {
        let cut = match self.warmed {
            Some(Warmed::MaxWall) => ", and the warm-up was cut short",
            _ => "",
        };
        let drifts = self.drifts(self.drift).map_or(String::new(), |drifts| format!(": {drifts}"));
        let is_less = known_to(self.means).is_some_and(|known| known > self.precision);
        match less_precise(self.means).filter(|_| is_less) {
            _ if self.is_few() => format!("{}, when {when}{cut}", self.few()),
            Some(known) => format!("{known}, not to {}, when {when}{cut}{drifts}", self.precision),
            None => {
                format!("rate and mean latency are not known to {} when {when}{cut}{drifts}", self.precision)
            }
        }
    }

    /// Says by how much the levels drift, if this may change a level by more than the precision.
    fn drifts(&self, drift: Drift) -> Option<String> {
        let (what, change) = match drift.rate.abs() >= drift.latency.abs() {
            true => ("rate", drift.rate),
            false => ("mean latency", drift.latency),
        };
        let way = if change > 0.0 { "rose" } else { "fell" };
        let percent = Digits(change.abs() * 100.0, 1);
        (!drift.is_within(self.precision))
            .then(|| format!("the {what} drifts: it {way} by {percent}% during the measured time"))
    }

    /// The doubt about a run that ended before it settled; `None` if only a percentile was missing.
    fn cut_short(&self, when: &str) -> Option<String> {
        if !self.is_known() {
            return Some(self.not_known(when));
        }
        let why = match self.warmed {
            _ if self.ahead > 0.0 => queues_up(self.ahead),
            _ if !self.has_turned => format!(
                "the longest operation or the time between recurring events is longer than 1/{TURNS} of the \
                 measured time"
            ),
            Some(Warmed::MaxTime | Warmed::MaxWall) => {
                "the warm-up was not over before the measurement".into()
            }
            _ if self.confirmed => return None,
            // The intervals of such a run do not allow for its trend.
            _ => match self.drifts(self.drift) {
                Some(drifts) => return Some(format!("{when}, and {drifts}")),
                None => "a longer measurement has not confirmed the intervals".into(),
            },
        };
        Some(format!("{why} when {when}"))
    }

    /// The doubt about a run of given duration.
    fn of_duration(&self) -> Option<String> {
        match self.warm {
            _ if self.is_few() => Some(self.few()),
            _ if self.ahead > 0.0 => {
                Some(format!("{}, until no buffer space is left", queues_up(self.ahead)))
            }
            None => Some("the rate still changes".into()),
            Some(warm) if warm.as_ps() as f64 > LOOKS_WARM * self.span.as_ps() as f64 => {
                Some(format!("the first {:.0} us look like warm-up", warm.as_ps() as f64 / 1e6))
            }
            Some(_) if self.means.is_none() => {
                Some("the rate changes too slowly for such a short measurement".into())
            }
            Some(_) if self.straight.largest() >= self.precision.of_one() => self.drifts(self.straight),
            Some(_) => None,
        }
    }
}

fn queues_up(ahead: f64) -> String {
    format!("{}% of the sent data queues up in flight", Digits(ahead * 100.0, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRECISION: Share = Share::of_percent(1);

    fn interval(share: f64) -> Interval {
        Interval { mean: 50.0, half: share * 50.0 }
    }

    /// Means with these relative half-widths.
    fn means(rate: f64, latency: Option<f64>) -> Option<Means> {
        Some(Means { rate: interval(rate), latency: latency.map(interval) })
    }

    /// All ways in which a run can end.
    fn all() -> Vec<AtEnd> {
        let some = |us| Some(Duration::new(Span::from_us(us)));
        let max_time = Duration::new(Span::from_ms(1000));
        let whys = [
            None,
            Some(Warmed::Steady),
            Some(Warmed::Overload),
            Some(Warmed::MaxTime),
            Some(Warmed::MaxWall),
        ];
        let known = [
            None,
            means(0.001, None),
            means(0.0, Some(0.0)),
            means(0.0097, Some(0.01)),
            means(0.01, Some(0.0101)),
            means(0.3, Some(0.002)),
            means(4.0, Some(9.0)),
        ];
        let mut all = Vec::new();
        for ended in Ended::ALL {
            for warmed in whys {
                for means in known {
                    for completed in [1, FEWEST - 1, FEWEST, 1_000_000] {
                        for (has_turned, ahead) in [(true, 0.0), (false, 0.0), (true, 0.02), (false, 0.02)] {
                            for (overrun, warm) in [(None, Some(0)), (some(7), Some(50)), (some(7), None)] {
                                let warm = warm.map(Span::from_us);
                                let means = means.filter(|_| completed >= FEWEST);
                                let (span, max_time) = (Span::from_us(100), (max_time, overrun));
                                let (precision, percentile) = (PRECISION, None);
                                all.push(AtEnd {
                                    ended,
                                    warmed,
                                    precision,
                                    means,
                                    completed,
                                    span,
                                    max_time,
                                    has_turned,
                                    ahead,
                                    drift: Drift::default(),
                                    straight: Drift::default(),
                                    warm,
                                    confirmed: false,
                                    percentile,
                                    untimed: false,
                                });
                            }
                        }
                    }
                }
            }
        }
        all
    }

    /// The shares that follow these words.
    fn shares(text: &str, words: &str) -> Vec<f64> {
        let after = text.split(words).skip(1);
        after.filter_map(|rest| rest.split(['%', ' ']).next()?.parse().ok()).collect()
    }

    #[test]
    fn no_result_is_known_and_not_known_to_one_precision() {
        let percentile = Some(Until::P99);
        let both = |end: AtEnd| [false, true].map(|confirmed| AtEnd { confirmed, percentile, ..end });
        for end in all().into_iter().flat_map(both) {
            let settled = |percentile| match end.ended {
                Ended::Settled => until(PRECISION, known_to(end.means), percentile),
                _ => String::new(),
            };
            let untils = format!("{}. {}", settled(None), settled(Some(Until::P99)));
            let whys = [end.doubt(), end.no_percentile(5), end.no_percentile(10_000)];
            let text = format!("{untils}. {}", whys.map(Option::unwrap_or_default).join(". "));
            let known = shares(&text.replace("not known to ", ""), "known to ");
            let not = [shares(&text, "not known to "), shares(&text, "not to ")].concat();
            for not in &not {
                assert!(known.iter().all(|known| known > not), "{text}: {end:?}");
            }
            // The words are true.
            assert!(not.is_empty() || !are_within(end.means, PRECISION, false), "{text}: {end:?}");
            let real = known_to(end.means).map(|share| share.of_one() * 100.0);
            assert!(known.iter().all(|known| real.is_none_or(|real| *known >= real)), "{text}: {end:?}");
        }
    }

    #[test]
    fn a_doubt_names_the_number_that_is_not_known() {
        let usual = all().into_iter().find(|end| end.ended == Ended::MaxWall && end.completed == 1_000_000);
        let doubt = |rate, latency| {
            let means = means(rate, Some(latency));
            AtEnd { means, ..usual.expect("there is one") }.doubt().expect("it is cut short")
        };
        let begins = |doubt: String, begin: &str| assert!(doubt.starts_with(begin), "{doubt}");
        begins(
            doubt(0.035, 0.21),
            "the mean latency is known to 21% only (the rate to 3.5%), not to 1%, when the run's share",
        );
        begins(
            doubt(0.3, 0.002),
            "the rate is known to 30% only (the mean latency to 0.2%), not to 1%, when",
        );
    }

    #[test]
    fn a_run_that_is_cut_short_has_a_reason() {
        for end in all() {
            let cut = matches!(end.ended, Ended::MaxTime | Ended::MaxWall | Ended::Interrupted);
            assert!(!cut || end.doubt().is_some(), "{end:?}");
            // A missing percentile is no doubt about the rate.
            let known = are_within(end.means, PRECISION, false) && end.has_turned && end.ahead == 0.0;
            let steady = !matches!(end.warmed, Some(Warmed::MaxTime | Warmed::MaxWall));
            let confirmed = AtEnd { confirmed: true, ..end };
            assert_eq!(cut && confirmed.doubt().is_none(), cut && known && steady, "{end:?}");
            let asked = AtEnd { percentile: Some(Until::P99), ..confirmed };
            assert_eq!((asked.doubt(), confirmed.no_percentile(0)), (confirmed.doubt(), None), "{asked:?}");
            for (latencies, said) in [(9999, "9999 of the 10000 latencies"), (10_000, "no interval")] {
                assert!(asked.no_percentile(latencies).unwrap().contains(said), "{asked:?}");
            }
            let settled = end.ended == Ended::Settled && are_within(end.means, PRECISION, false);
            assert!(!settled || end.doubt().is_none(), "{end:?}");
        }
    }

    #[test]
    fn a_run_that_drifts_says_so() {
        let drift = Drift { rate: -0.05, latency: 0.0 };
        let drifting = all().into_iter().map(|end| AtEnd { drift, straight: drift, ..end });
        let mut tried = 0;
        for end in drifting.filter(|end| end.has_turned && end.ahead == 0.0 && end.means.is_some()) {
            let is_known = are_within(end.means, PRECISION, false);
            let has_answer = end.ended == Ended::Overload || end.ended == Ended::Settled && is_known;
            let looks_warm = end.ended != Ended::Duration || end.warm == Some(Span::ZERO);
            if !has_answer && looks_warm && end.warmed == Some(Warmed::Steady) {
                tried += 1;
                let doubt = end.doubt().unwrap_or_default();
                assert!(
                    doubt.ends_with("the rate drifts: it fell by 5.00% during the measured time"),
                    "{doubt}"
                );
            }
            // The intervals of a confirmed run allow for the trend.
            let confirmed = AtEnd { confirmed: true, ..end };
            let is_cut = matches!(end.ended, Ended::MaxTime | Ended::MaxWall | Ended::Interrupted);
            let is_steady = end.warmed == Some(Warmed::Steady);
            assert!(!is_cut || !is_known || !is_steady || confirmed.doubt().is_none(), "{end:?}");
        }
        assert!(tried > 0);
    }

    #[test]
    fn a_rate_alone_is_known_if_nothing_can_be_timed() {
        let alone = all().into_iter().filter(|end| end.means == means(0.001, None));
        for end in alone.filter(|end| end.ended == Ended::Settled) {
            assert!(end.doubt().is_some(), "{end:?}");
            assert_eq!(AtEnd { untimed: true, ..end }.doubt(), None, "{end:?}");
        }
    }

    #[test]
    fn shares_are_rounded_up() {
        for (half, shown) in
            [(0.0103, "1.1%"), (0.01, "1%"), (0.000_312_3, "0.032%"), (4.001, "410%"), (0.0, "0%")]
        {
            assert_eq!(known_to(means(half, Some(0.0))).unwrap().to_string(), shown);
        }
        assert_eq!(known_to(means(0.01, None)), None);
    }
}
